"""The stage game of a scenario, solved: equilibria with and without its mechanism, the planner, the sweep of α."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from potluck import economy
from potluck.economy import Payoff, Rationality, Solver, StageGame, nash, regrets, settle
from potluck.mechanisms import Facts, Mechanism, Need, Redistribution, Separable
from potluck.studies.plain import plain_values


class Play(eqx.Module):
    """One joint contribution, and what may be said of it."""

    contributions: Float[Array, " silos"]
    payoff: Payoff
    regrets: Float[Array, " silos"]
    price_of_anarchy: Float[Array, ""]
    jain_index: Float[Array, ""]
    rationality: Rationality


class Solution(eqx.Module):
    """A stage game and everything that is solved about it."""

    game: StageGame
    equilibrium: Play
    no_redistribution: Play
    optimum: Play
    intensity_star: Float[Array, ""]
    pigouvian_intensity: Float[Array, ""]
    dominant_intensity: Float[Array, ""]
    budget_residual: Float[Array, ""]
    signal: Float[Array, ""]
    """What the mechanism sends to all at the equilibrium; under redistribution α."""
    solver: Solver = eqx.field(static=True)

    @property
    def intensity(self) -> Float[Array, ""] | Float[Array, "silos silos"] | None:
        """α of the game's redistribution; None under another mechanism."""
        mechanism = self.game.mechanism
        return mechanism.intensity if isinstance(mechanism, Redistribution) else None

    @property
    def gain_share(self) -> Float[Array, ""]:
        """(W(equilibrium) − W(none)) / (W(planner) − W(none)), share of the possible gain; NaN if there is none."""
        none = self.no_redistribution.payoff.welfare
        stake = self.optimum.payoff.welfare - none
        # Below a billionth of the welfare there is nothing to gain but rounding.
        real = stake > 1e-9 * jnp.abs(none)
        return jnp.where(real, (self.equilibrium.payoff.welfare - none) / jnp.where(real, stake, 1.0), jnp.nan)


class Settled(eqx.Module):
    """A play of one's own, settled: the parts of each payoff, and what each silo could gain by deviating alone."""

    contributions: Float[Array, " silos"]
    precision: Float[Array, ""]
    payoff: Payoff
    regrets: Float[Array, " silos"]


class Sweep(eqx.Module):
    """Equilibria over a range of uniform intensities."""

    intensity: Float[Array, "*points"]
    contributions: Float[Array, "*points silos"]
    payoffs: Float[Array, "*points silos"]
    welfare: Float[Array, "*points"]

    @property
    def best(self) -> int:
        """The point of highest welfare; the smallest intensity where several are equal but for rounding."""
        top = self.welfare.max()
        return int(jnp.argmax(self.welfare >= top - 1e-9 * jnp.abs(top)))


class Partly(eqx.Module):
    """A mechanism of which only a share is paid: all of it, or nothing."""

    mechanism: Mechanism[Any]
    share: Float[Array, ""]

    @property
    def needs(self) -> frozenset[Need]:
        return self.mechanism.needs

    @property
    def balanced(self) -> bool:
        return self.mechanism.balanced

    def init(self, precision: Float[Array, ""]) -> PyTree:
        return self.mechanism.init(precision)

    def settle(self, state: PyTree, facts: Facts) -> tuple[PyTree, Float[Array, " silos"], Float[Array, ""]]:
        """A share of its transfers."""
        state, transfers, signal = self.mechanism.settle(state, facts)
        return state, self.share * transfers, signal

    def own(self, state: PyTree, facts: Facts) -> Float[Array, " silos"]:
        """A share of g_n; nothing is asked of a mechanism without, which is not paid where this is climbed."""
        if isinstance(self.mechanism, Separable):
            return self.share * self.mechanism.own(state, facts)
        return jnp.zeros_like(facts.contributions)

    def signal_bounds(self) -> tuple[float, float]:
        return self.mechanism.signal_bounds()


