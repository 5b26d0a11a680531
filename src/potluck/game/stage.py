"""The slot that a game repeats, where there is a formula for it: what theory solves."""

import jax
import jax.numpy as jnp

from potluck.economy import StageGame
from potluck.errors import PotluckError
from potluck.federation.curve import MeanCurve, curve
from potluck.mechanisms import build_mechanism
from potluck.scenario import CurvePrecision, Scenario


def stage_game(scenario: Scenario) -> StageGame:
    """The slot that a scenario repeats, on the static curve of sustained contribution, settled as the first one."""
    if not isinstance(scenario.precision, CurvePrecision):
        raise PotluckError(
            "must be 'curve' to solve the stage game; a real federation has no formula", field="precision.source"
        )
    terms = scenario.draw(jax.random.key(scenario.seed))
    return StageGame(
        terms=terms,
        energy_price=jnp.asarray(scenario.energy_price, dtype=float),
        mechanism=build_mechanism(scenario, terms),
        precision=MeanCurve(curve(scenario.precision), terms.samples, scenario.horizon),
    )
