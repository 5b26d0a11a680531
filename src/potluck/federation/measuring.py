"""How many held-out samples a model gets right: on a CPU in parts whose activations its caches hold."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float, Int, UInt8

PART = 1 << 20
"""Bytes of samples, as floats, in a part (`benchmarks/cnn_on_cpu.py`)."""


def count_right(
    logits: Callable[[Any, UInt8[Array, "samples ..."]], Float[Array, "samples classes"]],
    weights: Any,
    features: UInt8[Array, "samples ..."],
    labels: Int[Array, " samples"],
) -> Int[Array, ""]:
    """Samples whose label has the largest logit; a label of −1 is never right.

    Games are measured one after the other where there are parts. `logits` must then depend on nothing else that differs
    between them.
    """
    count, size = len(labels), part_size(features.shape)
    if size >= count:
        return jnp.sum(logits(weights, features).argmax(axis=1) == labels, dtype=jnp.int32)

    def in_parts(weights: Any, features: Array, labels: Array) -> Int[Array, ""]:
        def part(at: Int[Array, ""], right: Int[Array, ""]) -> Int[Array, ""]:
            first = jnp.minimum(at * size, count - size)
            some, known = (jax.lax.dynamic_slice_in_dim(a, first, size) for a in (features, labels))
            fresh = first + jnp.arange(size) >= at * size  # the last part begins early, to be as long as the others
            return right + jnp.sum((logits(weights, some).argmax(axis=1) == known) & fresh, dtype=jnp.int32)

        right: Int[Array, ""] = jax.lax.fori_loop(jnp.int32(0), jnp.int32(-(-count // size)), part, jnp.int32(0))
        return right

    everything: Int[Array, ""] = sequential_vmap(in_parts)(weights, features, labels)
    return everything


def part_size(shape: tuple[int, ...]) -> int:
    """How many samples are measured at once, of features of this shape.

    Who reads a sample as one row makes less of it than the row, and games side by side share the rows: all at once.
    """
    count, *sample = shape
    if jax.default_backend() != "cpu" or len(sample) < 2:
        return count
    parts = -(-4 * math.prod(shape) // PART)
    return -(-count // max(parts, 1))
