"""The function that every silo climbs without knowing it, and the one the paper printed."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from potluck.economy.mechanism import leverage, transfers
from potluck.economy.payoff import StageGame

__all__ = ["potential", "printed_error", "printed_potential", "subsidies"]


def subsidies(game: StageGame) -> Float[Array, " silos"]:
    """What redistribution adds to a silo's payoff per unit of its own d: Σ_{j≠n} α_nj, times its leverage."""
    silos = game.terms.profit.shape[0]
    pairs = jnp.broadcast_to(game.redistribution.intensity, (silos, silos)) * (
        1 - jnp.eye(silos, dtype=game.terms.profit.dtype)
    )
    return leverage(game.redistribution, game.terms.samples) * pairs.sum(axis=1)


def potential(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """Φ(d) = P(d) + Σ_n [(Σ_{j≠n} α_nj − κ v_n|D_n|)·d_n − C_n] / p_n (on basis `samples` Σα is times |D_n|/unit).

    The exact weighted potential, weights p_n: p_n·(Φ(d′) − Φ(d)) = u_n(d′) − u_n(d) whenever only silo n moves.
    """
    own = (subsidies(game) - game.cost) * contributions - game.terms.communication
    return game.precision(contributions) + jnp.sum(own / game.terms.profit)


def printed_potential(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """U(d) = P(d) − Σ_n [κ v_n d_n|D_n| + C_n − r_n] / p_n, the paper's Theorem 1. Not a potential of this game."""
    transfer = transfers(game.redistribution, contributions, game.terms.samples)
    own = transfer - game.cost * contributions - game.terms.communication
    return game.precision(contributions) + jnp.sum(own / game.terms.profit)


def printed_error(game: StageGame, silo: Int[Array, ""] | int, move: Float[Array, ""] | float) -> Float[Array, ""]:
    """p_n·ΔU − Δu_n = −p_n·δ·Σ_{j≠n} α_jn/p_j when silo n moves by δ (times its leverage on basis `samples`).

    The others' transfers r_j, j ≠ n, depend on d_n too, and the printed proof drops them.
    """
    profit = game.terms.profit
    pairs = jnp.broadcast_to(game.redistribution.intensity, (profit.shape[0],) * 2)[:, silo].at[silo].set(0.0)
    return -profit[silo] * move * leverage(game.redistribution, game.terms.samples)[silo] * jnp.sum(pairs / profit)
