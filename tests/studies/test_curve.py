"""Measuring precision against contribution."""

import pytest

from potluck.errors import PotluckError
from potluck.studies.curve import measure
from tests.federation.conftest import federation


def test_measured_precision_rises_with_common_contribution() -> None:
    heard: list[tuple[int, int]] = []
    found = measure(
        lambda seed: federation(seed=seed),
        seeds=2,
        slots=6,
        grid=(0.1, 1.0),
        others=0.5,
        progress=lambda done, total: heard.append((done, total)),
    )
    assert [point.contributions for point in found.common] == [(0.1,) * 4, (1.0,) * 4]
    assert [point.contributions[:2] for point in found.own] == [(0.0, 0.5), (0.1, 0.5), (1.0, 0.5)]
    assert [point.samples for point in found.common] == pytest.approx([140, 1400])
    low, high = (point.sustained for point in found.common)
    assert low.high < high.low
    assert found.common[0].precision.shape == (2, 6)
    assert heard[-1] == (10, 10)


def test_no_seeds_is_refused() -> None:
    with pytest.raises(PotluckError, match="seeds must be 1 or more"):
        measure(lambda seed: federation(seed=seed), seeds=0)
