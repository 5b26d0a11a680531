"""The silos' update rules, by hand."""

import jax.numpy as jnp
from numpy.testing import assert_allclose

from potluck.federation.optimisers import Adam


def test_adam_by_hand() -> None:
    rule, active = Adam(0.1), jnp.array(True)
    start = jnp.zeros(2)
    first, memory = rule.step(start, jnp.array([1e-7, 2.0]), rule.init(start), active)
    # m̂ = g and v̂ = g² after one step: −0.1·1e-7 / (1e-7 + 1e-8), −0.1·2 / (2 + 1e-8)
    assert_allclose(first, [-1 / 11, -0.1], rtol=1e-4)
    second, _ = rule.step(first, jnp.array([3e-7, -1.0]), memory, active)
    # m̂ = (0.09 g₁ + 0.1 g₂) / 0.19 = 2.05263e-7, 0.421053; v̂ = (0.000999 g₁² + 0.001 g₂²) / 0.001999, roots
    # 2.236515e-7, 1.580902
    assert_allclose(second - first, [-0.0878501, -0.0266337], rtol=1e-4)
