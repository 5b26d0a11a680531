"""The function that every silo climbs without knowing it, and the one the paper printed."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from potluck.economy.payoff import StageGame, facts_at, settled_at
from potluck.errors import PotluckError
from potluck.mechanisms import Separable
from potluck.mechanisms.redistribution import others


def separable(game: StageGame) -> bool:
    """Whether the mechanism leaves the game a potential."""
    return isinstance(game.mechanism, Separable)


def potential_gain(game: StageGame, before: Float[Array, " silos"], after: Float[Array, " silos"]) -> Float[Array, ""]:
    """Φ(d′) − Φ(d) = P(d′) − P(d) + Σ_n [g_n(d_n′) − g_n(d_n) − κ v_n|D_n|·(d_n′ − d_n)] / p_n.

    Silo by silo: a large cost or a small profit drowns the others' terms only where that silo moves, and C_n is left
    out, which never does.
    """
    mechanism = _separable(game)
    here, there = facts_at(game, before), facts_at(game, after)
    own = mechanism.own(game.begun, there) - mechanism.own(game.begun, here) - game.cost * (after - before)
    return there.precision - here.precision + jnp.sum(own / game.terms.profit)


def potential(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """Φ(d) = P(d) + Σ_n [g_n(d_n) − κ v_n|D_n|·d_n − C_n] / p_n, g_n what a silo's own d_n moves of its transfer.

    The exact weighted potential, weights p_n: p_n·(Φ(d′) − Φ(d)) = u_n(d′) − u_n(d) whenever only silo n moves.
    Under redistribution g_n = Σ_{j≠n} α_nj·d_n (times |D_n|/unit on basis `samples`).
    """
    facts = facts_at(game, contributions)
    own = _separable(game).own(game.begun, facts) - game.cost * contributions - game.terms.communication
    return facts.precision + jnp.sum(own / game.terms.profit)


def _separable(game: StageGame) -> Separable[Any]:
    if not isinstance(game.mechanism, Separable):
        raise PotluckError(f"{type(game.mechanism).__name__} leaves the game no potential", field="mechanism")
    return game.mechanism


def printed_potential(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """U(d) = P(d) − Σ_n [κ v_n d_n|D_n| + C_n − r_n] / p_n, the paper's Theorem 1. Not a potential of this game."""
    facts = facts_at(game, contributions)
    own = settled_at(game, facts).transfers - game.cost * contributions - game.terms.communication
    return facts.precision + jnp.sum(own / game.terms.profit)


def printed_error(game: StageGame, silo: Int[Array, ""] | int, move: Float[Array, ""] | float) -> Float[Array, ""]:
    """p_n·ΔU − Δu_n = −p_n·δ·Σ_{j≠n} α_jn/p_j when silo n moves by δ (times its leverage on basis `samples`).

    The others' transfers r_j, j ≠ n, depend on d_n too, and the printed proof drops them. Of redistribution alone.
    """
    profit = game.terms.profit
    pairs = others(game.redistribution.intensity, profit.shape[0])[:, silo]
    return -profit[silo] * move * game.leverage[silo] * jnp.sum(pairs / profit)
