"""Few seeds, honestly: means and interquartile means with BCa bootstrap intervals, differences by Welch's t, and who is
better how often.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats

from potluck.studies.intervals import RESAMPLES, Interval

LEVEL = 0.95
SAME = 1e-6
"""Of a number: seeds that all play one thing differ by less where it was computed in another order."""


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
    """Of means, by Welch's t. Where both are one thing, or single precision cannot tell them apart, it is exactly 0.

    A bootstrap of five seeds never leaves what they span, so it misses the truth three times as often as it says. Seeds
    of different schemes are taken to have nothing in common: they share their first draws, of which learning leaves no
    trace.
    """
    samples = np.asarray(ours, float), np.asarray(theirs, float)
    still = all(np.ptp(sample) == 0 for sample in samples)
    if np.array_equal(*samples) or (still and np.isclose(samples[0][0], samples[1][0], rtol=SAME, atol=0)):
        return Interval(0.0, 0.0, 0.0)
    return _student(float(samples[0].mean() - samples[1].mean()), samples, level)


def of_mean(values: Float[np.ndarray, " seeds"], level: float = LEVEL) -> Interval:
    """By Student's t: what decides, where a bootstrap would be too narrow."""
    values = np.asarray(values, float)
    return _student(float(values.mean()), (values,), level)


def mean_square(values: Float[np.ndarray, " seeds"], level: float = LEVEL) -> Interval:
    """n·m/χ², where m is the mean square of n values: exact where they are normal around 0, wide enough around others.

    Squares are too skewed for Student's t, and few of them for a bootstrap.
    """
    values = np.asarray(values, float)
    found = float(np.mean(values**2))
    high, low = stats.chi2.ppf([(1 - level) / 2, (1 + level) / 2], len(values))
    return Interval(found, len(values) * found / low, len(values) * found / high)


def _student(value: float, samples: Sequence[Float[np.ndarray, " _"]], level: float) -> Interval:
    """value ± t·√Σ v with v = s²/n of each sample, and (Σv)² / Σ v²/(n − 1) degrees of freedom."""
    if min(map(len, samples)) < 2:
        return Interval(value, value, value)
    spread = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    if not spread.any():
        return Interval(value, value, value)
    share = spread / spread.sum()
    freedom = 1 / sum(part**2 / (len(sample) - 1) for part, sample in zip(share, samples, strict=True))
    half = float(stats.t.ppf((1 + level) / 2, freedom) * spread.sum() ** 0.5)
    return Interval(value, value - half, value + half)


def improvement(ours: Float[np.ndarray, " seeds"], theirs: Float[np.ndarray, " other_seeds"]) -> Interval:
    """Probability that a seed of ours beats one of theirs; a tie is half a win."""

    def wins(a: Float[np.ndarray, "..."], b: Float[np.ndarray, "..."], axis: int) -> Float[np.ndarray, "..."]:
        del axis
        ahead = a[..., :, None] - b[..., None, :]
        return np.asarray(((ahead > 0) + 0.5 * (ahead == 0)).mean((-1, -2)))

    return bca(wins, np.asarray(ours, float), np.asarray(theirs, float))
