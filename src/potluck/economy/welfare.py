"""How good is good: the planner's optimum, the intensities that lead there, and who is better off."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from potluck.economy.equilibrium import best_response, nash
from potluck.economy.optimise import maximise_on_box, smallest_of_the_best
from potluck.economy.payoff import StageGame, facts_at, payoffs, settle, settled_at
from potluck.mechanisms import NoTransfers
from potluck.scenario.terms import Terms


def welfare(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """W(d) = P·Σp − Σ(κ v d|D| + C): what there is to share."""
    return settle(game, contributions).welfare


def planner(game: StageGame) -> Float[Array, " silos"]:
    """argmax_d W(d): what one owner of all silos would contribute."""

    def gain(before: Float[Array, " silos"], after: Float[Array, " silos"]) -> Float[Array, ""]:
        spent = game.cost @ (after - before)
        return game.precision(after) - game.precision(before) - spent / game.terms.profit.sum()

    return maximise_on_box(gain, jnp.full_like(game.terms.profit, 0.5))


def pigouvian_subsidies(game: StageGame, optimum: Float[Array, " silos"]) -> Float[Array, " silos"]:
    """t_n = Σ_{j≠n} p_j·∂_nP at the planner's optimum: the benefit to others that silo n does not feel."""
    profit = game.terms.profit
    slopes: Float[Array, " silos"] = jax.grad(game.precision)(optimum)
    return (profit.sum() - profit) * slopes


def pigouvian_intensity(game: StageGame, optimum: Float[Array, " silos"]) -> Float[Array, ""]:
    """α* = mean_n t_n/(N−1) (over its leverage): exact when silos are alike, κ v|D|/N at an interior optimum."""
    needed = pigouvian_subsidies(game, optimum) / game.leverage
    return jnp.mean(needed) / (needed.shape[0] - 1)


def dominant_intensity(game: StageGame) -> Float[Array, ""]:
    """max_n κ v_n|D_n|/(N−1) (over its leverage): from here on d = 1 is dominant, whatever P is."""
    return _dominant_for_each(game).max()


def _dominant_for_each(game: StageGame) -> Float[Array, " silos"]:
    """κ v_n|D_n|/(N−1) (over its leverage): from here on d_n = 1 is dominant for silo n."""
    return game.cost / game.leverage / (game.cost.shape[0] - 1)


def welfare_optimal_intensity(game: StageGame) -> Float[Array, ""]:
    """The smallest uniform α whose equilibrium has the highest welfare, but for a billionth of the gain.

    From the dominant intensity on nothing moves, so the search ends there. Unequal silos reach their bounds one after
    another, and where one takes another's place welfare jumps: it has many hills, and the bills that silos pay tell
    where another may hide. The first grid is half even, half with as many points between two silos' dominant
    intensities as between any others.
    """
    turns = jnp.concatenate([jnp.zeros(1, game.cost.dtype), jnp.sort(_dominant_for_each(game))])
    even = jnp.linspace(0, turns[-1], 17)
    by_turns = jnp.interp(jnp.linspace(0, len(turns) - 1, 17), jnp.arange(len(turns)), turns)

    def reached(intensity: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, " silos"]]:
        contributions = nash(game.at(intensity))
        bills = game.cost * contributions
        # W but for Σ C, which would cost digits.
        return game.terms.profit.sum() * game.precision(contributions) - bills.sum(), bills

    return smallest_of_the_best(reached, jnp.sort(jnp.concatenate([even, by_turns])), tie=1e-9)


class FirstBest(NamedTuple):
    """Per-pair intensities that pay every silo its Pigouvian subsidy: the planner's optimum is then an equilibrium."""

    intensity: Float[Array, "silos silos"]
    needs_negative: Bool[Array, ""]
    """Only with negative entries: one silo's subsidy exceeds all others' together. (A silo at a corner of the optimum
    could do with less or more than its Pigouvian subsidy, and another matrix may then do without.)"""
    residual: Float[Array, ""]
    """Largest subsidy the matrix misses; above zero only when N = 2 and the two need different subsidies."""


