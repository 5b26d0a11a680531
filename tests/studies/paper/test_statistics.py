import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from potluck.studies.paper.statistics import difference, improvement, interquartile_mean, mean

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
