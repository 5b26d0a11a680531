"""A window at once is the same as slot by slot."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents.dnc import DNCSize
from potluck.agents.networks import Network

SMALL = DNCSize(words=3, width=2, heads=1, hidden=4)
FIRST = jnp.array([False, False, True, False, False, True, False])


@pytest.mark.parametrize("size", [None, SMALL])
def test_a_window_is_its_slots_one_by_one_forgetting_where_a_game_begins(size: DNCSize | None) -> None:
    network = Network.create(4, 2, (6, 5), size, jax.random.key(0))
    xs = jax.random.normal(jax.random.key(1), (len(FIRST), 4))
    step = eqx.filter_jit(lambda memory, x: network(memory, x))
    before, _ = step(network.initial_memory(), jnp.ones(4))  # a window may begin within a game
    kept, ys = eqx.filter_jit(network.unroll)(before, xs, FIRST)
    memory = before
    for x, begins, y in zip(xs, FIRST, ys, strict=True):
        memory, alone = step(network.initial_memory() if begins else memory, x)
        assert_allclose(y, alone, atol=1e-6)
    for one, other in zip(jax.tree.leaves(kept), jax.tree.leaves(memory), strict=True):
        assert_allclose(one, other, atol=1e-6)


def test_a_memory_tells_apart_what_looks_the_same() -> None:
    network = Network.create(4, 2, (6, 5), SMALL, jax.random.key(0))
    step = eqx.filter_jit(lambda memory, x: network(memory, x))
    memory, first = step(network.initial_memory(), jnp.ones(4))
    _, second = step(memory, jnp.ones(4))
    assert not np.allclose(first, second)
