"""Facts of a slot, and a slot settled."""

from typing import Any

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
from hypothesis.extra.numpy import arrays
from jaxtyping import Array

from potluck.economy import StageGame
from potluck.mechanisms import Mechanism, Settlement, facts_of, first_state, settle_slot


def settled(rule: Mechanism[Any], played: Array, held: Array | None = None) -> Settlement:
    """A first slot that reached P = ½ from 0.1."""
    held = jnp.full_like(played, 2000.0) if held is None else held
    marginal = 0.1 * played
    facts = facts_of(rule, played, held, jnp.asarray(0.5), marginal)
    return settle_slot(rule, first_state(rule, jnp.asarray(0.1)), facts)


def under(game: StageGame, rule: Mechanism[Any]) -> StageGame:
    """The same silos under another mechanism."""
    return StageGame(game.terms, game.energy_price, rule, game.precision)


def vectors(silos: int, low: float, high: float) -> st.SearchStrategy[Array]:
    return arrays(np.float64, silos, elements=st.floats(low, high)).map(jnp.asarray)
