"""What is remembered of the last H slots: what all may see, and what one silo has of its own."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["Own", "Record", "newest_first"]

Tree = TypeVar("Tree")


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
        """Before the first slot."""
        return cls(jnp.zeros((history, silos)), jnp.zeros(history), jnp.zeros(history))


class Own(eqx.Module):
    """What one silo has beside the record, and nobody else sees."""

    communication: Float[Array, "*silos history"]
    """C_n of the last H slots, newest first."""
    samples: Float[Array, "*silos"]
    """|D_n| in the coming slot."""


def newest_first(newest: Tree, past: Tree) -> Tree:
    """The slot comes first, the oldest one is forgotten."""
    kept: Tree = jax.tree.map(lambda new, old: jnp.concatenate([new[None], old[:-1]]), newest, past)
    return kept
