"""Learnt play put to the test: what could any silo still gain by deviating alone?

Nobody can prove a best response in a game without formulas, so the gain is that of the best deviation found: constant
contributions, the best plan in imagination, a learner trained against the frozen others, and on the curve the best plan
by ascent.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from potluck.game.players import Playing
from potluck.scenario import CurvePrecision
from potluck.studies import deviations
from potluck.studies.deviations import CONSTANTS, Played, evaluated, only
from potluck.studies.imagination import Imagination
from potluck.studies.planning import Watcher, planner_of
from potluck.training.run import Trained

STAY = "none"
"""Where no deviation found was better than what was learnt."""
SETTLED = 0.05
"""NashConv as a share of the stake, at most, of play that has settled."""


@dataclass(frozen=True)
class Judgement:
    """Play, and what every silo of every seed could gain by deviating from it alone."""

    own: Played
    gains: Float[np.ndarray, "seeds silos"]
    found_by: list[str]
    levels: Float[np.ndarray, "constants seeds silos"]
    """Payoffs at constant contributions."""
    broken: int
    """Trained deviators that ended without a payoff that is a number."""

    @property
    def stakes(self) -> Float[np.ndarray, " silos"]:
        """Spread of a silo's payoff over constant contributions, the others frozen."""
        levels = self.levels.mean(1)
        return np.asarray(levels.max(0) - levels.min(0))

    @property
    def share(self) -> float:
        """NashConv as a share of the stakes."""
        stake = self.stakes.sum()
        return float(self.gains.sum(1).mean() / stake) if stake > 0 else float("nan")

    def of(self, seed: int) -> "Judgement":
        """Of one seed."""
        return Judgement(only(self.own, seed), self.gains[[seed]], self.found_by, self.levels[:, [seed]], self.broken)


def imagination_of(run: Trained) -> Imagination | None:
    """Where deviations from a run can be imagined: in a game of contributions and precision on real training.

    On the curve ascent is exact, and needs no law to be learnt.
    """
    if not isinstance(run.lanes.tree.environment, Playing) or _on_the_curve(run):
        return None
    return Imagination(planner_of(run), run.config.scenario.discount)


def _on_the_curve(run: Trained) -> bool:
    return isinstance(getattr(run.config.scenario, "precision", None), CurvePrecision)


def judge(
    run: Trained, *, games: int, slots: int = 0, imagination: Imagination | None = None, watch: Watcher
) -> Judgement:
    """Try all deviations. `slots` is the budget of each trained deviator; 0 trains none."""
    watch("play", 0.0)
    own = evaluated(run, games)
    constants = deviations.constant_deviations(run, games, watch)
    tried = {f"constant {level:g}": values for level, values in zip(CONSTANTS, constants, strict=True)}
    around = None
    if imagination is not None:
        tried["imagined"], plans = deviations.imagined_deviations(run, own, imagination, games, watch)
        better = (tried["imagined"] - own.payoffs)[:, : games // 2].mean(1) > 0
        around = jnp.where(better[:, None], plans, own.mean_play)
    if slots > 0:
        tried["trained"] = deviations.trained_deviations(run, games, slots, watch, around)
    if _on_the_curve(run):
        tried["plan"] = deviations.planned_deviations(run, games, watch)
    gains, found_by = found_gains(own.payoffs, tried)
    broken = int((~np.isfinite(tried["trained"]).all(1)).sum()) if slots > 0 else 0
    return Judgement(own, gains, found_by, constants.mean(2), broken)


def found_gains(
    own: Float[np.ndarray, "seeds games silos"], tried: dict[str, Float[np.ndarray, "seeds games silos"]]
) -> tuple[Float[np.ndarray, "seeds silos"], list[str]]:
    """Of the deviation that is best in half of the games, what it gains in the others: choosing must not flatter it."""
    kinds = [STAY, *tried]
    values = np.stack([own, *tried.values()]).astype(float)
    values = np.where(np.isfinite(values), values, -np.inf)  # a deviator that broke down gains nothing
    half = values.shape[2] // 2
    choice = values[:, :, :half].mean(2).argmax(0)
    measured = values[:, :, half:].mean(2)
    gains = np.maximum(np.take_along_axis(measured, choice[None], axis=0)[0] - measured[0], 0.0)
    found = [np.bincount(silo, gained, len(kinds)) for silo, gained in zip(choice.T, gains.T, strict=True)]
    return gains, [kinds[int(total.argmax())] for total in found]
