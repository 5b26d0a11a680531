"""`potluck game`: the stage game of a scenario, solved and shown."""

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, PresetOption, ScenarioArgument
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from rich.console import Console

    from potluck.scenario import MechanismConfig
    from potluck.studies.manipulation import Manipulations
    from potluck.studies.stage import Settled, Solution, Sweep

__all__ = ["game"]

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

    Precision is the static curve of sustained contribution; money is per slot.

    [bold]potluck game --preset paper --sweep 0:16:33[/bold]      the shape of welfare against α

    [bold]potluck game --preset dilemma --intensity 5[/bold]      another intensity

    [bold]potluck game my.toml --contributions 1,0.5,0.5,0.1[/bold]  settle a play of your own

    [bold]potluck game my.toml --json | jq .nash[/bold]           for programs
    """
    from rich.console import Console

    from potluck.cli.runtime import chosen_scenario, start_jax

    scenario = chosen_scenario(path, preset)
    grid = None if sweep is None else _grid(sweep)
    if intensity is not None:
        if not 0 <= intensity <= MOST_INTENSITY:
            raise PotluckError(f"must be a number from 0 to {MOST_INTENSITY:g}, got {intensity}", field="intensity")
        scenario = scenario.model_copy(update={"mechanism": _uniform(scenario.mechanism, intensity)})
    play = None if contributions is None else _play(contributions, scenario.silos.count)
    if plot is not None and plot.suffix.lower() not in {".png", ".pdf", ".svg"}:
        raise PotluckError(f"must end in .png, .pdf or .svg, got {plot}", field="plot")

    start_jax(double=True)
    import jax.numpy as jnp

    from potluck.game import stage_game
    from potluck.studies import manipulation as lying
    from potluck.studies import report as reports
    from potluck.studies import stage

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
        reason = (fault.strerror or str(fault)).lower()
        raise PotluckError(f"{fault.filename or plot or report}: {reason}; choose a place you may write to") from None
    if json:
        typer.echo(jsonlib.dumps(found))
        return
    console = Console()
    _show(console, solution, swept, reports.named_mechanism(scenario, solution))
    if settled is not None:
        _show_play(console, settled)
    if lies is not None:
        _show_manipulations(console, lies)
    console.print(reports.summary(scenario, solution, swept))
    for file in saved:
        console.print(f"Saved {file}", highlight=False, soft_wrap=True)


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


def _play(text: str, silos: int) -> list[float]:
    """One contribution in [0, 1] per silo."""
    from potluck.cli.runtime import numbers

    values = numbers(text, "--contributions")
    if len(values) != silos:
        raise PotluckError(f"must give one share per silo: {silos} needed, got {len(values)}", field="contributions")
    for silo, value in enumerate(values):
        if not 0 <= value <= 1:
            raise PotluckError(
                f": silo {silo} must bring a share in [0, 1] of its data, got {value:g}", field="contributions"
            )
    return values


def _show(console: "Console", solution: "Solution", swept: "Sweep | None", named: str) -> None:
    """One row per silo, then the figures of the whole."""
    from rich.box import SIMPLE
    from rich.table import Table

    none, reached, best = solution.no_redistribution, solution.equilibrium, solution.optimum
    title = f"The stage game {named}, per slot (none: no transfers)"
    table = Table(title=title, box=SIMPLE, padding=(0, 0, 0, 1))
    heads = ("silo", "d none", "d", "d plan", "transfer", "u none", "u", "u − alone", "u − none")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    columns = (
        (none.contributions, ".3f"),
        (reached.contributions, ".3f"),
        (best.contributions, ".3f"),
        (reached.payoff.transfer, "+.2f"),
        (none.payoff.total, ".1f"),
        (reached.payoff.total, ".1f"),
        (reached.rationality.alone, "+.1f"),
        (reached.rationality.no_redistribution, "+.1f"),
    )
    for silo in range(len(reached.contributions)):
        table.add_row(str(silo), *(format(float(numbers[silo]), spec) for numbers, spec in columns))
    console.print(table)

    whole = Table(box=SIMPLE, padding=(0, 0, 0, 1))
    for head in ("", "none", "mechanism", "planner"):
        whole.add_column(head, justify="right", no_wrap=True)
    plays = (none, reached, best)
    whole.add_row("welfare", *(f"{float(play.payoff.welfare):.2f}" for play in plays))
    whole.add_row("mean contribution", *(f"{float(play.contributions.mean()):.3f}" for play in plays))
    whole.add_row("NashConv", *(f"{float(play.regrets.sum()):.3g}" for play in plays))
    whole.add_row("price of anarchy", *(f"{float(play.price_of_anarchy):.4f}" for play in plays))
    whole.add_row("Jain index", *(f"{float(play.jain_index):.4f}" for play in plays))
    whole.add_row("better than leaving", *(f"{int((play.rationality.leaving >= 0).sum())} silos" for play in plays))
    console.print(whole)
    if swept is not None:
        _show_sweep(console, swept)


def _show_sweep(console: "Console", swept: "Sweep") -> None:
    """Welfare against intensity, as bars that a terminal can draw; at most about twenty rows."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title="Welfare against intensity", box=SIMPLE, padding=(0, 0, 0, 1))
    for head in ("α", "welfare", "mean d"):
        table.add_column(head, justify="right", no_wrap=True)
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
    console.print(table)


def _show_play(console: "Console", play: "Settled") -> None:
    """Where every part of each payoff comes from."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        title=f"Your play, settled at precision {float(play.precision):.4f}", box=SIMPLE, padding=(0, 0, 0, 1)
    )
    for head in ("silo", "d", "revenue", "energy", "communication", "transfer", "payoff", "could gain"):
        table.add_column(head, justify="right", no_wrap=True)
    parts = play.payoff
    columns = (parts.revenue, parts.energy, parts.communication, parts.transfer, parts.total, play.regrets)
    for silo, contribution in enumerate(play.contributions):
        table.add_row(str(silo), f"{float(contribution):g}", *(f"{float(column[silo]):.2f}" for column in columns))
    console.print(table)


def _show_manipulations(console: "Console", lies: "list[Manipulations]") -> None:
    """A row for every mechanism, a column for every lie."""
    from rich.box import SIMPLE
    from rich.table import Table

    from potluck.studies.manipulation import MANIPULATIONS

    table = Table(
        title="What silo 0 would gain by lying, where it brings ½ and the others ¼", box=SIMPLE, padding=(0, 0, 0, 1)
    )
    table.add_column("mechanism", no_wrap=True)
    for head in MANIPULATIONS.values():
        table.add_column(head, justify="right")
    for row in lies:
        gains = [getattr(row, name) for name in MANIPULATIONS]
        table.add_row(row.mechanism, *("–" if gain is None else f"{gain:+.2f}" for gain in gains))
    console.print(table)
