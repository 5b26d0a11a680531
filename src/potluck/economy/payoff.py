"""Who gains what in one slot."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from potluck.mechanisms import Facts, Mechanism, Redistribution, Settlement, facts_of, first_state, settle_slot
from potluck.scenario.terms import Terms

Precision = Callable[[Float[Array, " silos"]], Float[Array, ""]]
"""P(d): the value of the precision at joint contributions d. Nothing else is ever asked of it."""


@runtime_checkable
class KnowsMarginal(Protocol):
    """A precision law that can leave out one slot's update."""

    def marginal(self, contributions: Float[Array, " silos"]) -> Float[Array, " silos"]:
        """P − P without silo n's update of the slot."""
        ...


class Payoff(eqx.Module):
    """The parts of each silo's payoff, in money."""

    revenue: Float[Array, "*silos"]
    energy: Float[Array, "*silos"]
    communication: Float[Array, "*silos"]
    transfer: Float[Array, "*silos"]

    @property
    def total(self) -> Float[Array, "*silos"]:
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
    mechanism: Mechanism[Any]
    precision: Precision

    def at(self, intensity: Float[Array, ""] | Float[Array, "silos silos"]) -> "StageGame":
        """The same silos under redistribution at this intensity, on the game's basis; at 0 without transfers."""
        paid = Redistribution(intensity, self.redistribution.unit)
        return StageGame(self.terms, self.energy_price, paid, self.precision)

    @property
    def redistribution(self) -> Redistribution:
        """What redistribution's theory speaks of: the game's own mechanism, or one that moves nothing in its place."""
        if isinstance(self.mechanism, Redistribution):
            return self.mechanism
        return Redistribution(jnp.zeros_like(self.energy_price), getattr(self.mechanism, "unit", None))

    @property
    def begun(self) -> PyTree:
        """What the mechanism remembers before the first slot."""
        return first_state(self.mechanism, self.precision(jnp.zeros_like(self.terms.profit)))

    @property
    def leverage(self) -> Float[Array, " silos"]:
        """How much a silo's whole data weighs in redistribution, ∂b_n/∂d_n: 1, or |D_n|/unit on basis `samples`."""
        unit, samples = self.redistribution.unit, self.terms.samples
        return jnp.ones_like(samples) if unit is None else samples / unit

    @property
    def cost(self) -> Float[Array, " silos"]:
        """κ v_n |D_n|: the energy bill of a silo's whole data."""
        return self.energy_price * self.terms.energy * self.terms.samples


def payoff(
    terms: Terms,
    energy_price: Float[Array, ""],
    contributions: Float[Array, "*silos"],
    precision: Float[Array, ""],
    transfer: Float[Array, "*silos"],
) -> Payoff:
    """u_n = p_n·P − κ·v_n·d_n·|D_n| − C_n + r_n, from the value of P alone; for all silos, or for one."""
    return Payoff(
        revenue=terms.profit * precision,
        energy=energy_price * terms.energy * contributions * terms.samples,
        communication=terms.communication,
        transfer=transfer,
    )


def facts_at(game: StageGame, contributions: Float[Array, " silos"]) -> Facts:
    """What the game's mechanism is told where silos bring this.

    Without a law that knows what one slot's update is worth, leaving silo n out means d_n = 0.
    """
    precision, marginal = game.precision(contributions), None
    if "marginal" in game.mechanism.needs and isinstance(game.precision, KnowsMarginal):
        marginal = game.precision.marginal(contributions)
    elif "marginal" in game.mechanism.needs:
        others = 1 - jnp.eye(contributions.shape[0], dtype=contributions.dtype)
        marginal = precision - jax.vmap(game.precision)(others * contributions)
    return facts_of(game.mechanism, contributions, game.terms.samples, precision, marginal)


def settled_at(game: StageGame, facts: Facts) -> Settlement:
    """How the game's mechanism settles its first slot."""
    return settle_slot(game.mechanism, game.begun, facts)


def settle(game: StageGame, contributions: Float[Array, " silos"]) -> Payoff:
    """Settle the slot: train, measure, transfer."""
    facts = facts_at(game, contributions)
    transfer = settled_at(game, facts).transfers
    return payoff(game.terms, game.energy_price, contributions, facts.precision, transfer)


def payoffs(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, " silos"]:
    """u(d): each silo's payoff at joint contributions d."""
    return settle(game, contributions).total


def payoff_gains(
    game: StageGame, before: Float[Array, " silos"], after: Float[Array, " silos"]
) -> Float[Array, " silos"]:
    """u(d′) − u(d) = p_n·(P(d′) − P(d)) − κ v_n|D_n|·(d_n′ − d_n) + r_n(d′) − r_n(d).

    Part by part, so that C_n, however large, costs no digits.
    """
    here, there = facts_at(game, before), facts_at(game, after)
    received = settled_at(game, there).transfers - settled_at(game, here).transfers
    return game.terms.profit * (there.precision - here.precision) - game.cost * (after - before) + received
