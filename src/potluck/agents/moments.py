"""Running mean and variance, so that networks see numbers near one whatever the world's units are."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from potluck.devices import everywhere


class Moments(eqx.Module):
    """Of everything seen so far."""

    count: Float[Array, ""]
    mean: Float[Array, "*size"]
    variance: Float[Array, "*size"]

    @classmethod
    def none(cls, *size: int) -> "Moments":
        """Nothing seen: numbers pass as they are, up to ±10."""
        return cls(jnp.zeros(()), jnp.zeros(size), jnp.ones(size))

    def after(self, values: Float[Array, "games slots *size"]) -> "Moments":
        """Chan's update with a batch of values."""
        mean = everywhere(values.mean((0, 1)))
        variance = everywhere(((values - mean) ** 2).mean((0, 1)))
        share = 1 / (self.count + 1)
        moved = mean - self.mean
        joined = (1 - share) * self.variance + share * variance + share * (1 - share) * moved**2
        return Moments(self.count + 1, self.mean + share * moved, jnp.where(self.count == 0, variance, joined))

    def standard(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """(x − mean) / deviation, cut off at ±10."""
        return jnp.clip((values - self.mean) / jnp.sqrt(self.variance + 1e-6), -10.0, 10.0)
