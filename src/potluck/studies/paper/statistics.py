"""Few seeds, honestly: means and interquartile means with BCa bootstrap intervals, and who is better how often."""

import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import stats

from potluck.studies.intervals import Interval

RESAMPLES = 2000
LEVEL = 0.95


def bca(
    statistic: Callable[..., Float[np.ndarray, "..."]],
    *samples: Float[np.ndarray, " _"],
    paired: bool = False,
    level: float = LEVEL,
) -> Interval:
    """A statistic of samples with its bias-corrected and accelerated bootstrap interval; seeded.

    `statistic` takes one array per sample and `axis`. Where resampling changes nothing, or there is one seed, the
    interval is the value itself.
    """
    value = float(statistic(*samples, axis=-1))
    if min(map(len, samples)) < 2:
        return Interval(value, value, value)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # degenerate samples: handled below
        found = stats.bootstrap(
            samples, statistic, n_resamples=RESAMPLES, confidence_level=level, method="BCa", paired=paired, rng=0
        )
        low, high = map(float, found.confidence_interval)
        if not (np.isfinite(low) and np.isfinite(high)):  # BCa has no answer at an end of what can be: percentiles do
            low, high = np.quantile(found.bootstrap_distribution, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def mean(values: Float[np.ndarray, " seeds"]) -> Interval:
    return bca(np.mean, np.asarray(values, float))


def interquartile_mean(values: Float[np.ndarray, " seeds"]) -> Interval:
    """The mean of the middle half of the seeds."""

    def middle(values: Float[np.ndarray, "..."], axis: int) -> Float[np.ndarray, "..."]:
        return np.asarray(stats.trim_mean(values, 0.25, axis=axis))

    return bca(middle, np.asarray(values, float))


def difference(
    ours: Float[np.ndarray, " seeds"], theirs: Float[np.ndarray, " other_seeds"], level: float = LEVEL
) -> Interval:
    """Of means; seeds of different schemes have nothing in common. Where both are one thing, it is exactly 0."""
    samples = np.asarray(ours, float), np.asarray(theirs, float)
    if np.array_equal(*samples):
        return Interval(0.0, 0.0, 0.0)
    return bca(lambda a, b, axis: a.mean(axis) - b.mean(axis), *samples, level=level)


def improvement(ours: Float[np.ndarray, " seeds"], theirs: Float[np.ndarray, " other_seeds"]) -> Interval:
    """Probability that a seed of ours beats one of theirs; a tie is half a win."""

    def wins(a: Float[np.ndarray, "..."], b: Float[np.ndarray, "..."], axis: int) -> Float[np.ndarray, "..."]:
        del axis
        ahead = a[..., :, None] - b[..., None, :]
        return np.asarray(((ahead > 0) + 0.5 * (ahead == 0)).mean((-1, -2)))

    return bca(wins, np.asarray(ours, float), np.asarray(theirs, float))
