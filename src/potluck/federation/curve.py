"""A concave saturating precision law, for theory and tests: slot by slot, and sustained over a whole game."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.scenario import CurvePrecision

__all__ = ["Curve", "Sustained", "curve"]


class Curve(eqx.Module):
    """P(K) = ceiling − (ceiling − initial)·exp((1/s)^b − ((1+K)/s)^b), K the samples trained on so far.

    A stretched exponential of scale s and exponent b ≤ 1, hence increasing and concave in K; counting from one sample
    keeps its slope finite at K = 0. As a precision source its state is K: every slot adds Σ_n d_n·|D_n|.
    """

    initial: Float[Array, ""]
    ceiling: Float[Array, ""]
    scale: Float[Array, ""]
    exponent: Float[Array, ""]

    def level(self, trained: Float[Array, ""]) -> Float[Array, ""]:
        """Precision after `trained` samples in all."""
        begun, now = self.scale**-self.exponent, ((1 + trained) / self.scale) ** self.exponent
        return self.ceiling - (self.ceiling - self.initial) * jnp.exp(begun - now)

    def init(self, key: PRNGKeyArray | Array | None = None) -> Float[Array, ""]:
        """Nothing trained yet."""
        del key
        return jnp.zeros_like(self.scale)

    def train(
        self,
        trained: Float[Array, ""],
        contributions: Float[Array, " silos"],
        samples: Float[Array, " silos"],
        key: PRNGKeyArray | Array | None = None,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """One slot: the samples contributed join those trained on before; answers the new state and P."""
        del key
        trained = trained + contributions @ samples
        return trained, self.level(trained)


class Sustained(eqx.Module):
    """P(d) of the stage game: mean precision over a game of `slots` slots in which every silo keeps contributing d."""

    curve: Curve
    samples: Float[Array, " silos"]
    slots: int = eqx.field(static=True)

    def __call__(self, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
        """P(d) = (1/T) Σ_{t=1..T} P(t·Σ_n d_n|D_n|)."""
        trained = jnp.arange(1, self.slots + 1) * (contributions @ self.samples)
        return jnp.mean(self.curve.level(trained))


def curve(described: CurvePrecision) -> Curve:
    """Build the law that a scenario describes."""
    return Curve(
        initial=jnp.asarray(described.initial, dtype=float),
        ceiling=jnp.asarray(described.ceiling, dtype=float),
        scale=jnp.asarray(described.scale, dtype=float),
        exponent=jnp.asarray(described.exponent, dtype=float),
    )
