"""Precision measured in parts is precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_array_equal

from potluck.federation import FedAvg, measuring, shard
from tests.federation.conftest import federation, pictures

SAMPLE = 4 * 6 * 6 * 16
"""Bytes of one sample of the network's as floats: 6 × 6 patches of 16."""


def small_network(held_out: int) -> FedAvg:
    data = pictures(samples=600, side=14, channels=1)
    return federation(data, samples=40, model="cnn", held_out=held_out, batch_size=10)


def test_parts_are_as_even_as_can_be_and_hold_no_more_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PART", 100 * 4 * 10)  # a hundred samples of ten numbers
    sizes = {count: measuring.part_size((count, 5, 2)) for count in (0, 1, 100, 101, 199, 1001)}
    assert sizes == {0: 0, 1: 1, 100: 100, 101: 51, 199: 100, 1001: 91}
    assert measuring.part_size((1001, 10)) == 1001, "rows are what all games share"
    assert measuring.part_size((3, 1000, 1000)) == 1


@pytest.mark.parametrize("parts", [2, 7, 100])
def test_measured_in_parts_precision_is_what_it_is_in_one_piece(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = small_network(held_out=100)
    keys = jax.random.split(jax.random.key(0), 6).reshape(2, 3)
    weights = jax.vmap(jax.vmap(lambda key: fed.init_model(key).weights))(keys)
    one = jax.vmap(jax.vmap(fed.precision))(weights)
    monkeypatch.setattr(measuring, "PART", -(-100 // parts) * SAMPLE)
    assert measuring.part_size(fed.test.features.shape) == -(-100 // parts)
    assert_array_equal(jax.jit(lambda each: jax.vmap(jax.vmap(fed.precision))(each))(weights), one)
    assert_array_equal(
        jax.jit(lambda one: fed.precision(one))(jax.tree.map(lambda leaf: leaf[1, 2], weights)), one[1, 2]
    )
    assert len(np.unique(one)) > 1


def test_parts_count_the_same_on_several_devices_and_without_each_silo(monkeypatch: pytest.MonkeyPatch) -> None:
    fed, key = small_network(held_out=101), jax.random.key(0)

    def slot() -> tuple[Array, Array | None]:
        source = shard(fed)
        state = source.init(key)
        _, measured = jax.jit(lambda d: source.train(state, d, key, marginal=True))(jnp.linspace(0.2, 0.8, 4))
        return measured.precision, measured.marginal

    one = slot()
    monkeypatch.setattr(measuring, "PART", 10 * SAMPLE)
    for found, expected in zip(slot(), one, strict=True):
        assert_array_equal(found, expected)
    assert np.any(np.asarray(one[1]) != 0)


def test_double_precision_elsewhere_does_not_trip_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PART", 10 * SAMPLE)
    with jax.enable_x64(True):
        fed = small_network(held_out=101)
        weights = fed.init_model(jax.random.key(0)).weights
        assert jax.jit(lambda weights: fed.precision(weights))(weights).dtype == jnp.float32
