"""`potluck demo`: the first thing a newcomer sees."""

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.options import JsonOption
from potluck.cli.progress import TrainingDisplay, Watching, to_the_end
from potluck.cli.runtime import start_cores
from potluck.cli.tables import around, number, output, plain_table
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.training.config import RunConfig
    from potluck.training.run import Progress

OUT = "out/demo"
NAMES = {"mpgd": "redistribution", "wpr": "none (WPR)", "planner": "planner"}


def demo(
    seeds: Annotated[int | None, typer.Option(help="Independent runs of each; 3 otherwise.")] = None,
    slots: Annotated[int | None, typer.Option(help="Slots of each seed; 17,280 otherwise.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures, numbers and runs.")] = Path(OUT),
    json: JsonOption = False,
    games: Annotated[int | None, typer.Option(hidden=True, min=2, help="Games at once, for a quick look.")] = None,
) -> None:
    """Watch four silos learn what to bring to a federation that really trains, on handwritten digits.

    Two trainings side by side: MPGD with redistribution, and the same learners without it (WPR). Then a planner looks
    for the best plan for all. Two to four minutes on two cores. Stopped with Ctrl-C, the same command goes on.

    [bold]potluck demo[/bold]

    [bold]potluck demo --slots 100000 --seeds 5 --out out/long[/bold]   as long as it takes to learn it well
    """
    for field, given in (("seeds", seeds), ("slots", slots)):
        if given is not None and given < 1:
            raise PotluckError(f"must be 1 or more, got {given}", field=field)
    start_cores()
    from potluck.studies import demo as demos

    begun = time.monotonic()
    configs = demos.configs(seeds or demos.SEEDS, slots or demos.SLOTS, games or demos.GAMES)
    demos.prepare(out, configs)
    words = (("--seeds", seeds), ("--slots", slots), ("--games", games), ("--out", out if str(out) != OUT else None))
    again = " ".join(["potluck demo", *(f"{option} {value}" for option, value in words if value is not None)])
    _train(out, configs, again)
    with Watching() as watch:
        found = demos.save(demos.judge(out, watch), out)
    if json:
        typer.echo(jsonlib.dumps(found))
        return
    _show(found)
    typer.echo(_verdict(found))
    typer.echo(
        f"Learning curves: {out / demos.PICTURES[0]}. Each silo: {out / demos.PICTURES[1]}. "
        f"Numbers: {out / demos.MARK}. Took {time.monotonic() - begun:.0f} s."
    )
    typer.echo(f"Try every deviation: potluck certify {out / 'mpgd'}")


def _train(out: Path, configs: "dict[str, RunConfig]", again: str) -> None:
    """Show both trainings to their end, or to Ctrl-C."""
    from potluck.studies.demo import trainings

    with TrainingDisplay({NAMES[agent]: config.seeds for agent, config in configs.items()}) as display:

        def show(step: "tuple[str, Progress]") -> None:
            display.update(NAMES[step[0]], step[1])

        to_the_end(trainings(out, configs), show, display.stop, f"go on with: {again}")


def _show(found: dict[str, Any]) -> None:

    seeds = f"{found['seeds']} seed{'s' * (found['seeds'] > 1)}"
    table = plain_table(
        "",
        *(NAMES[agent] for agent in found["agents"]),
        title=f"Four silos on digits, real training, {found['slots']:,} slots learnt: per slot",
        caption=f"mean ± half the 95% interval over {seeds}, {found['games']} games each, no exploration",
    )
    columns = list(found["agents"].values())
    table.add_row("welfare", *(around(each["welfare"], ".1f") for each in columns))
    gained = columns[0]["gain_share"]
    said = ("none found", "", "") if gained is None else (around(gained, ".0%"), "0%", "100%")
    table.add_row("share of planner's gain", *said)
    for silo in range(len(columns[0]["payoffs"])):
        table.add_row(f"payoff of silo {silo}", *(around(each["payoffs"][silo], ".1f") for each in columns))
    for silo in range(len(columns[0]["transfers"])):
        moved = [around(each["transfers"][silo], "+.1f") for each in columns[:2]]
        table.add_row(f"of it transfers, silo {silo}", *moved, "")
    table.add_row("mean contribution", *(around(each["contribution"], ".3f") for each in columns))
    table.add_row("NashConv (constants)", *(number(each["nash_conv_constants"], ".2f") for each in columns))
    table.add_row("as a share of stake", *(number(each["nash_conv_share_of_stake"], ".1%") for each in columns))
    output().print(table)


def _verdict(found: dict[str, Any]) -> str:
    """What a person would say of it, flattering or not."""
    paid, unpaid, planned = (found["agents"][agent]["welfare"] for agent in NAMES)
    more = paid["mean"] - unpaid["mean"]
    text = f"Redistribution makes these silos {abs(more):.1f} a slot {'better' if more > 0 else 'worse'} off together"
    if found["seeds"] == 1:
        text += "; with one seed that may be luck"
    elif paid["low"] > unpaid["high"] or paid["high"] < unpaid["low"]:
        text += ", beyond the spread over seeds"
    else:
        text += "; over these seeds the intervals overlap, so it may be luck"
    if planned["mean"] <= unpaid["mean"]:
        return f"{text}. The planner has found nothing better than they do by themselves."
    brought = [found["agents"][agent]["contribution"]["mean"] for agent in NAMES]
    return (
        f"{text}; a planner would gain {planned['mean'] - unpaid['mean']:.1f}. They bring {brought[0]:.0%} of their "
        f"data with it and {brought[1]:.0%} without; the planner, {brought[2]:.0%}."
    )
