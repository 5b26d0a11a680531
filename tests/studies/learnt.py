"""Runs whose answer is known: one slot on the curve, and who plays what is settled beforehand."""

from collections.abc import Sequence

import jax.numpy as jnp

from potluck.agents.simple import Best
from potluck.scenario import Normal, Scenario, Silos, mechanism_of
from potluck.training.config import RunConfig, setup
from potluck.training.loop import Runs
from potluck.training.run import Trained

ONE_SLOT = Scenario(
    horizon=1,
    history=1,
    energy_price=0.01,  # at the equilibrium one silo brings nothing, one 0.28, one everything
    silos=Silos(
        count=3,
        profit=(1000.0, 900.0, 1100.0),
        energy=(4.0, 4.2, 3.8),
        communication=0.5,
        samples=(2000.0, 1900.0, 2100.0),
        redraw=(),
    ),
    mechanism=mechanism_of("redistribution", intensity=3.0, schedule="constant"),
)
"""The stage game itself: nothing is drawn, intensity stays, what is earned in the slot is all."""

TINY = Scenario(
    horizon=3,
    history=1,
    energy_price=0.0025,
    silos=Silos(
        count=2,
        profit=Normal(mean=1000, deviation=10),
        energy=Normal(mean=4, deviation=0.2),
        communication=Normal(mean=0.5, deviation=0.02),
        samples=Normal(mean=2000, deviation=50),
    ),
)


def playing(scenario: Scenario, contributions: Sequence[Sequence[float]], games: int = 2) -> Trained:
    """Silos that learnt to contribute just this, for every seed: what Greedy repeats."""
    config = RunConfig(scenario, "greedy", slots=16, seeds=len(contributions), games=games)
    actions = jnp.asarray(contributions)[:, :, None]
    return Trained(config, setup(config), Runs(Best(actions, jnp.zeros(actions.shape[:2])), None, None))
