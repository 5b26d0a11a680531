"""Greedy, fixed and random, and who is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents import Act, Brief, Fixed, Greedy, Options, Random, Window, find_agent
from potluck.agents.simple import Best
from potluck.errors import PotluckError
from tests.agents.games import Quadratic


def played(actions: list[list[float]], payoffs: list[list[float]]) -> Window[None]:
    """Games × slots."""
    action = jnp.array(actions)[..., None]
    games, slots = len(actions), len(actions[0])
    nothing = jnp.zeros((games, slots, 1))
    never = jnp.zeros(slots, bool)
    act = Act(action, action, jnp.zeros_like(action))
    return Window(nothing, nothing, act, jnp.array(payoffs), never, never, nothing[:, 0], None, None)


def test_greedy_keeps_the_action_of_the_best_slot_of_all() -> None:
    greedy = Greedy(1)
    state = greedy.init(jax.random.key(0))
    state, _, _ = greedy.update(state, played([[0.1, 0.2], [0.3, 0.4]], [[1.0, 5.0], [2.0, 3.0]]))
    assert_allclose([state.action[0], state.payoff], [0.2, 5.0])
    state, _, _ = greedy.update(state, played([[0.9, 0.8]], [[4.9, 4.0]]))
    assert_allclose([state.action[0], state.payoff], [0.2, 5.0])
    state, _, _ = greedy.update(state, played([[0.9, 0.8]], [[4.9, 6.0]]))
    assert_allclose([state.action[0], state.payoff], [0.8, 6.0])
    assert_allclose(greedy.play(state, None, jnp.zeros(1))[1], [0.8])


def test_greedy_explores_one_slot_in_ten() -> None:
    state = Best(jnp.array([0.5]), jnp.array(1.0))
    keys = jax.random.split(jax.random.key(0), 10_000)
    actions = jax.vmap(lambda key: Greedy(1).act(state, None, jnp.zeros(1), key)[1].action)(keys)
    assert_allclose(np.mean(actions != 0.5), 0.1, atol=0.01)


def test_fixed_and_random() -> None:
    assert_allclose(Fixed(2, 0.3).act(None, None, jnp.zeros(1), jax.random.key(0))[1].action, [0.3, 0.3])
    keys = jax.random.split(jax.random.key(0), 2_000)
    actions = jax.vmap(lambda key: Random(1, 0.5).act(None, None, jnp.zeros(1), key)[1].action)(keys)
    assert actions.min() < 0.01
    assert actions.max() > 0.99
    assert_allclose(Random(1, 0.5).play(None, None, jnp.zeros(1))[1], [0.5])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mpdg", "agent must be one of mpgd"),
        ("fixed", "fixed needs a contribution"),
        ("fixed:1.5", "such as fixed:0.5"),
    ],
)
def test_an_unknown_agent_is_refused_by_name(name: str, message: str) -> None:
    def build() -> None:
        spec, argument = find_agent(name, Options())
        spec.build(Brief(Quadratic.create(), discount=0.9, updates=1, argument=argument))

    with pytest.raises(PotluckError, match=message):
        build()
