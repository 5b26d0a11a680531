"""Distributions over [0, 1] from a network's raw outputs.

Both are stretched a little beyond the box and cut off at its edges, so that their mean can sit on a corner. Densities
are those of the draw before it is stretched: what follows has no parameters, so ratios and gradients are the same.
"""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.registry import Registry

OVERHANG = 0.1
EDGE = 1e-4
TRIES = 4
FURTHEST = 2.6
LEAST_LOG_DEVIATION = -1.2


def stretch(share: Float[Array, " action"]) -> Float[Array, " action"]:
    """clip((1 + 2δ)x − δ, 0, 1)."""
    return jnp.clip((1 + 2 * OVERHANG) * share - OVERHANG, 0, 1)


@runtime_checkable
class Policy(Protocol):
    """A family of distributions with two raw numbers per action."""

    def sample(self, raw: Float[Array, "2 action"], key: PRNGKeyArray) -> Float[Array, " action"]:
        """Draw, unstretched."""

    def log_density(self, raw: Float[Array, "2 action"], drawn: Float[Array, " action"]) -> Float[Array, " action"]:
        """log π of a draw, for every action by itself: they are drawn independently."""

    def action(self, drawn: Float[Array, " action"]) -> Float[Array, " action"]:
        """What is played."""

    def centre(self, raw: Float[Array, "2 action"]) -> Float[Array, " action"]:
        """What is played without exploration."""

    def entropy(self, raw: Float[Array, "2 action"]) -> Float[Array, " action"]:
        """Differential entropy of a draw, unstretched."""


class Gaussian:
    """x = σ(m + s·ε): a normal distribution squashed by the logistic function.

    |m| stays below 2.6 and s above 0.3: at 2.4 the corner is reached, and further out no draw would ever come back.
    """

    def _parameters(self, raw: Float[Array, "2 action"]) -> tuple[Float[Array, " action"], Float[Array, " action"]]:
        mean, log_deviation = raw
        return FURTHEST * jnp.tanh(mean / FURTHEST), jnp.exp(jnp.clip(log_deviation, LEAST_LOG_DEVIATION, 1.0))

    def sample(self, raw: Float[Array, "2 action"], key: PRNGKeyArray) -> Float[Array, " action"]:
        """m + s·ε."""
        mean, deviation = self._parameters(raw)
        return mean + deviation * jax.random.normal(key, mean.shape)

    def log_density(self, raw: Float[Array, "2 action"], drawn: Float[Array, " action"]) -> Float[Array, " action"]:
        """Of the normal distribution, up to a constant."""
        mean, deviation = self._parameters(raw)
        return -0.5 * ((drawn - mean) / deviation) ** 2 - jnp.log(deviation)

    def action(self, drawn: Float[Array, " action"]) -> Float[Array, " action"]:
        return stretch(jax.nn.sigmoid(drawn))

    def centre(self, raw: Float[Array, "2 action"]) -> Float[Array, " action"]:
        """Its median."""
        return stretch(jax.nn.sigmoid(self._parameters(raw)[0]))

    def entropy(self, raw: Float[Array, "2 action"]) -> Float[Array, " action"]:
        """½ log(2πe) + log s, of the normal distribution."""
        return 0.5 * jnp.log(2 * jnp.pi * jnp.e) + jnp.log(self._parameters(raw)[1])


class Beta:
    """x ~ Beta(a, b), a and b = 1 + softplus: one hump, or flat."""

    def _parameters(self, raw: Float[Array, "2 action"]) -> tuple[Float[Array, " action"], Float[Array, " action"]]:
        a, b = 1 + jax.nn.softplus(raw)
        return a, b

    def sample(self, raw: Float[Array, "2 action"], key: PRNGKeyArray) -> Float[Array, " action"]:
        """G_a / (G_a + G_b) of two gamma draws, kept off 0 and 1, where densities are infinite."""
        a, b = self._parameters(raw)
        first, second = jax.random.split(key)
        one, other = gamma(a, first), gamma(b, second)
        return jnp.clip(one / (one + other), EDGE, 1 - EDGE)

    def log_density(self, raw: Float[Array, "2 action"], drawn: Float[Array, " action"]) -> Float[Array, " action"]:
        """(a − 1) log x + (b − 1) log(1 − x) − log B(a, b)."""
        a, b = self._parameters(raw)
        return (a - 1) * jnp.log(drawn) + (b - 1) * jnp.log1p(-drawn) - jax.scipy.special.betaln(a, b)

    def action(self, drawn: Float[Array, " action"]) -> Float[Array, " action"]:
        return stretch(drawn)

    def centre(self, raw: Float[Array, "2 action"]) -> Float[Array, " action"]:
        """Its mean."""
        a, b = self._parameters(raw)
        return stretch(a / (a + b))

    def entropy(self, raw: Float[Array, "2 action"]) -> Float[Array, " action"]:
        """log B(a, b) − (a − 1)ψ(a) − (b − 1)ψ(b) + (a + b − 2)ψ(a + b)."""
        a, b = self._parameters(raw)
        psi = jax.scipy.special.digamma
        own = (a - 1) * psi(a) + (b - 1) * psi(b) - (a + b - 2) * psi(a + b)
        return jax.scipy.special.betaln(a, b) - own


def gamma(shape: Float[Array, " action"], key: PRNGKeyArray) -> Float[Array, " action"]:
    """Gamma(shape, 1) for shape ≥ 1 after Marsaglia and Tsang, without a loop.

    A proposal is refused with probability below 0.05; of four at once the first accepted is taken, and in 6 of a
    million cases the last one. `jax.random.gamma` loops until all of a batch are done: 70 times slower on a CPU.
    """
    normals, uniforms = jax.random.split(key)
    d = shape - 1 / 3
    x = jax.random.normal(normals, (TRIES, *shape.shape))
    v = jnp.maximum(1 + x / jnp.sqrt(9 * d), 1e-3) ** 3
    u = jax.random.uniform(uniforms, x.shape, minval=1e-7)
    accepted = jnp.log(u) < 0.5 * x**2 + d * (1 - v + jnp.log(v))
    chosen = jnp.where(accepted.any(0), jnp.argmax(accepted, axis=0), TRIES - 1)
    return d * jnp.take_along_axis(v, chosen[None], axis=0)[0]


POLICIES: Registry[Policy] = Registry("policy", {"gaussian": Gaussian(), "beta": Beta()})
