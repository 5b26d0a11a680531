"""Who holds which samples."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import PotluckError
from potluck.federation.partition import partition
from potluck.scenario.federation import PartitionName


@st.composite
def requests(draw: st.DrawFn) -> tuple[PartitionName, np.ndarray, list[int], np.ndarray, float, int]:
    kinds: tuple[PartitionName, ...] = get_args(PartitionName)
    kind = draw(st.sampled_from(kinds))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    silos = draw(st.integers(1, 8))
    samples = draw(st.integers(2 * silos, 400))
    labels = rng.integers(0, draw(st.integers(1, 10)), samples)
    silo = np.concatenate([np.arange(silos), rng.integers(0, silos, samples - silos)])
    most = np.bincount(silo) if kind == "natural" else np.full(silos, samples // silos)
    sizes = [draw(st.integers(1, int(size))) for size in most]
    return kind, labels, sizes, silo, draw(st.floats(0.01, 100)), seed


@given(requests())
def test_shares_are_disjoint_exact_in_size_and_seeded(
    request: tuple[PartitionName, np.ndarray, list[int], np.ndarray, float, int],
) -> None:
    kind, labels, sizes, silo, concentration, seed = request
    first, second = (
        partition(kind, labels, sizes, concentration=concentration, silo=silo, seed=seed) for _ in range(2)
    )
    assert [len(share) for share in first] == sizes
    everything = np.concatenate(first)
    assert len(np.unique(everything)) == sum(sizes)
    assert everything.min() >= 0
    assert everything.max() < len(labels)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    if kind == "natural":
        assert all((silo[share] == n).all() for n, share in enumerate(first))


def test_small_concentration_skews_labels_and_large_evens_them() -> None:
    labels = np.repeat(np.arange(10), 1000)

    def largest_class(concentration: float) -> float:
        shares = partition("dirichlet", labels, [500] * 4, concentration=concentration, seed=1)
        return float(np.mean([np.bincount(labels[share]).max() / 500 for share in shares]))

    assert largest_class(0.05) > 0.5
    assert largest_class(1000) < 0.15


def test_dirichlet_can_deal_out_every_last_sample() -> None:
    labels = np.repeat(np.arange(3), 20)
    shares = partition("dirichlet", labels, [20, 20, 20], concentration=0.01)
    assert sorted(np.concatenate(shares)) == list(range(60))


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        ("iid", [60, 60], "2 silos ask for 120 samples and the task has 100; lower samples or silos"),
        ("dirichlet", [60, 60], "ask for 120 samples"),
        ("quantity", [10, 0], "silo 1 would hold 0"),
        ("iid", [], "silos must be 1 or more"),
        ("natural", [10, 10], "natural needs a silo column"),
    ],
)
def test_an_impossible_request_says_why(kind: PartitionName, sizes: list[int], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        partition(kind, np.zeros(100, int), sizes)


def test_a_natural_split_gives_no_more_than_a_silo_has() -> None:
    silo = np.array([0] * 5 + [1] * 15)
    with pytest.raises(PotluckError, match="silo 0 has 5 samples of its own and is asked for 10"):
        partition("natural", np.zeros(20, int), [10, 10], silo=silo)
    with pytest.raises(PotluckError, match="names 2 silos and the run has 3"):
        partition("natural", np.zeros(20, int), [1, 1, 1], silo=silo)


@pytest.mark.parametrize("concentration", [0, -1.0, float("nan"), float("inf")])
def test_concentration_must_be_positive_and_finite(concentration: float) -> None:
    with pytest.raises(PotluckError, match=f"concentration must be positive and finite, got {concentration}"):
        partition("dirichlet", np.zeros(20, int), [10], concentration=concentration)