def first_best(game: StageGame, optimum: Float[Array, " silos"], rounds: int = 2000) -> FirstBest:
    """Symmetric α_nj with row sums Σ_{j≠n} α_nj = t_n (over leverage), non-negative where that is possible.

    A non-negative one exists iff no t_n exceeds the sum of the others. Symmetric scaling, α_nj = w_n w_j, spreads it
    over all pairs; near the boundary, where scaling crawls, `_facing` gives a sparser one. If there is none, the
    least-norm solution α_nj = λ_n + λ_j is returned, negative entries and all.
    """
    needed = pigouvian_subsidies(game, optimum) / game.leverage
    silos = needed.shape[0]
    others = 1 - jnp.eye(silos, dtype=needed.dtype)
    needs_negative = 2 * needed.max() > needed.sum() * (1 + 1e-12)

    def scale(_: Int[Array, ""] | int, weights: Float[Array, " silos"]) -> Float[Array, " silos"]:
        return jnp.sqrt(weights * needed / jnp.maximum(others @ weights, 1e-30))

    weights = jax.lax.fori_loop(0, rounds, scale, jnp.sqrt(needed))
    shift = needed.sum() / (2 * (silos - 1))
    offsets = (needed - shift) / (silos - 2) if silos > 2 else jnp.full_like(needed, needed.mean() / 2)
    scaled = others * weights[:, None] * weights[None, :]
    least = others * (offsets[:, None] + offsets[None, :])
    missed = jnp.max(jnp.abs(scaled.sum(axis=1) - needed))
    spread_out = missed <= 1e-9 * jnp.maximum(needed.max(), 1e-30)
    matrix = jnp.where(needs_negative, least, jnp.where(spread_out, scaled, _facing(needed)))
    return FirstBest(matrix, needs_negative, jnp.max(jnp.abs(matrix.sum(axis=1) - needed)))


def _facing(needed: Float[Array, " silos"]) -> Float[Array, "silos silos"]:
    """Lay the t_n round a circle as arcs and pair every point with the one it faces: α_nj is what n and j share.

    Symmetric, non-negative, row sums t_n; no arc faces itself while none is longer than half the circle.
    """
    ends = jnp.cumsum(needed)
    starts, half = ends - needed, ends[-1] / 2

    def overlap(shift: Float[Array, ""]) -> Float[Array, "silos silos"]:
        low = jnp.maximum(starts[:, None], starts[None, :] + shift)
        return jnp.maximum(jnp.minimum(ends[:, None], ends[None, :] + shift) - low, 0.0)

    return (overlap(half) + overlap(-half)) * (1 - jnp.eye(needed.shape[0], dtype=needed.dtype))


def price_of_anarchy(game: StageGame, equilibrium: Float[Array, " silos"], optimum: Float[Array, " silos"]) -> Array:
    """W(planner) / W(equilibrium); infinite where the equilibrium leaves nothing to share."""
    best, reached = welfare(game, optimum), welfare(game, equilibrium)
    return jnp.where(reached > 0, best / jnp.where(reached > 0, reached, 1.0), jnp.inf)


class Rationality(eqx.Module):
    """What each silo gains by taking part, against three ways of not doing so. Individually rational where ≥ 0."""

    leaving: Float[Array, " silos"]
    """Against having neither model nor cost (payoff 0)."""
    alone: Float[Array, " silos"]
    """Against training alone on one's own data, as much of it as pays."""
    no_redistribution: Float[Array, " silos"]
    """Against the same federation without transfers, at its own equilibrium."""


def rationality(game: StageGame, contributions: Float[Array, " silos"], without: Float[Array, " silos"]) -> Rationality:
    """Compare payoffs at `contributions` with leaving, training alone, and the equilibrium `without` transfers."""
    reached = payoffs(game, contributions)
    terms = game.terms
    unpaid = StageGame(terms, game.energy_price, NoTransfers(), game.precision)
    offline = StageGame(
        Terms(terms.profit, terms.energy, jnp.zeros_like(terms.communication), terms.samples),
        game.energy_price,
        NoTransfers(),
        game.precision,
    )
    nobody = jnp.zeros_like(contributions)
    _, gains = jax.vmap(lambda silo: best_response(offline, nobody, silo))(jnp.arange(nobody.shape[0]))
    alone = payoffs(offline, nobody) + gains
    return Rationality(reached, reached - alone, reached - payoffs(unpaid, without))


def jain_index(shares: Float[Array, " silos"]) -> Float[Array, ""]:
    """(Σu)² / (N·Σu²): 1 when all fare alike, 1/N when one takes all; whatever the unit of money."""
    largest = jnp.max(jnp.abs(shares))
    relative = jnp.where(largest > 0, shares / jnp.where(largest > 0, largest, 1.0), 1.0)
    return relative.sum() ** 2 / (shares.shape[0] * jnp.sum(relative**2))


def budget_residual(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """|Σ_n r_n|: money that transfers create or destroy; rounding only, where the mechanism is balanced."""
    return jnp.abs(settled_at(game, facts_at(game, contributions)).residual)
