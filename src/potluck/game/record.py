"""What is remembered of the last H slots: what all may see, and what one silo has of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Record(eqx.Module):
    """What all silos may see of the last H slots, newest first; zero where the game had not begun."""

    contributions: Float[Array, "*history silos"]
    """d_n."""
    signal: Float[Array, "*history"]
    """What the mechanism sent to all; under redistribution α."""
    precision: Float[Array, "*history"]
    """P."""

    @classmethod
    def blank(cls, history: int, silos: int) -> "Record":
        return cls(jnp.zeros((history, silos)), jnp.zeros(history), jnp.zeros(history))

    def after(
        self, contributions: Float[Array, " silos"], signal: Float[Array, ""], precision: Float[Array, ""]
    ) -> "Record":
        longer: Record = jax.tree.map(newest_first, Record(contributions, signal, precision), self)
        return longer


class Own(eqx.Module):
    """What one silo has beside the record, and nobody else sees."""

    communication: Float[Array, "*silos history"]
    """C_n of the last H slots, newest first."""
    samples: Float[Array, "*silos"]
    """|D_n| in the coming slot."""
    profit: Float[Array, "*silos"]
    """p_n."""
    cost: Float[Array, "*silos"]
    """κ v_n |D_n|: what its whole data costs it in the coming slot."""


def newest_first(newest: Float[Array, "..."], past: Float[Array, "history ..."]) -> Float[Array, "history ..."]:
    """The newest comes first, the oldest is forgotten."""
    return jnp.concatenate([newest[None], past[:-1]])
