"""One slot settled, on plain arrays: the same in the game, in a deployed federation and in its ledger."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from potluck.scenario.mechanism import Facts, Mechanism

State = TypeVar("State")


class Settlement(eqx.Module):
    """What a mechanism answers to the facts of a slot."""

    state: PyTree
    """What it remembers for the next slot."""
    transfers: Float[Array, " silos"]
    """r_n."""
    signal: Float[Array, ""]
    """What all may see of how the slot was settled."""
    residual: Float[Array, ""]
    """Σ_n r_n: money from outside; rounding only, where the mechanism is balanced."""


def settle_slot(mechanism: Mechanism[State], state: State, facts: Facts) -> Settlement:
    state, transfers, signal = mechanism.settle(state, facts)
    return Settlement(state, jnp.asarray(transfers), jnp.asarray(signal), jnp.sum(transfers))


def facts_of(
    mechanism: Mechanism[Any],
    contributions: Float[Array, " silos"],
    held: Float[Array, " silos"],
    precision: Float[Array, ""],
    marginal: Float[Array, " silos"] | None = None,
) -> Facts:
    """What this mechanism is told of a slot, and no more; `held` is |D_n|, what contributions are shares of."""
    return Facts(
        contributions,
        precision,
        samples=contributions * held if "samples" in mechanism.needs else None,
        marginal=marginal if "marginal" in mechanism.needs else None,
    )


def first_state(mechanism: Mechanism[Any], precision: Float[Array, ""]) -> PyTree:
    """What it remembers before the first slot, as arrays."""
    return jax.tree.map(jnp.asarray, mechanism.init(precision))
