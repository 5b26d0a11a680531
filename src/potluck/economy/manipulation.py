"""What a dishonest silo gains: claiming more than it trains on, hiding data, splitting itself in many.

The training itself is honest in all three, so precision and energy stay as they are and only money moves.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from potluck.economy.mechanism import leverage, transfers
from potluck.economy.payoff import StageGame

__all__ = ["gain_from_over_reporting", "gain_from_shading", "gain_from_splitting"]


def gain_from_over_reporting(
    game: StageGame, contributions: Float[Array, " silos"], silo: Int[Array, ""] | int, claim: Float[Array, ""] | float
) -> Float[Array, ""]:
    """r_n(d̂_n) − r_n(d_n) for claiming d̂_n while training on d_n.

    Positive on either basis whenever d̂_n > d_n: contributions must be measured, not believed.
    """
    return _gain(game, contributions, contributions.at[silo].set(claim), game.terms.samples, silo)


def gain_from_shading(
    game: StageGame,
    contributions: Float[Array, " silos"],
    silo: Int[Array, ""] | int,
    declared: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """Gain of declaring |D̂_n| < |D_n| samples while training on the same x_n, so that d̂_n = min(1, x_n/|D̂_n|).

    Positive on basis `fraction`; zero on basis `samples` while x_n fits in what is declared, and a loss beyond.
    """
    brought = contributions[silo] * game.terms.samples[silo]
    shaded = contributions.at[silo].set(jnp.minimum(1.0, brought / declared))
    return _gain(game, contributions, shaded, game.terms.samples.at[silo].set(declared), silo)


def gain_from_splitting(
    game: StageGame, contributions: Float[Array, " silos"], silo: Int[Array, ""] | int, identities: int
) -> Float[Array, ""]:
    """Gain of posing as k silos with |D_n|/k samples each, every one contributing the same share d_n.

    Each identity is settled against every other silo; between them nothing moves; each pays C_n.
    On basis `fraction` that is (k−1)·r_n − (k−1)·C_n: it pays for whoever receives transfers. On basis `samples`
    it is −(k−1)·Σ_{j≠n} α_nj b_j − (k−1)·C_n ≤ 0: it never pays.
    """
    rule, samples = game.redistribution, game.terms.samples
    honest = transfers(rule, contributions, samples)[silo]
    brought = contributions * leverage(rule, samples)
    pairs = jnp.broadcast_to(rule.intensity, (samples.shape[0],) * 2)[silo].at[silo].set(0.0)
    each = contributions[silo] * leverage(rule, samples / identities)[silo]
    split = identities * jnp.sum(pairs * (each - brought))
    return split - honest - (identities - 1) * game.terms.communication[silo]


def _gain(
    game: StageGame,
    truth: Float[Array, " silos"],
    claim: Float[Array, " silos"],
    declared: Float[Array, " silos"],
    silo: Int[Array, ""] | int,
) -> Float[Array, ""]:
    paid = transfers(game.redistribution, claim, declared)[silo]
    return paid - transfers(game.redistribution, truth, game.terms.samples)[silo]
