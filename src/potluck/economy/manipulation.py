"""What a dishonest silo gains: claiming more than it trains on, hiding data, splitting itself, overstating its cost.

The training itself is honest, so precision and energy stay as they are and only money moves.
"""

from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from potluck.economy.equilibrium import equilibrium
from potluck.economy.payoff import StageGame, facts_at, payoffs, settled_at
from potluck.errors import PotluckError
from potluck.mechanisms import Facts, Mechanism, facts_of

State = TypeVar("State")


@runtime_checkable
class Splittable(Mechanism[State], Protocol[State]):
    """A mechanism that can say how it would settle if silos posed as several."""

    def split(self, owners: Int[Array, " identities"]) -> "Splittable[State]":
        """The same where identity i belongs to silo `owners[i]`."""
        ...


@runtime_checkable
class Declaring(Mechanism[State], Protocol[State]):
    """A mechanism that believes what silos declare of their costs."""

    def declaring(self, silo: Int[Array, ""] | int, factor: Float[Array, ""] | float) -> "Declaring[State]":
        """The same where a silo declares `factor` times the cost that it declares now."""
        ...


def gain_from_over_reporting(
    game: StageGame, contributions: Float[Array, " silos"], silo: Int[Array, ""] | int, claim: Float[Array, ""] | float
) -> Float[Array, ""]:
    """r_n(d̂_n) − r_n(d_n) for claiming d̂_n while training on d_n.

    Under redistribution positive on either basis whenever d̂_n > d_n: contributions must be measured, not believed.
    """
    return _gain(game, contributions, contributions.at[silo].set(claim), game.terms.samples, silo)


def gain_from_shading(
    game: StageGame,
    contributions: Float[Array, " silos"],
    silo: Int[Array, ""] | int,
    declared: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """Gain of declaring |D̂_n| < |D_n| samples while training on the same x_n, so that d̂_n = min(1, x_n/|D̂_n|).

    Under redistribution positive on basis `fraction`; zero on basis `samples` while x_n fits in what is declared, and a
    loss beyond.
    """
    brought = contributions[silo] * game.terms.samples[silo]
    shaded = contributions.at[silo].set(jnp.minimum(1.0, brought / declared))
    return _gain(game, contributions, shaded, game.terms.samples.at[silo].set(declared), silo)


def gain_from_splitting(
    game: StageGame, contributions: Float[Array, " silos"], silo: Int[Array, ""] | int, identities: int
) -> Float[Array, ""]:
    """Gain of posing as k silos with |D_n|/k samples each, every one contributing the same share d_n and paying C_n.

    Under redistribution on basis `fraction` that is (k−1)·r_n − (k−1)·C_n: it pays for whoever receives transfers. On
    basis `samples` it is −(k−1)·Σ_{j≠n} α_nj b_j − (k−1)·C_n ≤ 0: it never pays.
    """
    mechanism = game.mechanism
    if not isinstance(mechanism, Splittable) or "marginal" in mechanism.needs:
        raise PotluckError(f"{_named(mechanism)} does not say how it settles with split silos", field="mechanism")
    silos = contributions.shape[0]
    owners = jnp.concatenate([jnp.arange(silos), jnp.full(identities - 1, silo)])
    held = game.terms.samples.at[silo].divide(identities)[owners]
    facts = facts_of(mechanism, contributions[owners], held, game.precision(contributions))
    split = settled_at(_under(game, mechanism.split(owners)), facts).transfers
    honest = _received(game, facts_at(game, contributions), silo)
    cost = (identities - 1) * game.terms.communication[silo]
    return jnp.sum(jnp.where(owners == silo, split, 0.0)) - honest - cost


class Overstating(NamedTuple):
    """What a silo gains by declaring more than its cost, in money per slot."""

    at_play: Float[Array, ""]
    """Where everybody brings what they did."""
    at_equilibrium: Float[Array, ""]
    """Between the equilibria of both games: the others answer to what it then brings."""


def gain_from_overstating_cost(
    game: StageGame, contributions: Float[Array, " silos"], silo: Int[Array, ""] | int, factor: Float[Array, ""] | float
) -> Overstating:
    """Gain of declaring `factor` times the cost c_n under a mechanism that pays declared costs back."""
    mechanism = game.mechanism
    if not isinstance(mechanism, Declaring):
        raise PotluckError(f"{_named(mechanism)} asks nobody for costs", field="mechanism")
    lied = _under(game, mechanism.declaring(silo, factor))
    facts = facts_at(game, contributions)
    before, after = (payoffs(at, equilibrium(at).contributions)[silo] for at in (game, lied))
    return Overstating(_received(lied, facts, silo) - _received(game, facts, silo), after - before)


def _under(game: StageGame, mechanism: Mechanism[State]) -> StageGame:
    return StageGame(game.terms, game.energy_price, mechanism, game.precision)


def _received(game: StageGame, facts: Facts, silo: Int[Array, ""] | int) -> Float[Array, ""]:
    return settled_at(game, facts).transfers[silo]


def _named(mechanism: Mechanism[State]) -> str:
    return type(mechanism).__name__


def _gain(
    game: StageGame,
    truth: Float[Array, " silos"],
    claim: Float[Array, " silos"],
    declared: Float[Array, " silos"],
    silo: Int[Array, ""] | int,
) -> Float[Array, ""]:
    """Marginal precision is measured, so it stays what it is."""
    honest = facts_at(game, truth)
    told = facts_of(game.mechanism, claim, declared, honest.precision, honest.marginal)
    return _received(game, told, silo) - _received(game, honest, silo)
