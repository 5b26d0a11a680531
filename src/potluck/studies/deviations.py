"""Learnt play in earnest, and what one silo would earn by deviating from it alone.

Whoever deviates and however, the games are the same: same keys, same draws, so differences are not luck.
"""

import operator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from potluck.agents import Environment, Learned, Learner, Options, PolicyGradient, agent
from potluck.game import Planner
from potluck.studies.planning import Watcher, climb, follow, plan_for_all
from potluck.training.loop import AXIS, Course, begin, mesh_for, place, train
from potluck.training.opponents import Against
from potluck.training.plan import CHUNK
from potluck.training.play import episode, long_term
from potluck.training.run import Trained

__all__ = [
    "CONSTANTS",
    "Played",
    "constant_deviations",
    "evaluate",
    "in_earnest",
    "planned_deviations",
    "planned_for_all",
    "trained_deviations",
]

CONSTANTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Unilateral contributions that span a silo's stake."""
OTHER_LUCK = 2**31
"""Where deviators' seeds begin, far from those that the others learnt with."""


@dataclass(frozen=True)
class Played:
    """Learnt play in earnest: [seeds, games, …]."""

    payoffs: Float[np.ndarray, "seeds games players"]
    """Long-term, in money per slot."""
    welfare: Float[np.ndarray, "seeds games slots"]
    contributions: Float[np.ndarray, "seeds games slots silos"]
    slot_payoffs: Float[np.ndarray, "seeds games slots silos"]


def in_earnest(run: Trained, games: int) -> Played:
    """Play what a run has learnt."""
    free = jnp.full((run.seated.environment.players, run.seated.environment.action_size), jnp.nan)
    return _forced(run, games, free)


def evaluate(
    environment: Environment,
    learner: Learner,
    learned: Any,
    discount: float,
    games: int,
    forced: Float[Array, "players action"] | None = None,
) -> Played:
    """Play `games` games of every seed without exploring; the same luck whoever is forced to whatever."""
    payoffs, report = _evaluate(environment, learner, learned, discount, games, forced, mesh_for(games))
    numbers = (np.asarray(part) for part in (payoffs, report.welfare, report.contributions, report.payoffs))
    return Played(*numbers)


@eqx.filter_jit
def _evaluate(
    environment: Environment,
    learner: Learner,
    learned: Any,
    discount: float,
    games: int,
    forced: Array | None,
    mesh: Mesh,
) -> tuple[Array, Any]:
    by_seed, still = eqx.partition((environment, learned), eqx.is_array)
    shared, rest = eqx.partition((learner, forced), eqx.is_array)

    def here(by_seed: Any, shared: Any, keys: Array) -> tuple[Array, Any]:
        learner, forced = eqx.combine(shared, rest)

        def seed(arrays: Any) -> tuple[Array, Any]:
            environment, learned = eqx.combine(arrays, still)
            payoffs, report = jax.vmap(lambda key: episode(environment, learner, learned, key, forced))(keys)
            return jax.vmap(lambda game: long_term(game, discount))(payoffs), report

        played: tuple[Array, Any] = jax.lax.map(seed, by_seed)
        return played

    spread = jax.shard_map(here, mesh=mesh, in_specs=(P(), P(), P(AXIS)), out_specs=P(None, AXIS), check_vma=False)
    played: tuple[Array, Any] = spread(by_seed, shared, _luck(games))
    return played


def _luck(games: int) -> Array:
    """The games that everything here is measured in; no training seed's own."""
    return jax.random.split(jax.random.fold_in(jax.random.key(0), 2**31 - 1), games)


def constant_deviations(run: Trained, games: int, watch: Watcher) -> Float[np.ndarray, "constants seeds games players"]:
    """Payoff of each silo when it alone keeps to each of the constants."""
    players = run.seated.environment.players
    free = jnp.full((players, run.seated.environment.action_size), jnp.nan)
    found = []
    for row, constant in enumerate(CONSTANTS):
        watch("constant deviations", row / len(CONSTANTS))
        each = [_forced(run, games, free.at[n].set(constant)).payoffs[..., n] for n in range(players)]
        found.append(np.stack(each, axis=-1))
    return np.stack(found)


def _forced(run: Trained, games: int, forced: Float[Array, "players action"]) -> Played:
    seated, discount = run.seated, run.plan.scenario.discount
    return evaluate(seated.environment, seated.learner, run.runs.learned, discount, games, forced)


