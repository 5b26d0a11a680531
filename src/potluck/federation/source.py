"""The one thing the game knows about training: contributions go in, precision comes out."""

from typing import Any, Protocol

from jaxtyping import Array, Float, PRNGKeyArray

__all__ = ["PrecisionSource"]


class PrecisionSource(Protocol):
    """A federation as the game sees it: real FedAvg, or the curve fitted to it.

    One game, no batch axis; `vmap` over states, contributions and keys runs many side by side.
    """

    def init(self, key: PRNGKeyArray) -> Any:
        """State before the first slot."""
        ...

    def samples(self, state: Any) -> Float[Array, " silos"]:
        """|D_n[t]|: what the coming slot's contributions are shares of."""
        ...

    def measure(self, state: Any) -> Float[Array, ""]:
        """P of the model as it is."""
        ...

    def train(
        self,
        state: Any,
        contributions: Float[Array, " silos"],
        key: PRNGKeyArray,
    ) -> tuple[Any, Float[Array, ""]]:
        """Train one slot on contributions d in [0, 1]ᴺ; the new state and the precision P it reached."""
        ...
