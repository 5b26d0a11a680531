"""Pictures of solved games, drawn without a screen."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.studies.stage import Solution, Sweep

__all__ = ["draw_game"]

INK, PAID, UNPAID, PLANNED = "#222222", "#1b7f5c", "#c2571a", "#3b5b92"


def draw_game(solution: Solution, swept: Sweep | None, path: Path) -> None:
    """Contributions and payoffs of every silo and, where there is a sweep, welfare against intensity."""
    panels = 2 if swept is None else 4
    figure = Figure(figsize=(11, 4.2 * (panels // 2)), layout="constrained")
    axes = figure.subplots(panels // 2, 2, squeeze=False).ravel()
    _bars(axes[0], solution, "contributions")
    _bars(axes[1], solution, "payoff")
    if swept is not None:
        _welfare(axes[2], solution, swept)
        _contributions(axes[3], swept)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _bars(axes: Axes, solution: Solution, quantity: str) -> None:
    plays = [
        ("no redistribution", solution.no_redistribution, UNPAID),
        ("with redistribution", solution.equilibrium, PAID),
        ("planner", solution.optimum, PLANNED),
    ]
    silos = np.arange(len(solution.equilibrium.contributions))
    lowest = np.inf
    for place, (name, play, colour) in enumerate(plays):
        heights = np.asarray(play.contributions if quantity == "contributions" else play.payoff.total)
        axes.bar(silos + 0.27 * (place - 1), heights, 0.25, label=name, color=colour)
        lowest = min(lowest, float(heights.min()))
    axes.set_xlabel("silo")
    axes.set_xticks(silos)
    if quantity == "contributions":
        axes.set(ylabel="contribution d", ylim=(0, 1.05), title="What each silo brings")
    else:
        top = axes.get_ylim()[1]
        axes.set(ylabel="payoff per slot", title="What each silo gains")
        if lowest > 0:
            axes.set_ylim(0.95 * lowest, top)
        axes.legend(loc="lower right", framealpha=0.95)


def _welfare(axes: Axes, solution: Solution, swept: Sweep) -> None:
    intensity, welfare, best = np.asarray(swept.intensity), np.asarray(swept.welfare), swept.best
    axes.plot(intensity, welfare, color=PAID, marker=".", label="equilibrium")
    axes.axhline(float(solution.optimum.payoff.welfare), color=PLANNED, linestyle="--", label="planner")
    axes.axhline(
        float(solution.no_redistribution.payoff.welfare), color=UNPAID, linestyle=":", label="no redistribution"
    )
    axes.plot(intensity[best], welfare[best], "o", color=INK, label=f"best of the sweep, α = {intensity[best]:.3g}")
    axes.set(xlabel="intensity α", ylabel="welfare per slot", title="What there is to share")
    axes.legend()


def _contributions(axes: Axes, swept: Sweep) -> None:
    for silo, contributions in enumerate(np.asarray(swept.contributions).T):
        axes.plot(swept.intensity, contributions, linewidth=1, alpha=0.7, label=f"silo {silo}" if silo < 8 else None)
    axes.plot(swept.intensity, np.asarray(swept.contributions).mean(axis=1), color=INK, linewidth=2, label="mean")
    axes.set(xlabel="intensity α", ylabel="contribution d", ylim=(-0.03, 1.05), title="What intensity makes them bring")
    axes.legend()
