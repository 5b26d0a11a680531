"""What a silo is paid, learnt from its own record: nobody's terms are needed, not even its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from potluck.agents.linear import inverse
from potluck.agents.precision_model import Record


class Games(eqx.Module):
    """What a silo saw of some games."""

    contributions: Float[Array, "games slots silos"]
    precision: Float[Array, "games slots"]
    signal: Float[Array, "games slots"]
    payoff: Float[Array, "games slots"]
    """Its own."""


class Seen(eqx.Module):
    """The record of one silo."""

    public: Record
    signal: Float[Array, "room slots"]
    payoff: Float[Array, "room slots"]

    @staticmethod
    def blank(room: int, slots: int, silos: int) -> "Seen":
        return Seen(Record.blank(room, slots, silos), jnp.zeros((room, slots)), jnp.zeros((room, slots)))

    def after(self, games: Games) -> "Seen":
        """With some more games."""
        places = self.public.places(len(games.payoff))
        return Seen(
            self.public.after(games.contributions, games.precision),
            self.signal.at[places].set(games.signal[-len(places) :]),
            self.payoff.at[places].set(games.payoff[-len(places) :]),
        )


class Earnings(eqx.Module):
    """u = w·(φ − m) + w₀, what a slot earns, where φ is `features` of what all may see of it.

    Under redistribution (with one α or one for each pair, on fractions or samples), per-silo intensities, cost sharing
    and none this is exact while terms and data sizes stay; under a proportional pot if sizes are alike too. Terms that
    are drawn anew enter by their mean.
    """

    weights: Float[Array, " features"]
    middle: Float[Array, " features"]
    rest: Float[Array, ""]

    @staticmethod
    def nothing(silos: int) -> "Earnings":
        return Earnings(jnp.zeros(2 * silos + 3), jnp.zeros(2 * silos + 3), jnp.zeros(()))

    def __call__(
        self,
        contributions: Float[Array, "*batch silos"],
        precision: Float[Array, "*batch"],
        signal: Float[Array, "*batch"],
        silo: Int[Array, ""],
    ) -> Float[Array, "*batch"]:
        """What `silo` would earn on these terms."""
        return (features(contributions, precision, signal, silo) - self.middle) @ self.weights + self.rest

    def of_precision(self, precision: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """The part of it that precision earns."""
        return precision * self.weights[0]


def features(
    contributions: Float[Array, "*batch silos"],
    precision: Float[Array, "*batch"],
    signal: Float[Array, "*batch"],
    silo: Int[Array, ""],
) -> Float[Array, "*batch features"]:
    """φ = P, d, αd, α, α·d_n/Σd, with the mechanism's signal for α; silo n changes places with the first."""
    places = jnp.arange(contributions.shape[-1])
    contributions = contributions[..., jnp.where(places == 0, silo, jnp.where(places == silo, 0, places))]
    share = contributions[..., 0] / jnp.maximum(contributions.sum(-1), 1e-3)
    alone = jnp.stack([precision, signal, signal * share], axis=-1)
    return jnp.concatenate([alone, contributions, signal[..., None] * contributions], axis=-1)


def earnings_of(seen: Seen, silo: Int[Array, ""], ridge: float = 1e-4, refinements: int = 3) -> Earnings:
    """Least squares on the record. Refinements of the ridge solution leave its pull only where nothing was seen."""
    known = features(seen.public.contributions, seen.public.precision, seen.signal, silo)
    there = (jnp.arange(len(seen.payoff)) < seen.public.kept).astype(known.dtype)
    weights = jnp.broadcast_to(there[:, None], seen.payoff.shape) / jnp.maximum(there.sum() * seen.payoff.shape[1], 1)
    middle, rest = jnp.einsum("gt,gtk->k", weights, known), jnp.sum(weights * seen.payoff)
    centred, earned = known - middle, seen.payoff - rest
    spread = jnp.sqrt(jnp.einsum("gt,gtk->k", weights, centred**2))
    scale = jnp.where(spread > 1e-5, 1 / jnp.maximum(spread, 1e-5), 0.0)
    centred = centred * scale
    solve = inverse(jnp.einsum("gt,gtk,gtl->kl", weights, centred, centred) + ridge * jnp.eye(len(scale)))

    def refine(found: Float[Array, " features"], _: None) -> tuple[Float[Array, " features"], None]:
        left = earned - centred @ found
        return found + solve @ jnp.einsum("gt,gtk,gt->k", weights, centred, left), None

    found, _ = jax.lax.scan(refine, jnp.zeros(len(scale)), None, refinements + 1)
    return Earnings(found * scale, middle, rest)
