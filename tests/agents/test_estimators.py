"""Targets and actor objectives, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents.estimators import a2c, paper, ppo, td_lambda

NEVER = jnp.array([False, False, False])


def test_a_target_is_the_discounted_payoffs_of_the_window_and_the_value_at_its_end() -> None:
    # γ = 0.5: Y₂ = 3 + 0.5·8, Y₁ = 2 + 0.5·Y₂, Y₀ = 1 + 0.5·Y₁
    found = td_lambda(jnp.array([1.0, 2.0, 3.0]), jnp.array([9.0, 9.0, 9.0]), jnp.array(8.0), NEVER, 0.5)
    assert_allclose(found, [3.75, 5.5, 7.0])


def test_nothing_is_earned_after_a_games_last_slot() -> None:
    # the game ends with slot 1: Y₁ = 2, and slot 2 belongs to the next game
    last = jnp.array([False, True, False])
    found = td_lambda(jnp.array([1.0, 2.0, 3.0]), jnp.array([9.0, 9.0, 9.0]), jnp.array(8.0), last, 0.5)
    assert_allclose(found, [2.0, 2.0, 7.0])
    closing = td_lambda(jnp.array([1.0]), jnp.array([9.0]), jnp.array(8.0), jnp.array([True]), 0.5)
    assert_allclose(closing, [1.0])


def test_with_lambda_zero_a_target_looks_one_slot_ahead() -> None:
    # λ = 0: Y_t = u_t + γV_{t+1}
    found = td_lambda(jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0, 20.0, 30.0]), jnp.array(8.0), NEVER, 0.5, 0.0)
    assert_allclose(found, [11.0, 17.0, 7.0])


def test_lambda_one_half_mixes_the_two() -> None:
    # λ = ½: Y₂ = 3 + ½·8; Y₁ = 2 + ½(½·30 + ½·Y₂); Y₀ = 1 + ½(½·20 + ½·Y₁)
    found = td_lambda(jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0, 20.0, 30.0]), jnp.array(8.0), NEVER, 0.5, 0.5)
    second = 2 + 0.5 * (15 + 3.5)
    assert_allclose(found, [1 + 0.5 * (10 + second / 2), second, 7.0])


@pytest.mark.parametrize(
    ("ratio", "advantage", "printed", "surrogate"),
    [
        (1.0, 2.0, 2.0, 2.0),  # as it was played: both are the plain gradient
        (1.1, 2.0, 2.2, 2.2),  # inside the clip: fA
        (1.5, 2.0, 2.4, 0.0),  # good and already likelier: the paper's weight is 1.2·A, the surrogate is flat
        (0.5, -2.0, -1.6, 0.0),  # bad and already rarer: min(−1, −1.6)
        (1.5, -2.0, -3.0, -3.0),  # bad and likelier: both push back
        (0.5, 2.0, 1.0, 1.0),
    ],
)
def test_a_clipped_sample_pushes_in_the_paper_and_not_in_ppo(
    ratio: float, advantage: float, printed: float, surrogate: float
) -> None:
    # d/d log π at ε = 0.2
    now, then = jnp.log(ratio), jnp.zeros(())
    assert_allclose(jax.grad(paper)(now, then, jnp.asarray(advantage), 0.2), printed, rtol=1e-6)
    assert_allclose(jax.grad(ppo)(now, then, jnp.asarray(advantage), 0.2), surrogate, rtol=1e-6)
    assert_allclose(jax.grad(a2c)(now, then, jnp.asarray(advantage), 0.2), advantage, rtol=1e-6)


def test_no_gradient_reaches_the_policy_that_played() -> None:
    then = jnp.array([0.1, -0.4])
    pushed = jax.grad(lambda t: a2c(jnp.zeros(2), t, jnp.ones(2), 0.2).sum())(then)
    assert not np.any(pushed)
