"""The silos' update rules, and one that the package does not have."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from numpy.testing import assert_allclose

from potluck.federation import OPTIMISERS, run
from tests.federation.conftest import federation


def test_momentum_by_hand() -> None:
    rule = OPTIMISERS["momentum"](jnp.array(0.1))
    start = jnp.zeros(2)
    first, state = rule.update(jnp.array([1.0, -2.0]), rule.init(start), start)
    second, _ = rule.update(jnp.array([1.0, 0.0]), state, start)
    assert_allclose(first, [-0.1, 0.2], rtol=1e-6)
    assert_allclose(second, [-0.19, 0.18], rtol=1e-6)  # v = 0.9·g₁ + g₂


def test_adam_by_hand() -> None:
    rule = OPTIMISERS["adam"](jnp.array(0.1))
    start = jnp.zeros(2)
    first, state = rule.update(jnp.array([1e-7, 2.0]), rule.init(start), start)
    # m̂ = g and v̂ = g² after one step: −0.1·1e-7 / (1e-7 + 1e-8), −0.1·2 / (2 + 1e-8)
    assert_allclose(first, [-1 / 11, -0.1], rtol=1e-4)
    second, _ = rule.update(jnp.array([3e-7, -1.0]), state, start)
    # m̂ = (0.09 g₁ + 0.1 g₂) / 0.19 = 2.05263e-7, 0.421053; v̂ = (0.000999 g₁² + 0.001 g₂²) / 0.001999, roots
    # 2.236515e-7, 1.580902
    assert_allclose(second, [-0.0878501, -0.0266337], rtol=1e-4)


def test_an_optimiser_from_outside_trains_by_its_name() -> None:
    def clipped(learning_rate: Array) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(learning_rate))

    OPTIMISERS.register("clipped", clipped)
    fed = federation(optimiser="clipped", learning_rate=0.1)
    assert run(fed, np.ones(4), jax.random.key(0), 15).precision[-1] > 0.9
