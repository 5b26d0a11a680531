"""Pictures of games, solved and learnt, drawn without a screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.studies.intervals import Interval
from potluck.studies.stage import Solution, Sweep

INK, PAID, UNPAID, PLANNED = "#222222", "#1b7f5c", "#c2571a", "#3b5b92"
LEARNERS = {
    "mpgd": ("with redistribution (MPGD)", PAID),
    "wpr": ("no redistribution (WPR)", UNPAID),
    "planner": ("planner", PLANNED),
}


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
        ("no transfers", solution.no_redistribution, UNPAID),
        ("with the mechanism", solution.equilibrium, PAID),
        ("planner", solution.optimum, PLANNED),
    ]
    silos = np.arange(len(solution.equilibrium.contributions))
    for place, (name, play, colour) in enumerate(plays):
        heights = np.asarray(play.contributions if quantity == "contributions" else play.payoff.total)
        if quantity == "contributions":
            axes.bar(silos + 0.27 * (place - 1), heights, 0.25, label=name, color=colour)
        else:
            axes.plot(silos + 0.12 * (place - 1), heights, "o", label=name, color=colour)
    axes.set_xlabel("silo")
    axes.set_xticks(silos)
    if quantity == "contributions":
        axes.set(ylabel="contribution d", ylim=(0, 1.05), title="What each silo brings")
    else:
        axes.set(ylabel="payoff per slot", title="What each silo gains")
        axes.legend()


def _welfare(axes: Axes, solution: Solution, swept: Sweep) -> None:
    intensity, welfare, best = np.asarray(swept.intensity), np.asarray(swept.welfare), swept.best
    axes.plot(intensity, welfare, color=PAID, marker=".", label="under redistribution")
    axes.axhline(float(solution.optimum.payoff.welfare), color=PLANNED, linestyle="--", label="planner")
    axes.axhline(float(solution.no_redistribution.payoff.welfare), color=UNPAID, linestyle=":", label="no transfers")
    axes.plot(intensity[best], welfare[best], "o", color=INK, label=f"best of the sweep, α = {intensity[best]:.3g}")
    axes.set(xlabel="intensity α", ylabel="welfare per slot", title="What there is to share")
    axes.legend()


def _contributions(axes: Axes, swept: Sweep) -> None:
    for silo, contributions in enumerate(np.asarray(swept.contributions).T):
        axes.plot(swept.intensity, contributions, linewidth=1, alpha=0.7, label=f"silo {silo}" if silo < 8 else None)
    axes.plot(swept.intensity, np.asarray(swept.contributions).mean(axis=1), color=INK, linewidth=2, label="mean")
    axes.set(xlabel="intensity α", ylabel="contribution d", ylim=(-0.03, 1.05), title="What intensity makes them bring")
    axes.legend()


def draw_learning(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Welfare while learning against slots played: the mean over seeds, and from the worst seed to the best."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for agent, (slots, welfare) in curves.items():
        name, colour = LEARNERS[agent]
        axes.plot(slots, welfare.mean(0), "--" if agent == "planner" else "-", color=colour, label=name)
        axes.fill_between(slots, welfare.min(0), welfare.max(0), color=colour, alpha=0.2, linewidth=0)
    seeds = len(next(iter(curves.values()))[1])
    axes.set(xlabel="slots played by each seed", ylabel="welfare per slot", title="What silos learn to earn together")
    axes.legend(loc="lower right", title=f"mean and range of {seeds} seed{'s' * (seeds > 1)}")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def draw_silos(outcomes: Mapping[str, tuple[Sequence[float], Sequence[Interval]]], path: Path) -> None:
    """What each silo brings and earns once it has learnt: contributions, and payoffs with intervals over seeds."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    brings, earns = figure.subplots(1, 2)
    for place, (agent, (contributions, payoffs)) in enumerate(outcomes.items()):
        name, colour = LEARNERS[agent]
        silos = np.arange(len(contributions))
        brings.bar(silos + 0.27 * (place - 1), contributions, 0.25, label=name, color=colour)
        means = np.array([payoff.mean for payoff in payoffs])
        errors = [means - [payoff.low for payoff in payoffs], [payoff.high for payoff in payoffs] - means]
        earns.errorbar(silos + 0.12 * (place - 1), means, yerr=errors, fmt="o", capsize=3, label=name, color=colour)
    for axes in (brings, earns):
        axes.set_xticks(silos)
        axes.set_xlabel("silo")
    brings.set(ylabel="mean contribution d", ylim=(0, 1.05), title="What each silo brings")
    earns.set(ylabel="payoff per slot", title="What each silo gains")
    earns.legend()
    figure.savefig(path, dpi=130)
