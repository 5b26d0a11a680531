"""`potluck game`: the stage game of a scenario, solved and shown."""

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from potluck.cli.options import JsonOption, PresetOption, ScenarioArgument
from potluck.cli.runtime import chosen_scenario, numbers, start_jax
from potluck.cli.tables import number, output, plain_table
from potluck.errors import PotluckError, reason

if TYPE_CHECKING:
    from potluck.scenario import MechanismConfig
    from potluck.studies.manipulation import Manipulations
    from potluck.studies.stage import Settled, Solution, Sweep

MOST_POINTS = 10_001
MOST_INTENSITY = 1e12


def game(
    path: ScenarioArgument = None,
    preset: PresetOption = None,
    intensity: Annotated[
        float | None, typer.Option(help="Redistribution at this uniform α in place of the scenario's mechanism.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Solve for many α: FROM:TO:POINTS, such as 0:16:33.")] = None,
    contributions: Annotated[
        str | None, typer.Option(help="Settle this play too: one d per silo, such as 1,0.5,0.5,0.1.")
    ] = None,
    manipulations: Annotated[
        bool, typer.Option("--manipulations", help="Show too what lying would pay, under every mechanism.")
    ] = False,
    json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(help="Save the picture here (PNG, PDF or SVG).")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write report.html, game.png and game.json into this folder.")
    ] = None,
) -> None:
    """Solve the stage game: who brings what, with and without the mechanism, and what a planner would do.

    Precision, the paper's word for accuracy, is the static curve of sustained contribution; money is per slot.

    [bold]potluck game --preset paper --sweep 0:16:33[/bold]      the shape of welfare against α

    [bold]potluck game --preset dilemma --intensity 5[/bold]      another intensity

    [bold]potluck game my.toml --contributions 1,0.5,0.5,0.1[/bold]  settle a play of your own

    [bold]potluck game my.toml --json | jq .nash[/bold]           for programs
    """
    scenario = chosen_scenario(path, preset)
    grid = None if sweep is None else _grid(sweep)
    if intensity is not None:
        if not 0 <= intensity <= MOST_INTENSITY:
            raise PotluckError(f"must be a number from 0 to {MOST_INTENSITY:g}, got {intensity}", field="intensity")
        scenario = scenario.model_copy(update={"mechanism": _uniform(scenario.mechanism, intensity)})
    play = None if contributions is None else numbers(contributions, "contributions")
    if plot is not None and plot.suffix.lower() not in {".png", ".pdf", ".svg"}:
        raise PotluckError(f"must end in .png, .pdf or .svg, got {plot}", field="plot")

    start_jax(double=True)
    import jax.numpy as jnp

    from potluck.federation import check_contributions
    from potluck.game import stage_game
    from potluck.studies import manipulation as lying
    from potluck.studies import report as reports
    from potluck.studies import stage

    if play is not None:
        check_contributions(play, scenario.silos.count)
    game = stage_game(scenario)
    with Console(stderr=True).status("Solving the game…"):
        points = None if grid is None else jnp.linspace(*grid[:2], int(grid[2]))
        solution, swept = stage.solve_and_sweep(game, points)
        settled = None if play is None else stage.settled(game, jnp.asarray(play))
        lies = lying.manipulations(scenario) if manipulations else None
    found = stage.plain(solution, swept) | {"mechanism": scenario.mechanism.model_dump(mode="json")}
    found |= {} if settled is None else {"play": stage.plain_settled(settled)}
    found |= {} if lies is None else {"manipulations": [row._asdict() for row in lies]}
    saved = []
    try:
        if plot is not None:
            from potluck.studies.figures import draw_game

            draw_game(solution, swept, plot)
            saved.append(plot)
        if report is not None:
            saved.append(reports.write_report(scenario, solution, swept, found, report))
    except OSError as fault:
        place = fault.filename or plot or report
        raise PotluckError(f"{place}: {reason(fault)}; choose a place you may write to") from None
    if json:
        typer.echo(jsonlib.dumps(found))
        return
    console = output()
    console.print(_by_silo(solution, reports.named_mechanism(scenario, solution)), _by_play(solution))
    if swept is not None:
        console.print(_by_intensity(swept))
    if settled is not None:
        console.print(_settled(settled))
    if lies is not None:
        console.print(_lies(lies))
    console.print(reports.summary(scenario, solution, swept))
    for file in saved:
        typer.echo(f"Saved {file}")


def _uniform(mechanism: "MechanismConfig", intensity: float) -> "MechanismConfig":
    """Redistribution at this α: the scenario's own but for that, where it has one."""
    from potluck.scenario import mechanism_of

    own = mechanism if mechanism.kind == "redistribution" else mechanism_of("redistribution")
    return own.model_copy(update={"intensity": intensity})


