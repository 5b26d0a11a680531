"""Pictures of games, solved and learnt, drawn without a screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from potluck.studies.intervals import Interval, bars_of, interval
from potluck.studies.looks import INK, MONEY, PAID, PLANNED, SCHEMES, UNPAID, line_look
from potluck.studies.stage import Solution, Sweep


def draw_game(solution: Solution, swept: Sweep | None, path: Path) -> None:
    """Contributions and payoffs of every silo and, where there is a sweep, welfare against intensity."""
    panels = 2 if swept is None else 4
    figure = Figure(figsize=(11, 4.2 * (panels // 2)), layout="constrained")
    axes = figure.subplots(panels // 2, 2, squeeze=False).ravel()
    plays = {
        ("with the mechanism", PAID): solution.equilibrium,
        ("no transfers", UNPAID): solution.no_redistribution,
        ("planner", PLANNED): solution.optimum,
    }
    drawn = [Series(*look, play.contributions, play.payoff.total) for look, play in plays.items()]
    _by_silo(axes[0], axes[1], drawn)
    if swept is not None:
        _welfare(axes[2], solution, swept)
        _contributions(axes[3], swept)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


class Series(NamedTuple):
    """One play, as it is drawn silo by silo."""

    name: str
    colour: str
    contributions: ArrayLike
    payoffs: ArrayLike
    errors: ArrayLike | None = None


def _by_silo(brings: Axes, earns: Axes, plays: Sequence[Series]) -> None:
    """What each silo brings, as bars, and what it gains, as points."""
    for place, play in enumerate(plays):
        silos = np.arange(np.size(play.contributions))
        look: dict[str, Any] = {"label": play.name, "color": play.colour}
        aside, wide = place - (len(plays) - 1) / 2, 0.8 / len(plays)
        brings.bar(silos + wide * aside, play.contributions, 0.93 * wide, **look)
        earns.errorbar(silos + 0.45 * wide * aside, play.payoffs, yerr=play.errors, fmt="o", capsize=3, **look)
    for axes in (brings, earns):
        axes.set_xlabel("silo")
        axes.set_xticks(silos)
    brings.set(ylabel="contribution d, share of data", ylim=(0, 1.05), title="What each silo brings")
    earns.set(ylabel=f"payoff, {MONEY}", title="What each silo gains")
    earns.legend()


def _welfare(axes: Axes, solution: Solution, swept: Sweep) -> None:
    intensity, welfare, best = np.asarray(swept.intensity), np.asarray(swept.welfare), swept.best
    axes.plot(intensity, welfare, color=PAID, marker=".", label="under redistribution")
    axes.axhline(float(solution.optimum.payoff.welfare), color=PLANNED, linestyle="--", label="planner")
    axes.axhline(float(solution.no_redistribution.payoff.welfare), color=UNPAID, linestyle=":", label="no transfers")
    axes.plot(intensity[best], welfare[best], "o", color=INK, label=f"best of the sweep, α = {intensity[best]:.3g}")
    axes.set(xlabel="intensity α", ylabel=f"welfare, {MONEY}", title="What there is to share")
    axes.legend()


def _contributions(axes: Axes, swept: Sweep) -> None:
    for silo, contributions in enumerate(np.asarray(swept.contributions).T):
        label = f"silo {silo}" if silo < 8 else None
        axes.plot(swept.intensity, contributions, linewidth=1, alpha=0.7, label=label, **line_look(silo))
    axes.plot(swept.intensity, np.asarray(swept.contributions).mean(axis=1), color=INK, linewidth=2, label="mean")
    axes.set(
        xlabel="intensity α",
        ylabel="contribution d, share of data",
        ylim=(-0.03, 1.05),
        title="What intensity makes them bring",
    )
    axes.legend()


def draw_learning(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Welfare while learning against slots played: the mean over seeds with its 95% interval."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for agent in sorted(curves, key=list(SCHEMES).index):
        slots, welfare = curves[agent]
        name, colour = SCHEMES[agent]
        mean, reach = bars_of([interval(window) for window in welfare.T])
        axes.plot(slots, mean, "--" if agent == "planner" else "-", color=colour, label=name)
        axes.fill_between(slots, mean - reach[0], mean + reach[1], color=colour, alpha=0.2, linewidth=0)
    seeds = len(next(iter(curves.values()))[1])
    axes.set(xlabel="slots played by each seed", ylabel=f"welfare, {MONEY}", title="What silos learn to earn together")
    axes.legend(loc="lower right", title=f"mean and 95% interval of {seeds} seed{'s' * (seeds > 1)}")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def draw_silos(outcomes: Mapping[str, tuple[Sequence[float], Sequence[Interval]]], path: Path) -> None:
    """What each silo brings and earns once it has learnt: contributions, and payoffs with intervals over seeds."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    brings, earns = figure.subplots(1, 2)
    plays = [Series(*SCHEMES[agent], shares, *bars_of(payoffs)) for agent, (shares, payoffs) in outcomes.items()]
    _by_silo(brings, earns, plays)
    figure.savefig(path, dpi=130)


def draw_transfers(transfers: Float[np.ndarray, "slots silos"], title: str, path: Path) -> None:
    """Who is paid and who pays: in every slot, and in sum over the game."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    by_slot, in_sum = figure.subplots(1, 2)
    slots, silos = transfers.shape
    for silo in range(silos):
        by_slot.plot(np.arange(1, slots + 1), transfers[:, silo], label=f"silo {silo}", **line_look(silo))
    total = transfers.sum(0)
    in_sum.bar(np.arange(silos), total, color=[PAID if money >= 0 else UNPAID for money in total])
    for axes in (by_slot, in_sum):
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.grid(alpha=0.3)
    by_slot.set(xlabel="slot", ylabel=f"transfer, {MONEY}", title="In every slot")
    by_slot.legend()
    in_sum.set(xlabel="silo", ylabel="money", title="In sum: above 0 it is paid, below it pays", xticks=range(silos))
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
