"""A planner that reacts, where what it must do is known."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from potluck.agents.precision_model import ensemble
from potluck.game import Planner, game
from potluck.scenario import preset
from potluck.studies.planning import follow
from potluck.studies.reacting import ROOM, Feedback, Luck, luck_of, react

SLOTS, SILOS = 6, 3


def feedback(size: float) -> Feedback:
    gains = size * jax.random.normal(jax.random.key(1), (SLOTS, SILOS, 2))
    return Feedback(jnp.full((SLOTS, SILOS), 0.5), gains, jnp.linspace(0.5, 0.9, SLOTS))


def test_an_answer_hangs_on_what_was_before_it_only() -> None:
    policy, precision = feedback(0.05), jnp.linspace(0.5, 0.9, SLOTS) + 0.02
    for slot in range(SLOTS):
        other = precision.at[slot:].add(0.05)
        assert_array_equal(policy(precision)[: slot + 1], policy(other)[: slot + 1])
        assert slot == SLOTS - 1 or not np.allclose(policy(precision)[slot + 1], policy(other)[slot + 1])


def test_by_hand() -> None:
    """One silo, K = (0.1, 0.2) in every slot; x = ((0.02)/0.01, mean so far)."""
    gains = jnp.tile(jnp.asarray([0.1, 0.2]), (3, 1, 1))
    policy = Feedback(jnp.full((3, 1), 0.1), gains, jnp.asarray([0.5, 0.6, 0.7]))
    found = policy(jnp.asarray([0.52, 0.60, 0.9]))
    assert_allclose(found[:, 0], [0.1, 0.1 + 0.1 * 2 + 0.2 * 2, 0.1 + 0.1 * 0 + 0.2 * 1], atol=1e-5)


def test_who_reacts_to_nothing_keeps_to_the_plan() -> None:
    scenario = preset("paper").model_copy(update={"horizon": SLOTS})
    planner, plan = Planner(game(scenario)), jax.random.uniform(jax.random.key(2), (SLOTS, 4))
    still = Feedback(plan, jnp.zeros((SLOTS, 4, 2)), jnp.zeros(SLOTS))
    for kept, reacted in zip(
        follow(planner, plan, jax.random.key(3)), react(planner, still, jax.random.key(3)), strict=True
    ):
        assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.allclose(a, b)), kept, reacted))


def test_luck_that_lasts_is_recognised() -> None:
    """z_t = 0.8·z_{t−1} + 0.1 ε on what the laws expect."""
    laws = ensemble(SILOS, jax.random.key(0))
    plans = np.asarray(jax.random.uniform(jax.random.key(1), (400, SLOTS, SILOS)))
    guess = np.asarray(jax.vmap(lambda plan: jax.vmap(lambda law: law(plan))(laws).mean(0))(jnp.asarray(plans)))
    shocks, luck = np.random.default_rng(0).normal(0, 0.1, (400, SLOTS)), np.zeros((400, SLOTS))
    for slot in range(SLOTS):
        luck[:, slot] = 0.8 * luck[:, slot - 1] * (slot > 0) + shocks[:, slot]
    precision = ROOM - (ROOM - guess) * np.exp(luck)
    found = luck_of(laws, plans, precision.astype(np.float32))
    assert_allclose(found.spread, 0.1, rtol=0.15)
    assert_allclose(found.lasting[0] + 0.5 * found.lasting[2], 0.8, atol=0.1)
    assert_allclose(found.lasting[1] + 0.5 * found.lasting[3], 0.0, atol=0.1)
    same = Luck(found.lasting, found.spread)(jnp.asarray(guess[0]), jnp.asarray(plans[0]), jnp.zeros(SLOTS))
    assert_allclose(same, guess[0], rtol=1e-5)
