"""Options that several commands take; nothing heavy is imported for them."""

from pathlib import Path
from typing import Annotated

import typer

ScenarioArgument = Annotated[Path | None, typer.Argument(help="A scenario file; --preset names a built-in one.")]


def _presets() -> list[str]:
    from potluck.scenario import PRESETS  # imports JAX, which help should not wait for

    return list(PRESETS)


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
