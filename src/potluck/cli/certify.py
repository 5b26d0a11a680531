"""`potluck certify`: how far learnt play is from an equilibrium, and what it is worth."""

import json as jsonlib
from typing import Annotated, Any

import typer
from rich.table import Table

from potluck.cli.options import JsonOption, RunArgument
from potluck.cli.progress import Watching
from potluck.cli.runtime import start_cores
from potluck.cli.tables import around, number, output, plain_table, span
from potluck.errors import PotluckError, file_faults

CERTIFICATE = "certificate.json"
CLOSE = "– (too close to the planner for a share)"
"""Where a share of the planner's gain would say nothing."""


def certify(
    run: RunArgument,
    games: Annotated[int, typer.Option(help="Games in which every deviation is measured.")] = 128,
    slots: Annotated[int, typer.Option(help="Slots that each trained deviator learns for; 0 trains none.")] = 5_000,
    imagine: Annotated[
        bool | None,
        typer.Option(
            help="Look for deviations in imagination too, on real training; done where deviators are trained.",
            show_default=False,
        ),
    ] = None,
    bounds: Annotated[
        bool, typer.Option(help="Train WPR as long as the run, once, plan for all silos, and compare with both.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Certify what a run has learnt: what could any silo still gain by deviating alone?

    The best deviation found counts: five constant contributions, the best plan (by ascent on the curve; on real
    training in imagination, then checked in play), and a learner trained against the frozen others. Gains are in
    money per slot and as a share of the stake, the spread of a silo's payoff over the constants. Welfare is set beside
    that of WPR, trained into RUN/wpr on the first call, of the best equilibrium without redistribution that was found,
    and of a planner: the best plan for all silos, and one that reacts. Writes RUN/certificate.json.

    [bold]potluck certify runs/x[/bold]

    [bold]potluck certify runs/x --no-bounds --slots 0[/bold]       constant deviations only: a minute or two

    [bold]potluck certify runs/x --json | jq .nash_conv_share_of_stake[/bold]
    """
    if games < 2:
        raise PotluckError(f"must be 2 or more, got {games}", field="games")
    if slots < 0:
        raise PotluckError(f"must be 0 or more, got {slots}", field="slots")
    from potluck.training.config import MOST_SLOTS, read_config
    from potluck.training.environments import EnvironmentConfig

    if slots > MOST_SLOTS:
        raise PotluckError(f"must be {MOST_SLOTS} or less, got {slots}", field="slots")
    config = read_config(run)
    if config.joint:
        raise PotluckError(f"{run}: {config.agent} sets all contributions, so nobody can deviate from it")
    if bounds and isinstance(config.scenario, EnvironmentConfig):
        raise PotluckError(f": {config.scenario.name} is no federation, without WPR; add --no-bounds", field="bounds")
    start_cores()
    from potluck.devices import bytes_of, check_memory
    from potluck.studies import certificate
    from potluck.training.files import write_text
    from potluck.training.run import trained

    with Watching() as watch:
        watch("reading the run", 0.0)
        found = trained(run)
        told = config.seeds * config.scenario.horizon * found.lanes.tree.environment.players
        check_memory(
            games * (20.0 * told + 3 * bytes_of((found.runs.states, found.runs.memory)) / config.games), "games"
        )
        if not found.finished:
            raise PotluckError(f"{run}: not finished; go on with `potluck resume {run}`, then certify it")
        limits = certificate.bounds(found, run, games=games, watch=watch) if bounds else None
        judged = certificate.certify(found, games=games, slots=slots, imagine=imagine, against=limits, watch=watch)
    values = certificate.plain(judged)
    values["verdict"] = _verdict(judged.agent, values["nash_conv_share_of_stake"])
    with file_faults(run / CERTIFICATE, failed="not written"):
        write_text(run / CERTIFICATE, jsonlib.dumps(values, indent=1) + "\n")
    if json:
        typer.echo(jsonlib.dumps(values))
        return
    output().print(*_tables(values))
    typer.echo(f"Saved {run / CERTIFICATE}")


def _tables(found: dict[str, Any]) -> tuple[Table, Table]:
    """Silo by silo, and all together."""
    seeds = f"{found['seeds']} seed{'s' * (found['seeds'] > 1)}"
    bounded = found["welfare_planner"] is not None
    table = plain_table(
        "silo", "d", "payoff", "transfer", *(["− WPR"] if bounded else []), "could gain", "of stake", "best found",
        title=f"{found['agent']}: what each silo earns and could gain by deviating alone, per slot",
        caption=f"means over {seeds}, {found['games']} games each; ± is half of the 95% interval",
    )  # fmt: skip
    for silo in found["silos"]:
        table.add_row(
            str(silo["silo"]),
            f"{silo['contribution']['mean']:.3f}",
            f"{silo['payoff']['mean']:.2f}",
            f"{silo['transfer']['mean']:+.2f}",
            *([f"{silo['gain_over_wpr']:+.2f}"] if bounded else []),
            around(silo["gain"], ".2f"),
            number(silo["gain_share_of_stake"], ".1%"),
            silo["found_by"],
        )
    whole = plain_table("", "", left=2, show_header=False)
    share = number(found["nash_conv_share_of_stake"], ".1%")
    conv = span(found["nash_conv_interval"], ".3f")
    whole.add_row("NashConv", f"{conv} per slot, {share} of the stake {found['stake']:.3f}")
    whole.add_row("verdict", _verdict(found["agent"], found["nash_conv_share_of_stake"]))
    if found["broken_deviators"]:
        whole.add_row("deviators that broke down", f"{found['broken_deviators']}, counted as gaining nothing")
    whole.add_row("welfare", span(found["welfare"], ".2f"))
    if bounded:
        _bounds(whole, found)
        whole.add_row("price of anarchy", number(found["price_of_anarchy"], ".5f"))
    rational = sum(silo["rational_against_leaving"] for silo in found["silos"])
    whole.add_row("better than not taking part", f"{rational} of {len(found['silos'])} silos")
    if bounded:
        better = sum(silo["gain_over_wpr"] >= 0 for silo in found["silos"])
        whole.add_row("no worse than under WPR", f"{better} of {len(found['silos'])} silos")
    whole.add_row("Jain index", span(found["jain_index"], ".5f"))
    whole.add_row("budget residual", f"{found['budget_residual']:.2g}")
    return table, whole


def _bounds(whole: Table, found: dict[str, Any]) -> None:
    """What could be reached, and how much of it is."""

    def share(interval: dict[str, Any] | None) -> str:
        return CLOSE if interval is None else span(interval, ".0%")

    settled = number(found["nash_conv_share_wpr"], ".1%")
    whole.add_row("without redistribution (WPR)", span(found["welfare_wpr"], ".2f"))
    whole.add_row("  its NashConv", f"{settled} of its stake")
    unpaid = found["equilibrium"]
    if unpaid is not None:
        conv = number(unpaid["nash_conv_share"], ".1%")
        whole.add_row("best equilibrium without", f"{unpaid['welfare']['mean']:.2f} ({unpaid['found_by']})")
        whole.add_row("  its NashConv", f"{conv} of its stake")
    searched = found["planner_found_by"] == "search"
    by = "" if searched else f"; {found['planner_found_by']}, chosen in these games"
    whole.add_row("planner", f"{span(found['welfare_planner'], '.2f')}{by}")
    if found["welfare_reacting"] is not None:
        more = span(found["reacting_gain"], "+.2f")
        whole.add_row("planner that reacts", f"{found['welfare_reacting']['mean']:.2f}, {more} over the plan")
    whole.add_row("share of the planner's gain", share(found["gain_share"]))
    if unpaid is not None:
        whole.add_row("  over the best equilibrium", share(unpaid["gain_share"]))


def _verdict(agent: str, share: float | None) -> str:
    """What NashConv as a share of the stake says of the play."""
    from potluck.studies.judgement import SETTLED  # imports JAX, which help should not wait for

    if share is None:
        return "nothing is at stake: every contribution earns the same"
    if share <= SETTLED:
        return "near an equilibrium: no deviation that was tried gains much"
    learns = agent.partition(":")[0] not in ("fixed", "random", "nash")
    return f"not an equilibrium: silos would change what they do{', so train longer' if learns else ''}"
