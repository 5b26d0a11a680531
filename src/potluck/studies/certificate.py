"""How close learnt play is to an equilibrium of the long-term game, and what it is worth.

Nobody can prove a best response in a game without formulas, so the gain is that of the best deviation found: constant
contributions, a learner trained against the frozen others, and on the curve the best plan for all slots by ascent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from potluck.agents import Environment, Learner, PolicyGradient
from potluck.federation.measure import Interval, interval
from potluck.scenario import CurvePrecision
from potluck.training.loop import begin, mesh_for, side_by_side, train
from potluck.training.opponents import Against
from potluck.training.play import episode, long_term
from potluck.training.run import Trained

__all__ = ["CONSTANTS", "Certificate", "Played", "SiloCertificate", "certify", "evaluate"]

CONSTANTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Unilateral contributions that span a silo's stake."""


@dataclass(frozen=True)
class Played:
    """Learnt play in earnest: [seeds, games, …]."""

    payoffs: Float[np.ndarray, "seeds games players"]
    """Long-term, in money per slot."""
    welfare: Float[np.ndarray, "seeds games slots"]
    contributions: Float[np.ndarray, "seeds games slots silos"]
    slot_payoffs: Float[np.ndarray, "seeds games slots silos"]


@dataclass(frozen=True)
class SiloCertificate:
    """What one silo could still gain by deviating alone, in money per slot."""

    silo: int
    payoff: Interval
    gain: Interval
    """Of the best deviation found over what it has learnt; chosen on some games, measured on others."""
    found_by: str
    """What kind of deviation was best, most often."""
    stake: float
    """Spread of its payoff over constant contributions, the others frozen."""

    @property
    def share(self) -> float:
        """Gain as a share of the stake."""
        return max(self.gain.mean, 0.0) / self.stake if self.stake > 0 else 0.0


@dataclass(frozen=True)
class Certificate:
    """NashConv and what every result must carry."""

    silos: list[SiloCertificate]
    welfare: Interval
    """Per slot, undiscounted."""
    budget_residual: float
    seeds: int
    games: int

    @property
    def nash_conv(self) -> float:
        """Σ_n gain_n."""
        return sum(max(silo.gain.mean, 0.0) for silo in self.silos)

    @property
    def share(self) -> float:
        """NashConv as a share of the stakes."""
        stakes = sum(silo.stake for silo in self.silos)
        return self.nash_conv / stakes if stakes > 0 else 0.0


def evaluate(
    environment: Environment,
    learner: Learner,
    learned: Any,
    discount: float,
    games: int,
    forced: Float[Array, "players action"] | None = None,
) -> Played:
    """Play `games` games of every seed without exploring; the same luck whoever is forced to whatever."""
    payoffs, report = _evaluate(environment, learner, learned, discount, games, forced)
    numbers = (np.asarray(part) for part in (payoffs, report.welfare, report.contributions, report.payoffs))
    return Played(*numbers)


@eqx.filter_jit
def _evaluate(
    environment: Environment, learner: Learner, learned: Any, discount: float, games: int, forced: Array | None
) -> tuple[Array, Any]:
    keys = jax.random.split(jax.random.key(2**31), games)

    def seed(environment: Environment, learned: Any) -> tuple[Array, Any]:
        payoffs, report = jax.vmap(lambda key: episode(environment, learner, learned, key, forced))(keys)
        return jax.vmap(lambda game: long_term(game, discount))(payoffs), report

    played: tuple[Array, Any] = eqx.filter_vmap(seed)(environment, learned)
    return played


def certify(
    run: Trained, *, games: int = 128, slots: int = 20_000, progress: Callable[[str], None] = lambda _: None
) -> Certificate:
    """Certify learnt play. `slots` is the budget of each trained deviator."""
    environment, learner, learned = run.seated.environment, run.seated.learner, run.runs.learned
    discount = run.plan.scenario.discount
    players = environment.players
    free = jnp.full((players, environment.action_size), jnp.nan)
    progress("play")
    own = evaluate(environment, learner, learned, discount, games, free)
    deviations: dict[str, Float[np.ndarray, "seeds games players"]] = {}
    for constant in CONSTANTS:
        progress(f"constant {constant:g}")
        forced = [
            evaluate(environment, learner, learned, discount, games, free.at[n].set(constant)) for n in range(players)
        ]
        deviations[f"constant {constant:g}"] = np.stack([p.payoffs[..., n] for n, p in enumerate(forced)], axis=-1)
    constants = np.stack([deviations[f"constant {constant:g}"].mean((0, 1)) for constant in CONSTANTS])
    if isinstance(learner, PolicyGradient):
        progress("trained deviators")
        deviations["trained"] = trained_deviations(run, games, slots)
    if isinstance(run.plan.scenario.precision, CurvePrecision):
        progress("best plans")
        deviations["plan"] = planned_deviations(run, games)
    kinds, values = list(deviations), np.stack(list(deviations.values()))
    half = games // 2
    choice = values[:, :, :half].mean(2).argmax(0)
    chosen = np.take_along_axis(values[:, :, half:].mean(2), choice[None], axis=0)[0]
    gains = np.maximum(chosen - own.payoffs[:, half:].mean(1), 0.0)
    spread = constants.max(0) - constants.min(0)
    return Certificate(
        silos=[
            SiloCertificate(
                silo=n,
                payoff=interval(own.payoffs[..., n].mean(1)),
                gain=interval(gains[:, n]),
                found_by=kinds[int(np.bincount(choice[:, n]).argmax())],
                stake=float(spread[n]),
            )
            for n in range(players)
        ],
        welfare=interval(own.welfare.mean((1, 2))),
        budget_residual=float(np.abs(own.slot_payoffs.sum(-1) - own.welfare).max()),
        seeds=len(own.payoffs),
        games=games,
    )


