"""Options that several commands take; nothing heavy is imported for them."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer


def _presets() -> list[str]:
    from potluck.scenario import PRESETS  # imports JAX, which help should not wait for

    return list(PRESETS)


ScenarioArgument = Annotated[Path | None, typer.Argument(help="A scenario file; --preset names a built-in one.")]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        "-p",
        help="A built-in scenario, paper by default; `potluck list preset` names them.",
        autocompletion=_presets,
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, as given to --out.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def takes(options: Mapping[str, tuple[Any, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options by name, each an annotation and a default, where it has `asked`; they arrive as that."""

    def taking(command: Callable[..., None]) -> Callable[..., None]:
        own, parameters = inspect.signature(command), list[inspect.Parameter]()
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
        for parameter in own.parameters.values():
            parameters += shared if parameter.name == "asked" else [parameter]

        @functools.wraps(command)
        def filled(**values: Any) -> None:
            command(asked={name: values.pop(name) for name in options}, **values)

        filled.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return filled

    return taking
