"""What lying pays under each mechanism, money per slot: the table that tells which declarations must be checked."""

from typing import NamedTuple

import jax.numpy as jnp
from pydantic import ValidationError

from potluck.economy import gain_from_over_reporting, gain_from_overstating_cost, gain_from_shading, gain_from_splitting
from potluck.economy.manipulation import Declaring, Splittable
from potluck.game import stage_game
from potluck.mechanisms import MECHANISMS, MechanismConfig
from potluck.scenario import Scenario

MANIPULATIONS = {
    "over_reporting": "claims all its data",
    "shading": "declares half its data",
    "splitting": "poses as two silos",
    "overstating": "declares 3 × its cost",
    "overstating_equilibrium": "… and all adapt",
}
"""What silo 0 does, in words."""


class Manipulations(NamedTuple):
    """What silo 0 gains under one mechanism, where it brings half of its data and the others a quarter."""

    mechanism: str
    over_reporting: float
    """Claims all its data, and trains on half."""
    shading: float
    """Declares half as much data as it has, and trains on what it did."""
    splitting: float | None
    """Poses as two silos; None where the mechanism does not say how it would settle that."""
    overstating: float | None
    """Declares three times its cost; None where nobody is asked for costs."""
    overstating_equilibrium: float | None
    """The same, between the equilibria."""


def mechanisms_to_compare(scenario: Scenario) -> dict[str, MechanismConfig]:
    """The scenario's own mechanism, and every other that can be described without options, on each basis it knows."""
    found: dict[str, MechanismConfig] = {}
    for kind in MECHANISMS:
        own = scenario.mechanism if scenario.mechanism.kind == kind else None
        try:
            config = own or MECHANISMS[kind].model_validate({"kind": kind})
        except ValidationError:  # one from outside that has to be told more
            continue
        bases = ("fraction", "samples") if "basis" in type(config).model_fields else (None,)
        for basis in bases:
            name = kind if basis is None else f"{kind} ({basis})"
            found[name] = config if basis is None else config.model_copy(update={"basis": basis})
    return found


def manipulations(scenario: Scenario) -> list[Manipulations]:
    """Silo 0's gain from each lie under each mechanism, for the scenario's silos."""
    return [
        _row(name, scenario.model_copy(update={"mechanism": config}))
        for name, config in mechanisms_to_compare(scenario).items()
    ]


def _row(name: str, scenario: Scenario) -> Manipulations:
    game = stage_game(scenario)
    played = jnp.full_like(game.terms.profit, 0.25).at[0].set(0.5)
    can_split = isinstance(game.mechanism, Splittable) and "marginal" not in game.mechanism.needs
    lied = gain_from_overstating_cost(game, played, 0, 3.0) if isinstance(game.mechanism, Declaring) else None
    return Manipulations(
        mechanism=name,
        over_reporting=float(gain_from_over_reporting(game, played, 0, 1.0)),
        shading=float(gain_from_shading(game, played, 0, game.terms.samples[0] / 2)),
        splitting=float(gain_from_splitting(game, played, 0, 2)) if can_split else None,
        overstating=None if lied is None else float(lied.at_play),
        overstating_equilibrium=None if lied is None else float(lied.at_equilibrium),
    )
