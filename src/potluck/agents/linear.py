"""Small linear systems, solved for many players side by side."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def inverse(matrix: Float[Array, "size size"]) -> Float[Array, "size size"]:
    """Of a symmetric, positive matrix."""
    return inverse_and_determinant(matrix)[0]


def inverse_and_determinant(matrix: Float[Array, "size size"]) -> tuple[Float[Array, "size size"], Float[Array, ""]]:
    """A⁻¹ and log det A of a symmetric, positive matrix, by Gauss and Jordan: the determinant is what is divided by.

    With `jnp.linalg.solve` a program of 60 such systems side by side never ended on two CPU cores (JAX 0.10.2).
    """
    size = len(matrix)

    def eliminate(at: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        both, logarithm = carry
        row = both[at] / both[at, at]
        return (both - both[:, at][:, None] * row).at[at].set(row), logarithm + jnp.log(both[at, at])

    begun = jnp.concatenate([matrix, jnp.eye(size)], axis=1), jnp.zeros(())
    both, logarithm = jax.lax.fori_loop(0, size, eliminate, begun)
    return both[:, size:], logarithm
