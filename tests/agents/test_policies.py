"""Distributions over [0, 1] against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from potluck.agents.policies import POLICIES, Beta, Gaussian, Policy, gamma, stretch

DRAWS = 20_000


def shapes(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = 1 + np.logaddexp(0.0, raw)
    return a, b


def test_the_beta_density_is_scipys() -> None:
    raw = np.array([[-3.0, 0.0, 4.0], [1.0, 0.0, 20.0]])
    drawn = np.array([0.2, 0.5, 0.9])
    a, b = shapes(raw)
    wanted = stats.beta(a, b).logpdf(drawn)
    assert_allclose(Beta().log_density(jnp.asarray(raw), jnp.asarray(drawn)), wanted, rtol=1e-4)


@pytest.mark.parametrize("shape", [1.0, 1.3, 2.0, 7.0, 60.0])
def test_gamma_draws_are_gamma(shape: float) -> None:
    drawn = gamma(jnp.full(DRAWS, shape), jax.random.key(3))
    assert stats.kstest(np.asarray(drawn), stats.gamma(shape).cdf).pvalue > 0.01


@pytest.mark.parametrize("raw", [(-2.0, -2.0), (0.0, 3.0), (5.0, 1.0)])
def test_beta_draws_are_beta(raw: tuple[float, float]) -> None:
    numbers = jnp.broadcast_to(jnp.array(raw)[:, None], (2, DRAWS))
    drawn = np.asarray(Beta().sample(numbers, jax.random.key(1)))
    a, b = shapes(np.array(raw))
    assert stats.kstest(drawn, stats.beta(a, b).cdf).pvalue > 0.01
    assert drawn.min() >= 1e-4
    assert drawn.max() <= 1 - 1e-4


def test_densities_are_finite_wherever_a_draw_can_be() -> None:
    raw = jnp.array([[[x], [-x]] for x in (-50.0, 0.0, 50.0)] * 2)
    edges = jnp.repeat(jnp.array([1e-4, 1 - 1e-4]), 3)[:, None]
    density, slope = jax.jit(jax.vmap(jax.value_and_grad(lambda *of: Beta().log_density(*of).sum())))(raw, edges)
    assert np.isfinite(density).all()
    assert np.isfinite(slope).all()


def test_gaussian_draws_and_their_density_are_normal() -> None:
    # m = 2.6·tanh(0.7/2.6), s = e^−0.5
    raw = jnp.broadcast_to(jnp.array([[0.7], [-0.5]]), (2, DRAWS))
    normal = stats.norm(2.6 * np.tanh(0.7 / 2.6), np.exp(-0.5))
    assert stats.kstest(np.asarray(Gaussian().sample(raw, jax.random.key(2))), normal.cdf).pvalue > 0.01
    one, other = (Gaussian().log_density(raw[:, :1], jnp.array([x])) for x in (0.1, 1.9))
    assert_allclose(one - other, normal.logpdf(0.1) - normal.logpdf(1.9), rtol=1e-5)


def test_the_spread_of_a_gaussian_has_bounds() -> None:
    for spread, bound in ((-100.0, np.exp(-1.2)), (100.0, np.exp(1.0))):
        raw = jnp.broadcast_to(jnp.array([[0.0], [spread]]), (2, DRAWS))
        assert_allclose(np.std(Gaussian().sample(raw, jax.random.key(0))), bound, rtol=0.02)


def test_both_corners_can_be_reached() -> None:
    assert_allclose(stretch(jnp.array([0.0, 0.05, 0.5, 0.95, 1.0])), [0.0, 0.0, 0.5, 1.0, 1.0], atol=1e-6)
    assert Gaussian().centre(jnp.array([[-5.0], [0.0]]))[0] == 0.0
    assert Gaussian().centre(jnp.array([[5.0], [0.0]]))[0] == 1.0
    assert Beta().centre(jnp.array([[-20.0], [12.0]]))[0] == 0.0
    assert Beta().centre(jnp.array([[12.0], [-20.0]]))[0] == 1.0


@pytest.mark.parametrize("name", ["gaussian", "beta"])
def test_the_centre_is_the_middle_of_what_is_played(name: str) -> None:
    # the Gaussian's median, the Beta's mean; away from the corners, where the stretch is linear
    policy, raw = POLICIES[name], jnp.array([[1.1], [0.9]])
    keys = jax.random.split(jax.random.key(5), DRAWS)
    played = np.asarray(jax.vmap(lambda key: policy.action(policy.sample(raw, key)))(keys))
    middle = np.median(played) if name == "gaussian" else (stretched_mean(raw))
    assert_allclose(policy.centre(raw)[0], middle, atol=0.015)
    assert played.min() >= 0.0
    assert played.max() <= 1.0


def stretched_mean(raw: jax.Array) -> float:
    a, b = shapes(np.asarray(raw))
    return float(np.clip(1.2 * a / (a + b) - 0.1, 0, 1)[0])


@pytest.mark.parametrize("policy", [Gaussian(), Beta()])
def test_actions_have_densities_of_their_own(policy: Policy) -> None:
    raw, drawn = jnp.array([[0.3, -0.4], [0.1, 0.2]]), jnp.array([0.2, 0.7])
    apart = [policy.log_density(raw[:, n : n + 1], drawn[n : n + 1])[0] for n in range(2)]
    assert_allclose(policy.log_density(raw, drawn), apart, rtol=1e-6)
