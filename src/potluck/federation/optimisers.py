"""What a silo does with a gradient, by name: what makes an optax transformation from a learning rate."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import optax
from jaxtyping import Array, Float

from potluck.registry import Registry

__all__ = ["OPTIMISERS", "Optimiser"]

Optimiser: TypeAlias = Callable[[Float[Array, ""]], optax.GradientTransformation]
"""Its state starts afresh in every slot, since the global model has moved on."""

OPTIMISERS: Registry[Optimiser] = Registry(
    "optimiser", {"sgd": optax.sgd, "momentum": partial(optax.sgd, momentum=0.9), "adam": optax.adam}
)
