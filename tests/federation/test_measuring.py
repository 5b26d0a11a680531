"""Precision measured in parts is precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_array_equal

from potluck.federation import measuring, shard
from tests.federation.conftest import federation


@pytest.mark.parametrize("size", [7, 30, 99])
def test_measured_in_parts_precision_is_what_it_is_in_one_piece(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = federation(held_out=100)
    keys = jax.random.split(jax.random.key(0), 6).reshape(2, 3)
    weights = jax.vmap(jax.vmap(lambda key: fed.init_model(key).weights))(keys)
    one = jax.vmap(jax.vmap(fed.precision))(weights)
    monkeypatch.setattr(measuring, "PART", size * 64 * 4)
    assert measuring.part_size(100, 100 * 64 * 4) == size
    assert_array_equal(jax.jit(lambda each: jax.vmap(jax.vmap(fed.precision))(each))(weights), one)
    assert_array_equal(
        jax.jit(lambda one: fed.precision(one))(jax.tree.map(lambda leaf: leaf[1, 2], weights)), one[1, 2]
    )
    assert len(np.unique(one)) > 1


def test_parts_count_the_same_on_several_devices_and_without_each_silo(monkeypatch: pytest.MonkeyPatch) -> None:
    fed, key = federation(held_out=101), jax.random.key(0)

    def slot() -> tuple[Array, Array]:
        source = shard(fed)
        state = source.init(key)
        _, measured = jax.jit(lambda d: source.train(state, d, key, marginal=True))(jnp.linspace(0.2, 0.8, 4))
        return measured.precision, measured.marginal

    one = slot()
    monkeypatch.setattr(measuring, "PART", 10 * 64 * 4)
    for found, expected in zip(slot(), one, strict=True):
        assert_array_equal(found, expected)
    assert np.any(np.asarray(one[1]) != 0)
