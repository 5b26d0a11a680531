"""Where self-interest leads: best responses, Nash equilibria, and how far any play is from one."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from potluck.economy.optimise import maximise_on_box, maximise_on_segment
from potluck.economy.payoff import Precision, StageGame, payoff_gains
from potluck.economy.potential import potential_gain, separable


def black_box(measure: Callable[[np.ndarray], float]) -> Precision:
    """Let any Python function, a real training run included, serve as a game's precision.

    It has values only, no gradient: solve such a game with `best_response_dynamics`.
    """

    def precision(contributions: Float[Array, " silos"]) -> Float[Array, ""]:
        shape = jax.ShapeDtypeStruct((), contributions.dtype)
        answer = jax.pure_callback(
            lambda d: np.asarray(measure(np.asarray(d)), dtype=contributions.dtype),
            shape,
            contributions,
            vmap_method="sequential",
        )
        return jnp.asarray(answer)

    return precision


def best_response(
    game: StageGame, contributions: Float[Array, " silos"], silo: Int[Array, ""] | int
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """d_n maximising u_n(d_n, d_−n) on [0, 1], and what it gains; by values alone, corners included."""

    def gain(own: Float[Array, ""]) -> Float[Array, ""]:
        return payoff_gains(game, contributions, contributions.at[silo].set(own))[silo]

    return maximise_on_segment(gain, jnp.linspace(0, 1, 33, dtype=contributions.dtype))


def regrets(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, " silos"]:
    """ε_n = max_{d_n′} u_n(d_n′, d_−n) − u_n(d): what silo n could gain by deviating alone."""
    silos = jnp.arange(contributions.shape[0])
    _, gains = jax.vmap(lambda silo: best_response(game, contributions, silo))(silos)
    return jnp.maximum(gains, 0.0)


def nash_conv(game: StageGame, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
    """NashConv = Σ_n ε_n; zero at a Nash equilibrium and nowhere else."""
    return regrets(game, contributions).sum()


def nash(game: StageGame, start: Float[Array, " silos"] | None = None) -> Float[Array, " silos"]:
    """Nash equilibrium as argmax Φ over [0, 1]^N, for a differentiable precision law; exact where P is concave.

    Refuses a mechanism that leaves the game no potential: `equilibrium` searches there.
    """
    middle = jnp.full_like(game.terms.profit, 0.5)
    return maximise_on_box(partial(potential_gain, game), middle if start is None else start)


class _Play(NamedTuple):
    contributions: Float[Array, " silos"]
    rounds: Int[Array, ""]
    moved: Float[Array, ""]


def best_response_dynamics(
    game: StageGame, start: Float[Array, " silos"], tolerance: float = 1e-9, rounds: int = 2000
) -> Float[Array, " silos"]:
    """Silos answer one another in turn until nobody gains more than `tolerance` of its profit p_n in a round.

    Every answer raises Φ where there is one, so play cannot cycle; without one it may, and `rounds` ends it. Needs
    nothing but values of P.
    """
    silos = start.shape[0]

    def answer(
        silo: Int[Array, ""] | int, state: tuple[Float[Array, " silos"], Float[Array, ""]]
    ) -> tuple[Array, Array]:
        contributions, moved = state
        own, gain = best_response(game, contributions, silo)
        answered = jnp.where(gain > 0, contributions.at[silo].set(own), contributions)
        return answered, jnp.maximum(moved, gain / game.terms.profit[silo])

    def play(state: _Play) -> _Play:
        contributions, moved = jax.lax.fori_loop(0, silos, answer, (state.contributions, jnp.zeros_like(state.moved)))
        return _Play(contributions, state.rounds + 1, moved)

    begun = _Play(start, jnp.asarray(0), jnp.asarray(jnp.inf, start.dtype))
    return jax.lax.while_loop(lambda s: (s.moved > tolerance) & (s.rounds < rounds), play, begun).contributions


Solver: TypeAlias = Literal["potential", "best-response"]
"""How an equilibrium was found: at the top of Φ, or by silos that answer one another."""


class Equilibrium(NamedTuple):
    """What was found, and how. `nash_conv` says how good it is: without a potential there may be no equilibrium."""

    contributions: Float[Array, " silos"]
    solver: Solver


def solver(game: StageGame) -> Solver:
    """What finds the equilibrium under the game's mechanism."""
    return "potential" if separable(game) else "best-response"


def equilibrium(game: StageGame) -> Equilibrium:
    """Climb Φ where the mechanism leaves one, else let silos answer one another, 100 rounds at most."""
    chosen = solver(game)
    if chosen == "potential":
        return Equilibrium(nash(game), chosen)
    return Equilibrium(best_response_dynamics(game, jnp.full_like(game.terms.profit, 0.5), rounds=100), chosen)


class Uniqueness(NamedTuple):
    """Whether climbs from many starts end together."""

    unique: Bool[Array, ""]
    spread: Float[Array, ""]
    """Largest difference in any silo's contribution between two equilibria found."""
    total_spread: Float[Array, ""]
    """The same for the total of samples brought, as a share of all samples."""


def uniqueness(game: StageGame, key: PRNGKeyArray | Array, starts: int = 16, tolerance: float = 1e-4) -> Uniqueness:
    """Multistart: climb Φ from random points and compare where the climbs end.

    With P a function of total data only, alike silos may share the total in many ways: then it alone is unique.
    """
    points = jax.random.uniform(key, (starts, game.terms.profit.shape[0]), game.terms.profit.dtype)
    found = jax.vmap(lambda start: nash(game, start))(points)
    spread = jnp.max(jnp.ptp(found, axis=0))
    totals = found @ game.terms.samples / game.terms.samples.sum()
    return Uniqueness(spread <= tolerance, spread, jnp.ptp(totals))
