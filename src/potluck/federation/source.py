"""The one thing the game knows about training: contributions go in, precision comes out."""

from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

State = TypeVar("State")


class Measurement(eqx.Module):
    """What was measured after a slot."""

    precision: Float[Array, ""]
    """P."""
    marginal: Float[Array, " silos"] | None = None
    """P − P without silo n's update of this slot, where that was asked for."""


@runtime_checkable
class PrecisionSource(Protocol[State]):
    """A federation as the game sees it: real FedAvg, or the curve fitted to it.

    One game, no batch axis; `vmap` over states, contributions and keys runs many side by side.
    """

    def init(self, key: PRNGKeyArray) -> State:
        """State before the first slot."""

    def samples(self, state: State) -> Float[Array, " silos"]:
        """|D_n[t]|: what the coming slot's contributions are shares of."""

    def measure(self, state: State) -> Float[Array, ""]:
        """P of the model as it is."""

    def train(
        self, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray, *, marginal: bool = False
    ) -> tuple[State, Measurement]:
        """Train one slot on contributions d in [0, 1]ᴺ; the new state and what was measured."""
