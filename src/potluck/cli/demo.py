"""`potluck demo`: the first thing a newcomer sees."""

import json as jsonlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from potluck.cli.options import JsonOption
from potluck.cli.progress import TrainingDisplay, Watching, to_the_end
from potluck.cli.runtime import start_cores
from potluck.cli.tables import around, number, output, plain_table
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.training.config import RunConfig
    from potluck.training.run import Progress

OUT = "out/demo"
NAMES = {"none": "no transfers", "mpgd": "MPGD", "mbpg": "MBPG", "planner": "planner"}


def demo(
    seeds: Annotated[int | None, typer.Option(help="Independent runs of each; 3 otherwise.")] = None,
    slots: Annotated[int | None, typer.Option(help="Slots of a seed of MPGD; 19,200 otherwise. MBPG: ¼.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures, numbers and runs.")] = Path(OUT),
    json: JsonOption = False,
    games: Annotated[int | None, typer.Option(hidden=True, min=2, help="Games at once, for a quick look.")] = None,
) -> None:
    """Watch four silos learn what to bring to a federation that really trains, on handwritten digits.

    Energy is dear, and free-riding hurts. Three trainings side by side: MBPG without redistribution, and MPGD and MBPG
    with it. MBPG learns from a quarter of MPGD's slots. Then a planner looks for the best plan for all. Two to four
    minutes on two cores. Stopped with Ctrl-C, the same command goes on.

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
    typer.echo(_verdict(found))
    output().print(_table(found), _details(found))
    typer.echo(
        f"Learning curves: {out / demos.PICTURES[0]}. Each silo: {out / demos.PICTURES[1]}. "
        f"Numbers: {out / demos.MARK}. Took {time.monotonic() - begun:.0f} s."
    )
    typer.echo(f"Try every deviation: potluck certify {out / 'mbpg'}")


def _train(out: Path, configs: "dict[str, RunConfig]", again: str) -> None:
    """Show all trainings to their end, or to Ctrl-C."""
    from potluck.studies.demo import trainings

    with TrainingDisplay({NAMES[agent]: config.seeds for agent, config in configs.items()}) as display:

        def show(step: "tuple[str, Progress]") -> None:
            display.update(NAMES[step[0]], step[1])

        to_the_end(trainings(out, configs), show, display.stop, f"go on with: {again}")


def _table(found: dict[str, Any]) -> Table:
    """What a person asks first: how near to the best, after how many slots, and what everyone earns."""
    columns = list(found["agents"].values())
    table = plain_table("", *(NAMES[agent] for agent in found["agents"]), title="Money per slot")
    table.add_row("slots learnt from", *(number(each["slots"], ",") for each in columns))
    gained = [each["gain_share"] for each in columns[1:-1]]
    shares = ["–"] * 4 if None in gained else ["0%", *(around(share, ".0%") for share in gained), "100%"]
    table.add_row("share of planner's gain", *shares)
    for silo in range(len(columns[0]["payoffs"])):
        table.add_row(f"silo {silo} earns", *(around(each["payoffs"][silo], ".1f") for each in columns))
    table.add_row("all silos together", *(around(each["welfare"], ".1f") for each in columns))
    return table


def _details(found: dict[str, Any]) -> Table:
    columns = list(found["agents"].values())
    seeds = f"{found['seeds']} seed{'s' * (found['seeds'] > 1)}"
    table = plain_table(
        "",
        *(NAMES[agent] for agent in found["agents"]),
        title="How they do it",
        caption=f"mean ± half the 95% interval over {seeds}, {found['games']} games each, no exploration",
    )
    for silo in range(len(columns[0]["contributions"])):
        table.add_row(f"silo {silo} brings", *(f"{each['contributions'][silo]:.0%}" for each in columns))
    for silo in range(len(columns[0]["transfers"])):
        moved = [around(each["transfers"][silo], "+.1f") for each in columns[1:-1]]
        table.add_row(f"silo {silo} is paid", "–", *moved, "–")
    table.add_row("NashConv (constants)", *(number(each["nash_conv_constants"], ".2f") for each in columns))
    table.add_row("as a share of stake", *(number(each["nash_conv_share_of_stake"], ".1%") for each in columns))
    return table


def _verdict(found: dict[str, Any]) -> str:
    """What a person would say of it, flattering or not."""
    alone, mpgd, mbpg, planned = (found["agents"][agent] for agent in NAMES)
    more = mbpg["welfare"]["mean"] - alone["welfare"]["mean"]
    text = f"Redistribution makes these silos {abs(more):.1f} a slot {'better' if more > 0 else 'worse'} off together"
    if found["seeds"] == 1:
        text += "; with one seed that may be luck"
    elif mbpg["welfare"]["low"] > alone["welfare"]["high"] or mbpg["welfare"]["high"] < alone["welfare"]["low"]:
        text += ", beyond the spread over seeds"
    else:
        text += "; over these seeds the intervals overlap, so it may be luck"
    pairs = zip(mbpg["payoffs"], alone["payoffs"], strict=True)
    better = sum(paid["mean"] > unpaid["mean"] for paid, unpaid in pairs)
    text += f"; {better} of {len(alone['payoffs'])} silos earn more. "
    if mbpg["gain_share"] is None:
        return f"{text}The planner has found nothing better than they do by themselves, or nothing beyond the spread."
    return (
        f"{text}A planner would gain {planned['welfare']['mean'] - alone['welfare']['mean']:.1f}: MBPG reaches "
        f"{mbpg['gain_share']['mean']:.0%} of that after {mbpg['slots']:,} slots, MPGD "
        f"{mpgd['gain_share']['mean']:.0%} after {mpgd['slots']:,}."
    )
