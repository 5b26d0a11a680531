"""Who gains what in one slot."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from potluck.economy.mechanism import Redistribution, transfers
from potluck.scenario.terms import Terms

__all__ = ["Payoff", "Precision", "StageGame", "payoff", "payoffs", "settle"]

Precision = Callable[[Float[Array, " silos"]], Float[Array, ""]]
"""P(d): the value of the precision at joint contributions d. Nothing else is ever asked of it."""


class Payoff(eqx.Module):
    """The parts of each silo's payoff, in money."""

    revenue: Float[Array, " silos"]
    energy: Float[Array, " silos"]
    communication: Float[Array, " silos"]
    transfer: Float[Array, " silos"]

    @property
    def total(self) -> Float[Array, " silos"]:
        """u_n = revenue − energy − communication + transfer."""
        return self.revenue - self.energy - self.communication + self.transfer

    @property
    def welfare(self) -> Float[Array, ""]:
        """W = Σ_n u_n. Transfers cancel, so they are left out rather than summed to a rounding error."""
        return jnp.sum(self.revenue - self.energy - self.communication)


class StageGame(eqx.Module):
    """One slot as a game: silos on private terms, one energy price, one mechanism, one precision law."""

    terms: Terms
    energy_price: Float[Array, ""]
    redistribution: Redistribution
    precision: Precision

    def at(self, intensity: Float[Array, ""] | Float[Array, "silos silos"]) -> "StageGame":
        """Play the same game at another intensity."""
        return StageGame(self.terms, self.energy_price, self.redistribution.at(intensity), self.precision)

    @property
    def cost(self) -> Float[Array, " silos"]:
        """κ v_n |D_n|: the energy bill of a silo's whole data."""
        return self.energy_price * self.terms.energy * self.terms.samples


def payoff(
    terms: Terms,
    energy_price: Float[Array, ""],
    contributions: Float[Array, " silos"],
    precision: Float[Array, ""],
    transfer: Float[Array, " silos"],
) -> Payoff:
    """u_n = p_n·P − κ·v_n·d_n·|D_n| − C_n + r_n, from the value of P alone."""
    return Payoff(
        revenue=terms.profit * precision,
        energy=energy_price * terms.energy * contributions * terms.samples,
        communication=terms.communication,
        transfer=transfer,
    )


def settle(game: StageGame, contributions: Float[Array, " silos"]) -> Payoff:
    """Settle the slot: train, measure, redistribute."""
    transfer = transfers(game.redistribution, contributions, game.terms.samples)
    return payoff(game.terms, game.energy_price, contributions, game.precision(contributions), transfer)


def payoffs(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, " silos"]:
    """u(d): each silo's payoff at joint contributions d."""
    return settle(game, contributions).total
