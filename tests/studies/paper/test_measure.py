"""Learnt play put to the test, for many seeds at once or one by one."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.studies.deviations import forced_ways, unilateral
from potluck.studies.paper.measure import measure, strangers
from tests.studies.learnt import TINY, playing

SEEDS = [[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize("at_once", [40, 60, 4096])  # ways one by one, seeds one by one, all together
def test_what_is_played_at_once_does_not_matter(at_once: int) -> None:
    run = playing(TINY, SEEDS)
    ways = unilateral(2, 1)
    agents = run.runs.agents
    one_by_one = list(forced_ways(run.lanes, agents, ways, 0.9, 4, at_once=1))
    together = list(forced_ways(run.lanes, agents, ways, 0.9, 4, at_once=at_once))
    assert len(one_by_one) == len(together) == len(SEEDS)
    for one, other in zip(one_by_one, together, strict=True):
        assert one.payoffs.shape == (len(ways), 4, 2)
        for name in ("payoffs", "welfare", "contributions"):
            assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5)


def test_every_seed_is_measured_as_if_it_were_alone() -> None:
    run = playing(TINY, SEEDS)
    found = list(measure(run.lanes, run.runs.agents, 0.9, 4, deviations=True, slots=True))
    for seed, shares in enumerate(SEEDS):
        assert_allclose(found[seed]["contributions"], [shares] * 3, rtol=1e-6)
        alone = playing(TINY, [shares])
        (own,) = measure(alone.lanes, alone.runs.agents, 0.9, 4, deviations=True, slots=True)
        assert_allclose(own["welfare"], found[seed]["welfare"], rtol=1e-6)
        assert_allclose(own["stakes"], found[seed]["stakes"], rtol=1e-4)


def test_strangers_come_from_seeds_of_their_own() -> None:
    agents = playing(TINY, SEEDS).runs.agents
    mixed = jax.tree.map(np.asarray, strangers(agents))
    shares = jax.tree.leaves(mixed)[0][..., 0]
    assert_allclose(shares, [[0.2, 0.5], [0.5, 0.0], [1.0, 0.8]], rtol=1e-6)
