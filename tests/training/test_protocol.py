"""The learners and the loop on a game that has nothing to do with federations."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents import AGENTS, Brief, Options
from potluck.devices import mesh_over
from potluck.training.evaluation import episode
from potluck.training.lanes import stack
from potluck.training.loop import Setup, TrainConfig, begin, train
from tests.agents.games import Quadratic

GAMES, DEPTH, WINDOWS = 16, 8, 50


def learn(game: Quadratic, name: str, options: Options, calls: int = 1) -> tuple[Setup, Any]:
    """One seed, 6,400 slots a call; leaves of what is learnt are [players, …]."""
    mesh, seeds = mesh_over(GAMES), jnp.zeros(1, jnp.uint32)
    learner = AGENTS[name].build(Brief(game, discount=0.0, updates=WINDOWS * calls, options=options))
    lanes = stack([Setup(game, learner)])
    runs = begin(lanes, seeds, GAMES)
    for call in range(calls):
        at = jnp.asarray(call * WINDOWS * DEPTH)
        runs, _ = train(TrainConfig(lanes, seeds, mesh, GAMES, DEPTH, WINDOWS), runs, at)
    return lanes.lane(0), jax.tree.map(lambda leaf: leaf[0], runs.agents)


def of_player(agents: Any, player: int) -> list[np.ndarray]:
    return [np.asarray(leaf)[player] for leaf in jax.tree.leaves(eqx.filter(agents, eqx.is_array))]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_decentralised_learner_receives_only_its_own() -> None:
    # Nobody's action pays into another's account, so all that could reach the first player is what the second sees
    # and earns; fifty updates, in which the second learns to play otherwise.
    options = Options(dnc="none")
    alone = learn(Quadratic.create(pull=0.0), "mpgd", options)[1]
    for changed in (Quadratic.create(pull=0.0, bonus=50.0), Quadratic.create(pull=0.0, sight=3.0)):
        beside = learn(changed, "mpgd", options)[1]
        assert same(of_player(alone, 0), of_player(beside, 0))
        assert not same(of_player(alone, 1), of_player(beside, 1))


@pytest.mark.slow
def test_a_central_critic_sees_what_others_see() -> None:
    alone = learn(Quadratic.create(pull=0.0), "mappo", Options())[1]
    beside = learn(Quadratic.create(pull=0.0, sight=3.0), "mappo", Options())[1]
    assert not same(of_player(alone, 0), of_player(beside, 0))


@pytest.mark.parametrize("estimator", [pytest.param("paper", marks=pytest.mark.slow), "ppo"])
def test_the_equilibrium_of_a_quadratic_game_is_learnt(estimator: Any) -> None:
    game = Quadratic.create()
    assert_allclose(game.nash(), [0.8, 0.2], rtol=1e-6)
    options = Options(estimator=estimator, dnc="none")
    setup, agents = learn(game, "mpgd", options, calls=2)
    _, played = eqx.filter_jit(episode)(setup, agents, jax.random.key(1))
    assert_allclose(played[0], game.nash(), atol=0.03)
