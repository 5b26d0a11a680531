"""What a silo does with a gradient: SGD, SGD with momentum, Adam.

Silos with fewer samples run out of mini-batches first: an idle step must leave weights and memory as they are.
"""

import math
from typing import Any, Protocol, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from potluck.errors import PotluckError

__all__ = ["OPTIMISERS", "SGD", "Adam", "Momentum", "Optimiser", "optimiser"]

Weights: TypeAlias = PyTree[Float[Array, "..."]]


class Optimiser(Protocol):
    """Local update rule; its memory starts afresh in every slot, since the global model has moved on."""

    def init(self, weights: Weights) -> Any:
        """Memory before the first step."""
        ...

    def step(self, weights: Weights, gradient: Weights, memory: Any, active: Bool[Array, ""]) -> tuple[Weights, Any]:
        """One step; when not active the gradient is zero and nothing may move."""
        ...


class SGD(eqx.Module):
    """w ← w − η g. A zero gradient moves nothing, so idle steps need no care."""

    rate: float

    def init(self, weights: Weights) -> None:
        """Nothing to remember."""
        del weights

    def step(self, weights: Weights, gradient: Weights, memory: None, active: Bool[Array, ""]) -> tuple[Weights, None]:
        """One step."""
        del memory, active
        return jax.tree.map(lambda w, g: w - self.rate * g, weights, gradient), None


class Momentum(eqx.Module):
    """v ← βv + g, w ← w − η v."""

    rate: float
    decay: float = 0.9

    def init(self, weights: Weights) -> Weights:
        """Start at rest."""
        return jax.tree.map(jnp.zeros_like, weights)

    def step(
        self, weights: Weights, gradient: Weights, memory: Weights, active: Bool[Array, ""]
    ) -> tuple[Weights, Weights]:
        """One step."""
        velocity = jax.tree.map(lambda v, g: jnp.where(active, self.decay * v + g, v), memory, gradient)
        return jax.tree.map(lambda w, v: w - jnp.where(active, self.rate * v, 0), weights, velocity), velocity


class AdamMemory(eqx.Module):
    """First and second moments, and how many steps they have seen."""

    mean: Weights
    square: Weights
    steps: Float[Array, ""]


class Adam(eqx.Module):
    """w ← w − η m̂ / (√v̂ + ε), with m and v running means of g and g², corrected for their start at zero."""

    rate: float
    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-8

    def init(self, weights: Weights) -> AdamMemory:
        """Moments at zero."""
        zeros = jax.tree.map(jnp.zeros_like, weights)
        return AdamMemory(mean=zeros, square=zeros, steps=jnp.zeros((), jnp.float32))

    def step(
        self, weights: Weights, gradient: Weights, memory: AdamMemory, active: Bool[Array, ""]
    ) -> tuple[Weights, AdamMemory]:
        """One step."""
        steps = memory.steps + active.astype(jnp.float32)
        mean = jax.tree.map(lambda m, g: self.first * m + (1 - self.first) * g, memory.mean, gradient)
        square = jax.tree.map(lambda v, g: self.second * v + (1 - self.second) * g**2, memory.square, gradient)
        safe = jnp.maximum(steps, 1)
        warm, warm_square = 1 - self.first**safe, 1 - self.second**safe
        moved = jax.tree.map(
            lambda w, m, v: w - self.rate * (m / warm) / (jnp.sqrt(v / warm_square) + self.epsilon),
            weights,
            mean,
            square,
        )
        fresh = AdamMemory(mean=mean, square=square, steps=steps)
        return _where(active, moved, weights), _where(active, fresh, memory)


def _where(condition: Bool[Array, ""], new: Weights, old: Weights) -> Weights:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


OPTIMISERS = {"sgd": SGD, "momentum": Momentum, "adam": Adam}


def optimiser(name: str, rate: float) -> Optimiser:
    """Build the named optimiser."""
    if name not in OPTIMISERS:
        raise PotluckError(f"optimiser: {name!r} is not one of {', '.join(OPTIMISERS)}")
    if not (rate > 0 and math.isfinite(rate)):
        raise PotluckError(f"learning_rate must be positive and finite, got {rate}")
    return OPTIMISERS[name](rate)  # type: ignore[no-any-return]