def trained_deviations(run: Trained, games: int, slots: int) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of a learner that starts from each silo's own policy and trains against the frozen others."""
    environment, learned = run.seated.environment, run.runs.learned
    learner = run.seated.learner
    assert isinstance(learner, PolicyGradient)
    plan, players, seeds = run.plan, environment.players, run.plan.seeds
    pairs = [(seed, n) for seed in range(seeds) for n in range(players)]
    arenas = side_by_side([_arena(environment, learner, learned, seed, n) for seed, n in pairs])
    windows = max(slots // (plan.games * plan.depth), 1)
    deviator = _for_deviators(learner, windows)
    identities = jnp.arange(len(pairs))
    runs = begin(arenas, deviator, identities, plan.games)
    warm = jax.tree.map(lambda leaf: leaf.reshape(seeds * players, 1, *leaf.shape[2:]), learned)
    fresh = runs.learned
    start = eqx.tree_at(
        lambda known: (known.actor, known.critic, known.observations, known.sights, known.payoffs),
        fresh,
        (warm.actor, warm.critic, warm.observations, warm.sights, warm.payoffs),
    )
    runs = eqx.tree_at(lambda r: r.learned, runs, start)
    mesh = mesh_for(plan.games)
    runs, _ = train((arenas, deviator, identities, mesh, plan.depth, windows), runs, jnp.asarray(0))
    played = evaluate(arenas, deviator, runs.learned, plan.scenario.discount, games)
    return np.moveaxis(played.payoffs[..., 0].reshape(seeds, players, games), 1, 2)


def _arena(environment: Environment, learner: Learner, learned: Any, seed: int, player: int) -> Against:
    arrays, rest = eqx.partition(environment, eqx.is_array)
    one = eqx.combine(jax.tree.map(lambda leaf: leaf[seed], arrays), rest)
    return Against(one, learner, jax.tree.map(lambda leaf: leaf[seed], learned), jnp.asarray(player))


def _for_deviators(learner: PolicyGradient, windows: int) -> PolicyGradient:
    changed: PolicyGradient = eqx.tree_at(lambda at: at.updates, learner, jnp.asarray(windows))
    return changed


def planned_deviations(run: Trained, games: int, steps: int = 200) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of the best plan d_n[1…T] found by ascent from four starts, the others reacting as they learnt.

    On the curve nothing but C is random, so a plan can be as good as any policy.
    """
    environment, learner, learned = run.seated.environment, run.seated.learner, run.runs.learned
    players, seeds, discount = environment.players, run.plan.seeds, run.plan.scenario.discount
    pairs = [(seed, n) for seed in range(seeds) for n in range(players)]
    arenas = side_by_side([_arena(environment, learner, learned, seed, n) for seed, n in pairs])
    values = _plans(arenas, discount, games, steps)
    return np.moveaxis(np.asarray(values).reshape(seeds, players, games), 1, 2)


@eqx.filter_jit
def _plans(arenas: Against, discount: float, games: int, steps: int) -> Float[Array, "pairs games"]:
    optimiser = optax.adam(0.05)
    keys = jax.random.split(jax.random.key(2**31), games)

    def worth(arena: Against, plan: Float[Array, " slots"], key: Array) -> Float[Array, ""]:
        resetting, stepping = jax.random.split(key)

        def slot(state: Any, at: tuple[Array, Array]) -> tuple[Any, Array]:
            state, payoff, _ = arena.step(state, at[0][None, None], at[1])
            return state, payoff

        keys = jax.random.split(stepping, arena.horizon)
        payoffs = jax.lax.scan(slot, arena.reset(resetting), (plan, keys))[1]
        return long_term(payoffs, discount)[0]

    def climb(arena: Against, begun: Float[Array, " slots"]) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            plan, memory = carry
            slope = jax.grad(lambda p: worth(arena, p, keys[0]))(plan)
            change, memory = optimiser.update(-slope, memory)
            return (jnp.clip(plan + change, 0, 1), memory), None

        plan = jax.lax.scan(step, (begun, optimiser.init(begun)), None, steps)[0][0]
        return plan, worth(arena, plan, keys[0])

    def best(arena: Against) -> Float[Array, " games"]:
        slots = jnp.arange(arena.horizon) / max(arena.horizon - 1, 1)
        starts = jnp.stack([jnp.full(arena.horizon, 0.1), jnp.full(arena.horizon, 0.5), jnp.full(arena.horizon, 0.9),
                            1 - slots])  # fmt: skip
        plans, reached = jax.vmap(lambda begun: climb(arena, begun))(starts)
        plan = plans[jnp.argmax(reached)]
        return jax.vmap(lambda key: worth(arena, plan, key))(keys)

    found: Float[Array, "pairs games"] = eqx.filter_vmap(best)(arenas)
    return found
