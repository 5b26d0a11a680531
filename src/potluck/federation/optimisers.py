"""What a silo does with a gradient, by name: what makes an optax transformation from a learning rate."""

from collections.abc import Callable
from typing import TypeAlias

import optax
from jaxtyping import Array, Float

from potluck.registry import Registry

Optimiser: TypeAlias = Callable[[Float[Array, ""]], optax.GradientTransformation]
"""Its state starts afresh in every slot, since the global model has moved on.

One without state must stay where it is at a zero gradient, which idle steps have: weight decay alone would not.
"""


PLAIN = "sgd"
"""The one that takes a gradient as it is: its step can be part of the loss."""


def sgd(learning_rate: Float[Array, ""]) -> optax.GradientTransformation:
    """w ← w − η g."""
    return optax.sgd(learning_rate)


def momentum(learning_rate: Float[Array, ""]) -> optax.GradientTransformation:
    """v ← 0.9 v + g, w ← w − η v."""
    return optax.sgd(learning_rate, momentum=0.9)


def adam(learning_rate: Float[Array, ""]) -> optax.GradientTransformation:
    """w ← w − η m̂ / (√v̂ + ε), with the customary β and ε."""
    return optax.adam(learning_rate)


OPTIMISERS: Registry[Optimiser] = Registry("optimiser", {PLAIN: sgd, "momentum": momentum, "adam": adam})
