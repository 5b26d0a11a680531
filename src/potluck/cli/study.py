"""`potluck study`: the paper's evaluation, as one command."""

import json as jsonlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, PresetOption, ScenarioArgument
from potluck.cli.progress import Watching, to_the_end
from potluck.cli.runtime import chosen_scenario, start_cores
from potluck.cli.tables import output, plain_table
from potluck.cli.train import CheckpointOption, trained_on

if TYPE_CHECKING:
    from potluck.studies.paper.work import Step

commands = typer.Typer(no_args_is_help=True, help="The paper's evaluation, reproduced and judged.")
StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study, as given to --out.")]
OTHERS = ("literal", "dilemma")
"""Presets that are judged beside `paper`."""


@commands.command()
def paper(
    path: ScenarioArgument = None,
    preset: PresetOption = None,
    task: Annotated[str | None, typer.Option(help="Train for real on this task; else as the scenario says.")] = None,
    model: Annotated[str | None, typer.Option(help="What silos train; the task's own otherwise.")] = None,
    dtype: Annotated[str | None, typer.Option(help="What silos compute in; bfloat16 is faster on a GPU.")] = None,
    seeds: Annotated[int, typer.Option(help="Independent runs of every scheme, 2 or more.")] = 10,
    slots: Annotated[int, typer.Option(help="Slots that each seed of each scheme plays.")] = 100_000,
    games: Annotated[int, typer.Option(help="Games at once: to learn in, and to measure in.")] = 16,
    schemes: Annotated[
        str, typer.Option(help="Agents that are compared, with commas; mpgd and wpr among them, or one of your own.")
    ] = "mpgd,maa2c,mappo,greedy,wpr",
    parts: Annotated[
        str, typer.Option(help="What is done, with commas: schemes alone where training is expensive.")
    ] = "schemes,intensities,schedules,adaptivity",
    out: Annotated[Path, typer.Option(help="Folder of the study.")] = Path("studies/paper"),
    checkpoint: CheckpointOption = 20.0,
    json: JsonOption = False,
) -> None:
    """Reproduce the paper's evaluation: every scheme, its figures, and a verdict on every claim.

    Trains MPGD, MAA2C, MAPPO, Greedy and WPR, each with the same budget, plans for all silos, varies α0 and its rule,
    changes the federation in the middle of training, and lets silos from different seeds meet. The folder gets
    report.html, claims.json, figures/ and tables/. Without a scenario of your own the presets literal and dilemma are
    judged beside paper. Stop it however you like; the same command, or [bold]potluck resume[/bold], goes on. The same
    command in a second terminal shares the work.

    [bold]potluck study paper --task digits --seeds 3 --slots 1200 --games 4 --out studies/small[/bold]

    [bold]potluck study paper --task fmnist --model mlp --out studies/fmnist[/bold]   use a GPU

    [bold]potluck study paper my.toml --out studies/mine[/bold]
    """
    start_cores()
    from potluck.studies.paper.plan import PARTS, SCHEMES, StudyConfig, begin_study

    own = path is not None or preset is not None
    worlds = {"own" if path is not None else preset or "paper": chosen_scenario(path, preset)}
    if not own:
        worlds |= {name: chosen_scenario(None, name) for name in OTHERS}
    placed = {name: trained_on(world, task, model, dtype) for name, world in worlds.items()}
    config = StudyConfig(placed, seeds, slots, games, _named(schemes, SCHEMES), _named(parts, PARTS))
    begin_study(config, out)
    resume_study(out, checkpoint, json)


def _named(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names with commas; those that are known come first, in their order, which is that of every legend."""
    names = [name.strip() for name in text.split(",")]
    return tuple(sorted(names, key=lambda name: known.index(name) if name in known else len(known)))


def resume_study(folder: Path, checkpoint: float, json: bool) -> None:
    """Do what is not done yet, then tell it."""
    start_cores()
    from potluck.studies.paper.plan import read_study
    from potluck.studies.paper.telling import work_of
    from potluck.studies.paper.work import run_study

    begun, told = time.monotonic(), False
    with Watching() as watch:
        watch.say(work_of(read_study(folder)))

        def show(step: "Step") -> None:
            nonlocal told
            span = None if step.left is None else _span(step.left)
            if span and not told:
                watch.say(f"This will take about {span} here. Stop and go on whenever you like.")
                told = True
            watch(step.what, step.share, f"; about {span} left in all" if span else "")

        advice = f"go on with: potluck resume {folder}"
        try:
            to_the_end(run_study(folder, interval=checkpoint), show, watch.stop, advice)
        except typer.Exit as left:
            os._exit(left.exit_code)  # threads that compile ahead cannot be asked to stop
    _tell(folder, json, time.monotonic() - begun)


@commands.command()
def report(study: StudyArgument, json: JsonOption = False) -> None:
    """Make tables, figures, verdicts and report.html again, from a study's results alone.

    Where a study is not finished, parts that are not done are left out, and named.

    [bold]potluck study report studies/fmnist[/bold]
    """
    _tell(study, json, None)


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _tell(folder: Path, json: bool, seconds: float | None) -> None:
    from potluck.studies.paper.telling import REPORT, budget_of, finished, tell
    from potluck.studies.plain import plain_values

    with Watching() as watch:
        claims = tell(folder, watch)
    done, missing = finished(folder)
    if json:
        told = {"study": str(folder), "claims": plain_values(claims), "missing": missing or None}
        typer.echo(jsonlib.dumps(told))
        return
    table = plain_table("verdict", "world", "claim", "measured", left=4)
    for claim in claims:
        table.add_row(claim.verdict, claim.world, claim.says, claim.number)
    output().print(table)
    typer.echo(budget_of(done))
    if missing:
        typer.echo(missing)
    took = "" if seconds is None else f" Took {_span(seconds)}."
    typer.echo(f"Report: {folder / REPORT}. Tables and figures beside it.{took}")
