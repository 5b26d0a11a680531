"""A mean over seeds, and how far it is to be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float


def interval(values: Float[np.ndarray, " seeds"]) -> Interval:
    """Mean and 95% percentile bootstrap over seeds; the resampling itself is seeded."""
    draws = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(values.mean()), float(low), float(high))


def bars_of(intervals: Sequence[Interval]) -> tuple[Float[np.ndarray, " places"], Float[np.ndarray, "2 places"]]:
    """Means, and how far each interval reaches below and above, as error bars are drawn."""
    mean, low, high = np.array([(each.mean, each.low, each.high) for each in intervals]).T
    return mean, np.stack([mean - low, high - mean])
