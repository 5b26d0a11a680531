import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from potluck.studies.paper.statistics import (
    difference,
    improvement,
    interquartile_mean,
    mean,
    mean_square,
    of_mean,
)

SEEDS = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=2, max_size=12).map(np.array)


@given(SEEDS)
def test_an_interval_holds_its_value_and_is_always_numbers(values: np.ndarray) -> None:
    for found in (mean(values), interquartile_mean(values)):
        assert np.isfinite([found.mean, found.low, found.high]).all()
        assert values.min() - 1e-6 <= found.low <= found.high <= values.max() + 1e-6


def test_the_mean_is_scipys_bca() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    found = mean(values)
    asked = stats.bootstrap((values,), np.mean, n_resamples=2000, method="BCa", rng=0).confidence_interval
    assert found.mean == 4.8
    assert (found.low, found.high) == tuple(asked)


def test_the_interquartile_mean_forgets_the_outer_seeds() -> None:
    assert interquartile_mean(np.array([-100.0, 1.0, 3.0, 1e6])).mean == 2.0


def test_a_difference_of_what_never_varies_is_exact() -> None:
    found = difference(np.full(5, 3.0), np.full(4, 1.0))
    assert (found.mean, found.low, found.high) == (2.0, 2.0, 2.0)


@given(SEEDS, SEEDS, st.sampled_from([0.95, 0.9875]))
def test_differences_are_welchs_and_means_students(ours: np.ndarray, theirs: np.ndarray, level: float) -> None:
    if min(ours.std(), theirs.std()) < 1e-6 or np.array_equal(ours, theirs):
        return
    for found, asked in (
        (difference(ours, theirs, level), stats.ttest_ind(ours, theirs, equal_var=False)),
        (of_mean(ours, level), stats.ttest_1samp(ours, 0)),
    ):
        np.testing.assert_allclose((found.low, found.high), asked.confidence_interval(level), rtol=1e-6, atol=1e-9)


def test_a_bootstrap_of_five_seeds_misses_three_times_as_often_as_it_says() -> None:
    """So no verdict rests on one."""
    found = [mean(values) for values in np.random.default_rng(0).normal(size=(400, 5))]
    assert 0.13 <= np.mean([one.low > 0 or one.high < 0 for one in found]) <= 0.21


def test_rounding_decides_nothing() -> None:
    assert difference(np.full(5, 3267.3644), np.full(5, 3267.3640)).low == 0
    assert difference(np.full(5, 3267.37), np.full(5, 3267.36)).low > 0


@pytest.mark.parametrize("middle", [0.0, 1.0])
def test_intervals_of_mean_squares_miss_as_seldom_as_they_say(middle: float) -> None:
    found = [mean_square(values) for values in np.random.default_rng(0).normal(middle, 1, size=(2000, 5))]
    assert np.mean([not one.low <= 1 + middle**2 <= one.high for one in found]) <= 0.06


def test_intervals_of_five_seeds_miss_as_seldom_as_they_say() -> None:
    luck = np.random.default_rng(0)
    found = [difference(luck.normal(size=5), luck.normal(size=5)) for _ in range(2000)]
    assert np.mean([one.low > 0 or one.high < 0 for one in found]) <= 0.06


@pytest.mark.parametrize(
    ("ours", "theirs", "wins"),
    [
        ([2, 3], [0, 1], 1.0),
        ([0, 1], [2, 3], 0.0),
        ([1, 1], [1, 1], 0.5),
        ([0, 2], [1, 1], 0.5),
        ([1, 2], [1, 0], 0.875),
    ],
)
def test_the_probability_of_improvement_counts_pairs(ours: list[float], theirs: list[float], wins: float) -> None:
    found = improvement(np.array(ours, float), np.array(theirs, float))
    assert found.mean == wins
    assert 0 <= found.low <= found.high <= 1


def test_one_seed_has_no_interval() -> None:
    found = mean(np.array([7.0]))
    assert (found.low, found.high) == (7.0, 7.0)
