"""Running statistics against NumPy's, all at once."""

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from potluck.agents.moments import Moments


def test_batches_add_up_to_the_whole() -> None:
    values = np.random.default_rng(0).normal(5.0, 3.0, (7, 4, 6, 2)).astype(np.float32)
    moments = Moments.none(2)
    for batch in values:
        moments = moments.after(jnp.asarray(batch))
    assert_allclose(moments.mean, values.mean((0, 1, 2)), rtol=1e-5)
    assert_allclose(moments.variance, values.var((0, 1, 2)), rtol=1e-4)
    standard = moments.standard(jnp.asarray(values))
    assert_allclose(np.mean(standard, (0, 1, 2)), 0.0, atol=1e-5)
    assert_allclose(np.std(standard, (0, 1, 2)), 1.0, rtol=1e-4)


def test_the_first_batch_sets_them() -> None:
    values = jnp.array([[1.0, 3.0], [5.0, 7.0]])
    moments = Moments.none().after(values)
    assert_allclose([moments.mean, moments.variance], [4.0, 5.0])


def test_before_anything_is_seen_numbers_pass_as_they_are() -> None:
    assert_allclose(Moments.none(3).standard(jnp.array([-1.0, 0.0, 2.5])), [-1.0, 0.0, 2.5], rtol=1e-6)


def test_a_number_that_never_changes_stays_finite_and_a_wild_one_is_cut_off() -> None:
    moments = Moments.none(1).after(jnp.full((2, 3, 1), 4.0))
    assert_allclose(moments.standard(jnp.array([4.0])), [0.0], atol=1e-6)
    assert_allclose(moments.standard(jnp.array([1e9])), [10.0])
