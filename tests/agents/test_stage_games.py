"""Games of one slot whose equilibrium is solved: what learners without a formula must find by playing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from potluck.agents import AgentState, Options
from potluck.devices import mesh_over
from potluck.economy import nash, payoffs, regrets
from potluck.game import stage_game
from potluck.scenario import Scenario, Silos, mechanism_of
from potluck.training.config import RunConfig, seeds_of, setup
from potluck.training.lanes import each_lane
from potluck.training.loop import Setup, TrainConfig, begin, train

SEEDS = 5


def scenario(energy_price: float, intensity: float, profit: float | tuple[float, ...]) -> Scenario:
    return Scenario(
        horizon=1,
        energy_price=energy_price,
        silos=Silos(count=4, profit=profit, energy=4.0, communication=0.5, samples=2000.0),
        mechanism=mechanism_of("redistribution", intensity=intensity),
    )


# On a law of total data at most one silo has an interior best response, the others sit on corners.
GAMES = {
    "interior": (scenario(0.005, 5.0, (400.0, 800.0, 1200.0, 1600.0)), [0, 0.454, 1, 1]),
    "nobody": (scenario(0.5, 0.5, 1000.0), [0, 0, 0, 0]),
    "everybody": (scenario(0.0025, 10.0, 1000.0), [1, 1, 1, 1]),
    "unequal": (scenario(0.01, 10.0, (600.0, 900.0, 1000.0, 1500.0)), [0, 0, 0.762, 1]),
}


def after(config: RunConfig) -> np.ndarray:
    """What all silos of every seed bring without exploration, when they have learnt."""
    lanes, seeds = setup(config), seeds_of(config)
    windows = config.slots // (config.games * config.depth)
    training = TrainConfig(lanes, seeds, mesh_over(config.games), config.games, config.depth, windows)
    runs, _ = train(training, begin(lanes, seeds, config.games), jnp.asarray(0))

    def decide(one: Setup, agents: AgentState) -> jax.Array:
        seen = one.environment.observe(one.environment.reset(jax.random.key(0)))
        memory = jax.vmap(one.learner.initial_memory)(agents)
        actions: jax.Array = jax.vmap(one.learner.play)(agents, memory, seen)[1]
        return actions[:, 0]

    return np.asarray(eqx.filter_jit(each_lane)(decide, lanes, runs.agents))


def is_equilibrium(name: str, played: np.ndarray, apart: float) -> None:
    """Play within so much of it and NashConv at most 3% of the stake, in all seeds."""
    described, expected = GAMES[name]
    game = stage_game(described)
    equilibrium = np.asarray(nash(game))
    np.testing.assert_allclose(equilibrium, np.array(expected), atol=2e-3)
    assert np.abs(played - equilibrium).max() <= apart
    for play in played:
        assert regrets(game, jnp.asarray(play)).sum() <= 0.03 * stake(game, play)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "estimator"), [*((name, "ppo") for name in GAMES), ("unequal", "paper")])
def test_learners_find_the_equilibrium_of_a_stage_game(name: str, estimator: str) -> None:
    config = RunConfig(GAMES[name][0], "mpgd", Options(estimator=estimator), slots=19_200, seeds=SEEDS)
    is_equilibrium(name, after(config), 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GAMES))
def test_with_a_model_2_000_slots_are_enough(name: str) -> None:
    is_equilibrium(name, after(RunConfig(GAMES[name][0], "mbpg", slots=2_000, seeds=3, window=1)), 0.05)


def stake(game: object, play: np.ndarray) -> float:
    """Σ_n of the spread of u_n over constant contributions, the others frozen."""
    total = 0.0
    for n in range(len(play)):
        own = [float(payoffs(game, jnp.asarray(play).at[n].set(d))[n]) for d in (0, 0.25, 0.5, 0.75, 1)]  # type: ignore[arg-type]
        total += max(own) - min(own)
    return total
