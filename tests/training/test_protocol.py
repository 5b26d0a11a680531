"""The learners and the loop on a game that has nothing to do with federations."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents import Learner, Options, agent
from potluck.training.loop import AXIS, Course, begin, mesh_for, side_by_side, train
from potluck.training.play import episode
from tests.agents.games import Quadratic

GAMES, DEPTH, WINDOWS = 16, 8, 50


def learn(game: Quadratic, name: str, options: Options, calls: int = 1) -> tuple[Learner, Any]:
    """One seed, 6,400 slots a call; leaves of what is learnt are [players, …]."""
    mesh = mesh_for(GAMES)
    axis = AXIS if mesh.size > 1 else None
    learner = agent(name, game, discount=0.0, updates=WINDOWS * calls, axis=axis, options=options)
    environment, seeds = side_by_side([game]), jnp.zeros(1, jnp.uint32)
    runs = begin(environment, learner, seeds, GAMES)
    for call in range(calls):
        at = jnp.asarray(call * WINDOWS * DEPTH)
        runs, _, _ = train(Course(environment, learner, seeds, mesh, GAMES, DEPTH, WINDOWS), runs, at)
    return learner, jax.tree.map(lambda leaf: leaf[0], runs.learned)


def of_player(learned: Any, player: int) -> list[np.ndarray]:
    return [np.asarray(leaf)[player] for leaf in jax.tree.leaves(eqx.filter(learned, eqx.is_array))]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_decentralised_learner_receives_only_its_own() -> None:
    # Nobody's action pays into another's account, so all that could reach the first player is what the second sees
    # and earns; fifty updates, in which the second learns to play otherwise.
    options = Options(memory="none")
    alone = learn(Quadratic.create(pull=0.0), "mpgd", options)[1]
    for changed in (Quadratic.create(pull=0.0, bonus=50.0), Quadratic.create(pull=0.0, sight=3.0)):
        beside = learn(changed, "mpgd", options)[1]
        assert same(of_player(alone, 0), of_player(beside, 0))
        assert not same(of_player(alone, 1), of_player(beside, 1))


def test_a_central_critic_sees_what_others_see() -> None:
    alone = learn(Quadratic.create(pull=0.0), "mappo", Options())[1]
    beside = learn(Quadratic.create(pull=0.0, sight=3.0), "mappo", Options())[1]
    assert not same(of_player(alone, 0), of_player(beside, 0))


@pytest.mark.parametrize("estimator", ["paper", "ppo"])
def test_the_equilibrium_of_a_quadratic_game_is_learnt(estimator: Any) -> None:
    game = Quadratic.create()
    assert_allclose(game.nash(), [0.8, 0.2], rtol=1e-6)
    options = Options(estimator=estimator, memory="none")
    learner, learned = learn(game, "mpgd", options, calls=2)
    _, played = eqx.filter_jit(episode)(game, learner, learned, jax.random.key(1))
    assert_allclose(played[0], game.nash(), atol=0.03)
