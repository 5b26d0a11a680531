"""`potluck sweep`: one training for every cell of a grid, side by side."""

import json as jsonlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from potluck.cli.options import JsonOption, takes
from potluck.cli.progress import TrainingDisplay, to_the_end
from potluck.cli.runtime import start_cores
from potluck.cli.tables import around, output, plain_table
from potluck.cli.train import RUN_OPTIONS, CheckpointOption, run_config
from potluck.errors import PotluckError, file_faults

if TYPE_CHECKING:
    from potluck.training.sweep import SweepConfig, SweepProgress

PICTURE = "sweep.png"


@takes(RUN_OPTIONS)
def sweep(
    *,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="A number of the scenario and its values, FIELD=V,V,… or FIELD=FROM:TO:POINTS; repeatable."),
    ] = None,
    asked: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder of the sweep.")] = Path("sweeps/sweep"),
    checkpoint: CheckpointOption = 20.0,
    json: JsonOption = False,
) -> None:
    """Train once for every value of a field, or every combination of several.

    Cells and seeds are trained side by side. Numbers do not recompile: cells that differ in numbers only are one
    program. The folder gets sweep.csv (a row per cell, seed and window) and a picture. Stop it however you like;
    [bold]potluck resume[/bold] goes on.

    [bold]potluck sweep my.toml --vary mechanism.intensity=0,1,2,4,5,8,16,32 --out sweeps/x[/bold]

    [bold]potluck sweep --vary energy_price=0.0025,0.02 --vary discount=0.5:1:3 --out sweeps/grid[/bold]
    """
    from potluck.training.sweep import SweepConfig, begin_sweep

    begin_sweep(SweepConfig(run_config(**asked), tuple(map(_varied, vary or ()))), out)
    resume_sweep(out, checkpoint, json)


def _varied(text: str) -> tuple[str, tuple[float, ...]]:
    """`FIELD=V,V,…` or `FIELD=FROM:TO:POINTS`."""
    import numpy as np

    from potluck.training.sweep import MOST_CELLS

    name, _, values = text.partition("=")
    try:
        if ":" in values:
            low, high, points = values.split(":")
            numbers = tuple(np.linspace(float(low), float(high), min(int(points), MOST_CELLS + 1)).tolist())
        else:
            numbers = tuple(float(value) for value in values.split(","))
    except ValueError:
        numbers = ()
    if not name or not numbers or not np.isfinite(numbers).all():
        raise PotluckError(f"must be FIELD=V,V,… or FIELD=FROM:TO:POINTS, got {text!r}", field="vary")
    return name, numbers


def resume_sweep(folder: Path, checkpoint: float, json: bool) -> None:
    """Train what is not done yet, then show the table and draw the picture."""
    start_cores()
    from potluck.studies.sweeps import by_cell, draw_sweep
    from potluck.training.sweep import TABLE, read_sweep, run_sweep

    config = read_sweep(folder)
    begun, running = time.monotonic(), [0]
    with TrainingDisplay({"": config.base.seeds}) as display:

        def show(step: "SweepProgress") -> None:
            if step.program != running[0]:
                running[0] = step.program
                display.restart("", step.cells * config.base.seeds)
            display.update("", step.progress)

        advice = f"resume with: potluck resume {folder}"
        to_the_end(run_sweep(folder, interval=checkpoint), show, display.stop, advice)
    found = by_cell(folder / TABLE, config)
    with file_faults(folder / PICTURE, failed="not written"):
        draw_sweep(found, config, folder / PICTURE)
    seconds = time.monotonic() - begun
    if json:
        typer.echo(jsonlib.dumps({"sweep": str(folder), "seconds": round(seconds, 3), "cells": found}))
        return
    output().print(_by_cell(found, config))
    typer.echo(f"Table: {folder / TABLE}. Picture: {folder / PICTURE}. Took {seconds:.0f} s.")


def _short(names: Sequence[str]) -> list[str]:
    """The last words of dotted names, where they tell them apart: a table has 80 columns."""
    last = [name.rpartition(".")[2] for name in names]
    return last if len(set(last)) == len(last) else list(names)


def _by_cell(found: list[dict[str, Any]], config: "SweepConfig") -> Table:
    """One line per cell."""
    seeds = config.base.seeds
    table = plain_table(
        *_short(config.names), "welfare", "P", "mean d",
        title=f"{config.base.agent}: the last tenth of the windows, while exploring",
        caption=f"mean and half of its 95% interval over {seeds} seed{'s' * (seeds > 1)}",
    )  # fmt: skip
    for cell in found:
        table.add_row(
            *(f"{value:g}" for value in cell["values"].values()),
            around(cell["welfare"], ".2f"),
            f"{cell['precision']['mean']:.4f}",
            f"{cell['contribution']['mean']:.3f}",
        )
    return table
