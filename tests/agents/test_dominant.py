"""Long games in which a silo is best off bringing everything in every slot, whatever the others do.

On the curve a slot early in a game moves payoffs a hundred times as much as a late one, and actors share weights
between slots: learners whose late slots count as much as early ones unlearn what is best in the early ones.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

from potluck.agents import Options, PolicyGradient
from potluck.devices import mesh_over
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.studies.deviations import evaluate
from potluck.training.config import RunConfig, seeds_of, setup_one
from potluck.training.lanes import stack
from potluck.training.loop import TrainConfig, begin, train

SEEDS = {4: 5, 16: 5, 64: 3}
"""By the number of games."""
WINDOWS = {4: 112, 16: 56, 64: 28}
"""To learn from, by the number of games: 13,440, 26,880 and 53,760 slots."""
PATIENCE = {"maa2c": 2}
"""How many times as many windows a learner has that takes one step in each, where the others take 4."""


def dominated() -> list[Scenario]:
    """The preset where each unit brought is paid 30 and costs 17 to 21; and where it costs nothing."""
    paid = mechanism_of("redistribution", intensity=10.0)
    return [preset("paper").model_copy(update=change) for change in ({"mechanism": paid}, {"energy_price": 0.0})]


def learnt_play(
    scenarios: list[Scenario], agent: str, games: int, windows: int, seeds: int
) -> Float[np.ndarray, "lanes games slots silos"]:
    """What is brought without exploration; a lane per scenario and seed."""
    depth = RunConfig(scenarios[0]).depth
    configs = [RunConfig(one, agent, Options(), windows * games * depth, seeds, games) for one in scenarios]
    lanes = stack([one for config in configs for one in [setup_one(config)] * seeds])
    luck = jnp.concatenate([seeds_of(config) for config in configs])
    training = TrainConfig(lanes, luck, mesh_over(games), games, depth, windows)
    runs, _ = train(training, begin(lanes, luck, games), jnp.asarray(0))
    return evaluate(lanes, runs.agents, scenarios[0].discount, 16).contributions


def test_a_slot_weighs_what_is_at_stake_in_it() -> None:
    # two slots of 8 games around means of 7 and −2: deviations 3 and 0.03, of the window √((9 + 0.0009) / 2)
    sides = jnp.tile(jnp.array([1.0, -1.0]), 4)
    learner = PolicyGradient(observation_size=1, action_size=1, critic_observation_size=1, updates=jnp.asarray(1))
    scaled = learner._standard(jnp.stack([7 + 3 * sides, -2 + 0.03 * sides], axis=1))
    np.testing.assert_allclose(scaled, np.outer(sides, [1.414143, 0.01414143]), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("games", [4, 16, 64])
@pytest.mark.parametrize("agent", ["mpgd", "maa2c", "mappo"])
def test_every_learner_finds_it_with_any_number_of_games(agent: str, games: int) -> None:
    """No silo of any seed brings less than 0.95 in any slot, in either game."""
    played = learnt_play(dominated(), agent, games, WINDOWS[games] * PATIENCE.get(agent, 1), SEEDS[games])
    assert played.min() >= 0.95