def _grid(text: str) -> tuple[float, float, int]:
    """FROM:TO:POINTS as numbers."""
    parts = text.split(":")
    try:
        low, high, points = float(parts[0]), float(parts[1]), int(parts[2])
    except (ValueError, IndexError):
        raise PotluckError(f"must be FROM:TO:POINTS, such as 0:16:33, got {text!r}", field="sweep") from None
    if len(parts) != 3 or not (0 <= low < high <= MOST_INTENSITY) or not 2 <= points <= MOST_POINTS:
        raise PotluckError(
            f"must have 0 ≤ FROM < TO ≤ {MOST_INTENSITY:g} and 2 to {MOST_POINTS} points, got {text!r}", field="sweep"
        )
    return low, high, points


def _by_silo(solution: "Solution", named: str) -> Table:
    """What each silo brings and earns; none is without transfers."""
    none, reached, best = solution.no_redistribution, solution.equilibrium, solution.optimum
    columns = {
        "d none": (none.contributions, ".3f"),
        "d": (reached.contributions, ".3f"),
        "d plan": (best.contributions, ".3f"),
        "transfer": (reached.payoff.transfer, "+.2f"),
        "u none": (none.payoff.total, ".1f"),
        "u": (reached.payoff.total, ".1f"),
        "u − alone": (reached.rationality.alone, "+.1f"),
        "u − none": (reached.rationality.no_redistribution, "+.1f"),
    }
    table = plain_table("silo", *columns, title=f"The stage game {named}, per slot (none: no transfers)")
    for silo in range(len(reached.contributions)):
        table.add_row(str(silo), *(format(float(values[silo]), spec) for values, spec in columns.values()))
    return table


def _by_play(solution: "Solution") -> Table:
    """What may be said of all silos together."""
    table = plain_table("", "none", "mechanism", "planner")
    plays = (solution.no_redistribution, solution.equilibrium, solution.optimum)
    table.add_row("welfare", *(f"{float(play.payoff.welfare):.2f}" for play in plays))
    table.add_row("mean contribution", *(f"{float(play.contributions.mean()):.3f}" for play in plays))
    table.add_row("NashConv", *(f"{float(play.regrets.sum()):.3g}" for play in plays))
    table.add_row("price of anarchy", *(f"{float(play.price_of_anarchy):.4f}" for play in plays))
    table.add_row("Jain index", *(f"{float(play.jain_index):.4f}" for play in plays))
    table.add_row("better than leaving", *(f"{int((play.rationality.leaving >= 0).sum())} silos" for play in plays))
    return table


def _by_intensity(swept: "Sweep") -> Table:
    """Welfare against intensity, as bars that a terminal can draw; at most about twenty rows."""
    table = plain_table("α", "welfare", "mean d", title="Welfare against intensity")
    table.add_column("")
    points = len(swept.intensity)
    low, high = float(swept.welfare.min()), float(swept.welfare.max())
    rows = sorted({*range(0, points, -(-points // 20)), swept.best, points - 1})
    for row in rows:
        share = (float(swept.welfare[row]) - low) / (high - low) if high > low else 1.0
        best = " ← best" if row == swept.best else ""
        table.add_row(
            f"{float(swept.intensity[row]):.3g}",
            f"{float(swept.welfare[row]):.2f}",
            f"{float(swept.contributions[row].mean()):.3f}",
            "█" * round(24 * share) + best,
        )
    return table


def _settled(play: "Settled") -> Table:
    """Where every part of each payoff comes from."""
    parts = play.payoff
    columns = {
        "revenue": parts.revenue,
        "energy": parts.energy,
        "communication": parts.communication,
        "transfer": parts.transfer,
        "payoff": parts.total,
        "could gain": play.regrets,
    }
    title = f"Your play, settled at precision {float(play.precision):.4f}"
    table = plain_table("silo", "d", *columns, title=title)
    for silo, share in enumerate(play.contributions):
        table.add_row(str(silo), f"{float(share):g}", *(f"{float(column[silo]):.2f}" for column in columns.values()))
    return table


def _lies(lies: "list[Manipulations]") -> Table:
    """A row for every mechanism, a column for every lie."""
    from potluck.studies.manipulation import MANIPULATIONS

    table = plain_table(
        "mechanism", left=1, title="What silo 0 would gain by lying, where it brings ½ and the others ¼"
    )
    for head in MANIPULATIONS.values():
        table.add_column(head, justify="right")
    for row in lies:
        table.add_row(row.mechanism, *(number(getattr(row, name), "+.2f") for name in MANIPULATIONS))
    return table
