"""Precision measured in parts is precision."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from potluck.federation import measuring
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
