"""Options that several commands take; nothing heavy is imported for them."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["JsonOption", "PresetOption", "RunArgument", "ScenarioArgument"]

ScenarioArgument = Annotated[Path | None, typer.Argument(help="A scenario file; --preset names a built-in one.")]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", "-p", help="paper (default), dilemma, literal, percent, per-thousand, lineage."),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, as given to --out.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
