"""All that a silo is handed, by whatever door, is the same whatever the other silos' private terms are.

That is stronger than to ask what least squares makes of it: what does not change with a number cannot tell it.
"""

from typing import Any

import numpy as np
import pytest

from potluck.game.pettingzoo import parallel_env
from potluck.mechanisms import MECHANISMS
from potluck.scenario import Scenario, mechanism_of
from tests.game.conftest import by_hand

SLOTS = 5


def federation(count: int, mechanism: str, **others: float) -> Scenario:
    """Silo 0 is always the same; of the others, terms are as said."""
    own = {"profit": 1000.0, "energy": 2.0, "communication": 0.5}
    silos = by_hand().silos.model_copy(
        update={
            "count": count,
            **{name: (value, *(others.get(name, value),) * (count - 1)) for name, value in own.items()},
            "samples": (100.0,) * count,
        }
    )
    options: dict[str, Any] = {"intensity": (5.0,) * count} if mechanism == "per-silo" else {}
    if mechanism == "cost-sharing":  # what is declared is public by its nature
        options = {"costs": (2.0,) * count, "profits": (1000.0,) * count}
    described = by_hand(silos=silos, mechanism=mechanism_of(mechanism, **options))
    return Scenario.model_validate(described.model_dump())


def handed(scenario: Scenario, watchers: int) -> list[Any]:
    """Everything that the first silos get in a game of random contributions: together, as if they colluded."""
    env = parallel_env(scenario, seed=3, render_mode="ansi")
    chance = np.random.default_rng(0)
    observations, infos = env.reset()
    names = env.possible_agents[:watchers]
    got: list[Any] = [{name: (observations[name].tolist(), infos[name]) for name in names}]
    for _ in range(SLOTS):
        actions = {name: np.float32(chance.random()) for name in env.possible_agents}
        observations, rewards, ended, cut, infos = env.step(actions)
        got.append(env.render())
        got.append({n: (observations[n].tolist(), rewards[n], ended[n], cut[n], infos[n]) for n in names})
    return got


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_two_silos(mechanism: str) -> None:
    first = handed(federation(2, mechanism), 1)
    assert first == handed(federation(2, mechanism, profit=1700.0, energy=3.5, communication=0.9), 1)
    assert len(first) == 1 + 2 * SLOTS


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_all_but_one_put_together_what_they_were_handed(mechanism: str) -> None:
    def last_is_different(scenario: Scenario, **terms: float) -> Scenario:
        changed = {name: (*getattr(scenario.silos, name)[:-1], value) for name, value in terms.items()}
        return scenario.model_copy(update={"silos": scenario.silos.model_copy(update=changed)})

    scenario = federation(3, mechanism)
    other = last_is_different(scenario, profit=1700.0, energy=3.5, communication=0.9)
    assert handed(scenario, 2) == handed(other, 2)
    # P tells how much data there is, and that through |D|: the test would notice what does change.
    bigger = last_is_different(scenario, samples=300.0)
    assert handed(scenario, 2) != handed(bigger, 2)
