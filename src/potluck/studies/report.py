"""A solved game as one page that can be sent to someone: numbers, pictures and the scenario they belong to."""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from potluck.scenario import Scenario, render
from potluck.studies.stage import Solution, Sweep

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Potluck: the game, solved</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse }}
td, th {{ padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd }}
img {{ max-width: 100% }} pre {{ background: #f6f6f4; padding: 1rem; overflow: auto }}
</style>
<h1>The game, solved</h1>
<p>{summary}</p>
<img alt="contributions, payoffs and welfare" src="data:image/png;base64,{picture}">
<table>{rows}</table>
<h2>The scenario</h2>
<pre>{scenario}</pre>
</html>
"""


def write_report(
    scenario: Scenario, solution: Solution, swept: Sweep | None, figures: dict[str, Any], folder: Path
) -> Path:
    """Write `report.html` (self-contained), `game.png` and `game.json` into a folder; answers the page's path."""
    from potluck.studies.figures import draw_game

    picture = folder / "game.png"
    draw_game(solution, swept, picture)
    (folder / "game.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page = folder / "report.html"
    page.write_text(
        PAGE.format(
            summary=escape(summary(scenario, solution, swept)),
            picture=base64.b64encode(picture.read_bytes()).decode(),
            rows=_rows(solution),
            scenario=escape(render(scenario)),
        ),
        encoding="utf-8",
    )
    return page


def summary(scenario: Scenario, solution: Solution, swept: Sweep | None) -> str:
    """What a person would say of the result, in three sentences."""
    none, reached, best = solution.no_redistribution, solution.equilibrium, solution.optimum
    gain = float(solution.gain_share)
    earned = f"earns {gain:.0%} of what there is to gain" if np.isfinite(gain) else "has nothing to gain here"
    text = (
        f"Left to themselves the silos bring {float(none.contributions.mean()):.0%} of their data and share "
        f"{float(none.payoff.welfare):.1f} a slot; {named_mechanism(scenario, solution)} they bring "
        f"{float(reached.contributions.mean()):.0%} and share {float(reached.payoff.welfare):.1f}; a planner would "
        f"reach {float(best.payoff.welfare):.1f}. {scenario.mechanism.kind.capitalize()} thus {earned}. "
    )
    if swept is None:
        return text + f"The best uniform intensity of redistribution is α* = {float(solution.intensity_star):.3g}."
    return text + (
        f"Over the sweep the best intensity of redistribution is α = {float(swept.intensity[swept.best]):.3g} "
        f"(α* = {float(solution.intensity_star):.3g})."
    )


def named_mechanism(scenario: Scenario, solution: Solution) -> str:
    """The mechanism that was solved, in words."""
    if solution.intensity is None:
        return f"under {scenario.mechanism.kind}"
    return "at an intensity for each pair" if solution.intensity.ndim else f"at α = {float(solution.intensity):.4g}"


def _rows(solution: Solution) -> str:
    none, reached, best = solution.no_redistribution, solution.equilibrium, solution.optimum
    columns = {
        "silo": np.arange(len(reached.contributions)),
        "d, none": none.contributions,
        "d": reached.contributions,
        "d, planner": best.contributions,
        "transfer": reached.payoff.transfer,
        "payoff, none": none.payoff.total,
        "payoff": reached.payoff.total,
        "payoff, planner": best.payoff.total,
    }
    rows = ("".join(f"<td>{float(number):.4g}</td>" for number in row) for row in zip(*columns.values(), strict=True))
    head = "".join(f"<th>{name}</th>" for name in columns)
    return "\n".join(f"<tr>{cells}</tr>" for cells in (head, *rows))
