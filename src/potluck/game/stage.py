"""The slot that a game repeats, where there is a formula for it: what theory solves."""

import jax
import jax.numpy as jnp

from potluck.economy import StageGame, redistribution
from potluck.errors import PotluckError
from potluck.federation.curve import Sustained, curve
from potluck.scenario import CurvePrecision, Scenario

__all__ = ["stage_game"]


def stage_game(scenario: Scenario) -> StageGame:
    """The slot that a scenario repeats, on the static curve of sustained contribution, at intensity α0."""
    if not isinstance(scenario.precision, CurvePrecision):
        raise PotluckError("precision.source must be 'curve' to solve the stage game; a real federation has no formula")
    terms = scenario.draw(jax.random.key(scenario.seed))
    return StageGame(
        terms=terms,
        energy_price=jnp.asarray(scenario.energy_price, dtype=float),
        redistribution=redistribution(scenario),
        precision=Sustained(curve(scenario.precision), terms.samples, scenario.horizon),
    )