def trained_deviations(
    run: Trained, games: int, slots: int, watch: Watcher
) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of a learner that trains `slots` slots against the frozen others, starting from what its silo knows."""
    plan, players, learned = run.plan, run.seated.environment.players, run.runs.learned
    windows = -(-slots // (plan.games * plan.depth))
    chunk = min(CHUNK, windows)
    chunks, mesh = -(-windows // chunk), mesh_for(plan.games)
    found = []
    for n in range(players):
        arena = _against(run, n)
        deviator = _deviator(run, arena, chunks * chunk)
        identities = jnp.asarray(OTHER_LUCK + n * plan.seeds + np.arange(plan.seeds), jnp.uint32)
        runs = begin(arena, deviator, identities, plan.games)
        knows = _warm(runs.learned, jax.tree.map(lambda leaf, n=n: leaf[:, n : n + 1], learned))
        runs = place(eqx.tree_at(lambda at: at.learned, runs, knows), mesh)
        course = Course(arena, deviator, identities, mesh, plan.games, plan.depth, chunk)
        for done in range(chunks):
            watch("trained deviators", (n + done / chunks) / players)
            runs, _, _ = train(course, runs, jnp.asarray(done * plan.depth * chunk))
        found.append(evaluate(arena, deviator, runs.learned, plan.scenario.discount, games).payoffs[..., 0])
    return np.stack(found, axis=-1)


def _against(run: Trained, player: int) -> Against:
    """One silo against the others, every array with a leading axis of seeds."""
    seeds = run.plan.seeds
    arrays, rest = eqx.partition(run.seated.learner, eqx.is_array)
    learner = eqx.combine(jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (seeds, *leaf.shape)), arrays), rest)
    return Against(run.seated.environment, learner, run.runs.learned, jnp.full(seeds, player))


def _deviator(run: Trained, arena: Against, updates: int) -> Learner:
    """MPGD whoever the others are, shaped so that what its silo knows fits; it sees no more than its silo may."""
    learner, options = run.seated.learner, Options()
    if isinstance(learner, PolicyGradient):
        options = Options(policy=learner.policy, memory=learner.memory)
    axis = AXIS if mesh_for(run.plan.games).size > 1 else None
    return agent("mpgd", arena, discount=run.plan.scenario.discount, updates=updates, axis=axis, options=options)


def _warm(fresh: Any, known: Any) -> Any:
    """What the silo knows, where it fits: a central critic does not, and who hardly learns knows nothing."""
    if not isinstance(known, Learned):
        return fresh

    def alike(one: Any, other: Any) -> bool:
        shapes = [jax.tree.map(lambda leaf: leaf.shape, eqx.filter(part, eqx.is_array)) for part in (one, other)]
        return bool(eqx.tree_equal(*shapes))

    for names in (("actor", "observations"), ("critic", "sights", "payoffs")):
        parts = operator.attrgetter(*names)
        if alike(parts(fresh), parts(known)):
            fresh = eqx.tree_at(parts, fresh, parts(known))
    return fresh


def planned_deviations(run: Trained, games: int, watch: Watcher) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of the best plan d_n[1…T] found by ascent on the curve, the others reacting as they learnt."""
    players, discount = run.seated.environment.players, run.plan.scenario.discount
    found = []
    for n in range(players):
        watch("best plans", n / players)
        found.append(np.asarray(_planned(_against(run, n), discount, games)))
    return np.stack(found, axis=-1)


@eqx.filter_jit
def _planned(environments: Environment, discount: float, games: int) -> Float[Array, "seeds games"]:
    keys = _luck(games)

    def best(environment: Environment) -> Float[Array, " games"]:
        plan = climb(environment, discount, jax.random.key(OTHER_LUCK))
        return jax.vmap(lambda key: long_term(follow(environment, plan, key)[0], discount)[0])(keys)

    found: Float[Array, "seeds games"] = eqx.filter_vmap(best)(environments)
    return found


def planned_for_all(run: Trained, games: int, watch: Watcher) -> Played:
    """A planner's play: the best plan for all silos that was found, in the same games; one seed stands for all."""
    planner, plan = plan_for_all(run, watch)
    payoffs, report = _followed(planner, plan, games, mesh_for(games))
    long = jax.vmap(lambda game: long_term(game, run.plan.scenario.discount))(payoffs)
    return Played(*(np.asarray(part)[None] for part in (long, report.welfare, report.contributions, report.payoffs)))


@eqx.filter_jit
def _followed(planner: Planner, plan: Float[Array, "slots silos"], games: int, mesh: Mesh) -> tuple[Array, Any]:
    def here(keys: Array) -> tuple[Array, Any]:
        return jax.vmap(lambda key: follow(planner, plan, key))(keys)

    spread = jax.shard_map(here, mesh=mesh, in_specs=P(AXIS), out_specs=P(AXIS), check_vma=False)
    played: tuple[Array, Any] = spread(_luck(games))
    return played