@eqx.filter_jit
def solve(game: StageGame) -> Solution:
    """Solve the game under its own mechanism, without transfers, and for the planner."""
    profit, how = game.terms.profit, economy.solver(game)

    def paid(share: Float[Array, ""]) -> StageGame:
        return StageGame(game.terms, game.energy_price, Partly(game.mechanism, share), game.precision)

    def climb(profit: Float[Array, " silos"], share: Float[Array, ""]) -> Float[Array, " silos"]:
        return nash(eqx.tree_at(lambda at: at.terms.profit, paid(share), profit))

    # W/Σp is the potential of the unpaid game in which every silo earns all profits: the planner climbs alongside.
    profits = jnp.stack([profit, profit, jnp.full_like(profit, profit.sum())])
    reached, without, optimum = jax.vmap(climb)(profits, jnp.asarray([1.0, 0.0, 0.0], profit.dtype))
    if how != "potential":
        reached = economy.equilibrium(game).contributions

    def play(share: Float[Array, ""], contributions: Float[Array, " silos"]) -> Play:
        at = paid(share)
        settled = settle(at, contributions)
        return Play(
            contributions=contributions,
            payoff=settled,
            regrets=regrets(at, contributions),
            price_of_anarchy=economy.price_of_anarchy(at, contributions, optimum),
            jain_index=economy.jain_index(settled.total),
            rationality=economy.rationality(at, contributions, without),
        )

    plays = jax.vmap(play)(jnp.asarray([1.0, 0.0, 1.0], profit.dtype), jnp.stack([reached, without, optimum]))
    here, unpaid, planned = (jax.tree.map(lambda leaf, row=row: leaf[row], plays) for row in range(3))
    return Solution(
        game=game,
        equilibrium=here,
        no_redistribution=unpaid,
        optimum=planned,
        intensity_star=economy.welfare_optimal_intensity(game),
        pigouvian_intensity=economy.pigouvian_intensity(game, optimum),
        dominant_intensity=economy.dominant_intensity(game),
        budget_residual=economy.budget_residual(game, reached),
        signal=economy.settled_at(game, economy.facts_at(game, reached)).signal,
        solver=how,
    )


@eqx.filter_jit
def settled(game: StageGame, contributions: Float[Array, " silos"]) -> Settled:
    return Settled(
        contributions, game.precision(contributions), settle(game, contributions), regrets(game, contributions)
    )


@eqx.filter_jit
def sweep(game: StageGame, intensities: Float[Array, " points"]) -> Sweep:
    """Solve the game at every intensity, side by side."""

    def point(intensity: Float[Array, ""]) -> Sweep:
        at = game.at(intensity)
        contributions = nash(at)
        return Sweep(intensity, contributions, settle(at, contributions).total, economy.welfare(at, contributions))

    swept: Sweep = jax.vmap(point)(intensities)
    return swept


def solve_and_sweep(game: StageGame, intensities: Float[Array, " points"] | None) -> tuple[Solution, Sweep | None]:
    """The solution, and the sweep where intensities are given."""
    if intensities is None:
        return solve(game), None
    solution, swept = in_turn((solve, game), (sweep, game, intensities))
    return solution, swept


def in_turn(*programs: tuple[Any, ...]) -> list[Any]:
    """Compile programs at once, which is most of the wait, and run them one after the other, each on its arguments.

    Programs that run at once on a CPU share its threads, and may wait for each other for ever.
    """

    def compiled(program: Any, *arguments: Any) -> Any:
        return program.lower(*arguments).compile()

    with ThreadPoolExecutor() as threads:
        ready = list(threads.map(lambda words: compiled(*words), programs))
    return [jax.block_until_ready(run(*arguments)) for run, (_, *arguments) in zip(ready, programs, strict=True)]


def plain(solution: Solution, swept: Sweep | None = None) -> dict[str, Any]:
    """The solution as JSON-ready values. `no_redistribution` carries the same keys as the whole."""

    def figures(play: Play) -> dict[str, Any]:
        return {
            "nash": play.contributions,
            "payoffs": play.payoff.total,
            "welfare": play.payoff.welfare,
            "nash_conv": play.regrets.sum(),
            "regrets": play.regrets,
            "planner": solution.optimum.contributions,
            "planner_welfare": solution.optimum.payoff.welfare,
            "price_of_anarchy": play.price_of_anarchy,
            "intensity_star": solution.intensity_star,
            "jain_index": play.jain_index,
            "rationality": play.rationality,
        }

    rows = [] if swept is None else [_row(swept, point) for point in range(len(swept.intensity))]
    values: dict[str, Any] = plain_values(
        figures(solution.equilibrium)
        | {
            "intensity": solution.intensity,
            "signal": solution.signal,
            "solver": solution.solver,
            "transfers": solution.equilibrium.payoff.transfer,
            "gain_share": solution.gain_share,
            "pigouvian_intensity": solution.pigouvian_intensity,
            "dominant_intensity": solution.dominant_intensity,
            "budget_residual": solution.budget_residual,
            "no_redistribution": figures(solution.no_redistribution),
            "sweep": rows,
            "sweep_best": None if swept is None else rows[swept.best],
        }
    )
    return values


def plain_settled(play: Settled) -> dict[str, Any]:
    """A settled play as JSON-ready values."""
    parts = play.payoff
    values: dict[str, Any] = plain_values(
        {
            "contributions": play.contributions,
            "precision": play.precision,
            "revenue": parts.revenue,
            "energy": parts.energy,
            "communication": parts.communication,
            "transfers": parts.transfer,
            "payoffs": parts.total,
            "welfare": parts.welfare,
            "regrets": play.regrets,
            "nash_conv": play.regrets.sum(),
        }
    )
    return values


def _row(swept: Sweep, point: int) -> dict[str, Any]:
    return {
        "intensity": swept.intensity[point],
        "welfare": swept.welfare[point],
        "mean_contribution": swept.contributions[point].mean(),
        "nash": swept.contributions[point],
        "payoffs": swept.payoffs[point],
    }
