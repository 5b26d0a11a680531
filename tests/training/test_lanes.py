"""Lanes: what differs is stacked, what is common is kept once, and each is as it was alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

from potluck.training.lanes import alike, each_lane, stack


class Line(eqx.Module):
    """y = slope·x + shift, and data that nobody changes."""

    slope: Float[Array, ""]
    shift: Float[Array, ""]
    data: Float[Array, " n"]
    kind: str = eqx.field(static=True, default="plain")


def line(slope: float, shift: float = 1.0, size: int = 3, kind: str = "plain") -> Line:
    return Line(jnp.asarray(slope), jnp.asarray(shift), jnp.arange(float(size)), kind)


@given(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=6))
def test_a_lane_is_the_module_it_was_made_of(slopes: list[float]) -> None:
    lanes = stack([line(slope) for slope in slopes])
    for number, slope in enumerate(slopes):
        one = lanes.lane(number)
        assert one.slope == jnp.float32(slope)
        assert_array_equal(one.data, [0, 1, 2])


def test_what_is_common_is_kept_once_even_if_it_was_made_apart() -> None:
    lanes = stack([line(1.0), line(2.0)])
    assert lanes.tree.slope.shape == (2,)
    assert lanes.tree.shift.shape == ()
    assert lanes.tree.data.shape == (3,)


def test_a_function_of_each_lane_sees_one_module() -> None:
    lanes = stack([line(1.0), line(2.0, shift=5.0)])
    found = jax.jit(lambda xs: each_lane(lambda one, x: one.slope * x + one.shift + one.data.sum(), lanes, xs))(
        jnp.array([10.0, 20.0])
    )
    assert_allclose(found, [1 * 10 + 1 + 3, 2 * 20 + 5 + 3])


def test_lanes_that_are_all_the_same_still_count() -> None:
    lanes = stack([line(1.0)] * 4)
    assert lanes.tree.slope.shape == ()
    assert_allclose(each_lane(lambda one, x: one.slope * x, lanes, jnp.arange(4.0)), [0, 1, 2, 3])


@pytest.mark.parametrize("other", [line(1.0, size=4), line(1.0, kind="bold")])
def test_other_shapes_or_kinds_are_another_program(other: Line) -> None:
    assert not alike(line(1.0), other)
    with pytest.raises(ValueError, match="same structure and shapes"):
        stack([line(1.0), other])
    assert alike(line(1.0), line(-3.0, shift=7.0))


def test_keys_can_be_lanes() -> None:
    keys = [jax.random.key(n) for n in (1, 2)]
    lanes = stack(keys)
    assert lanes.lane(1) == keys[1]
