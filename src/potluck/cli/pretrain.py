"""`potluck pretrain`: what silos that have never met begin with."""

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.data import load_shown
from potluck.cli.options import JsonOption
from potluck.cli.progress import Watching, to_the_end
from potluck.cli.runtime import start_cores

if TYPE_CHECKING:
    from potluck.training.pretraining import Step


def pretrain(
    tasks: Annotated[
        str, typer.Option(help="What federations learn, with commas: curve, or see potluck list task.")
    ] = "curve,digits",
    federations: Annotated[int, typer.Option(help="How many are drawn and surveyed, the tasks in turn.")] = 96,
    seed: Annotated[int, typer.Option(help="Of the first; each has one of its own.")] = 1000,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("prior.json"),
    json: JsonOption = False,
) -> None:
    """Survey federations of many kinds: what silos that have never met begin with.

    Every federation is drawn: how many silos, what they hold, how alike they are, how they train. It plays 96 games of
    varied plans, and the law of precision is fitted to them. The agent [bold]pretrained[/bold] begins with these laws
    and learns within the game that it plays. A file of them ships with Potluck; make your own where your tasks are
    unlike those. A federation takes seconds. Stop whenever you like: the same command goes on.

    [bold]potluck pretrain --tasks digits,folder:mine.npz --out mine.json[/bold]

    [bold]potluck train my.toml --agent pretrained --slots 480 --out runs/first[/bold]          with the one that ships

    [bold]potluck train my.toml --agent pretrained:mine.json --slots 480 --out runs/own[/bold]  with yours
    """
    start_cores()
    from potluck.training.pretraining import CURVE, check, pretrain

    named = [task.strip() for task in tasks.split(",")]
    check(named, federations, seed)
    for task in dict.fromkeys(named):
        if task != CURVE:
            load_shown(task)
    begun = time.monotonic()
    with Watching() as watch:

        def show(step: "Step") -> None:
            done = step.survey.federations
            watch(f"federation {len(done)} of {step.wanted}, {done[-1].task}", len(done) / step.wanted)

        work = pretrain(out, named, federations, seed)
        to_the_end(work, show, watch.stop, "what was surveyed is kept; the same command goes on")
    from potluck.agents.prior_file import load_survey

    survey = load_survey(out)
    counts = {task: sum(one.task == task for one in survey.federations) for task in dict.fromkeys(named)}
    seconds = round(time.monotonic() - begun, 1)
    if json:
        typer.echo(jsonlib.dumps({"file": str(out), "federations": counts, "seconds": seconds}))
        return
    of_each = ", ".join(f"{count} of {task}" for task, count in counts.items())
    told = f"{out}: the laws of {len(survey.federations)} federations ({of_each})"
    more = len(survey.federations) > federations
    typer.echo(f"Nothing to do. {told} are there already." if more else f"Wrote {told}. Took {seconds:.0f} s.")
    typer.echo(f"Play with it: potluck train --agent pretrained:{out} --slots 480 --out runs/first")
