"""Evaluation of learnt play, and what one silo would earn by deviating from it alone.

Whoever deviates and however, the games are the same: same keys, same draws, so differences are not luck.
"""

import operator
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from potluck.agents import AGENTS, AgentState, Brief, Options, PolicyGradient
from potluck.devices import GAMES, mesh_over
from potluck.game import Planner
from potluck.studies.planning import Watcher, climb, follow, plan_for_all
from potluck.training.config import CHUNK
from potluck.training.evaluation import episode, long_term
from potluck.training.lanes import Lanes, alike, each_lane, stack
from potluck.training.loop import Setup, TrainConfig, begin, place, train
from potluck.training.opponents import Against
from potluck.training.run import Trained

CONSTANTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Unilateral contributions that span a silo's stake."""
AT_ONCE = 4096
"""Games that an accelerator plays side by side, about."""
OTHER_LUCK = 2**31
"""Where deviators' seeds begin, far from those that the others learnt with."""


@dataclass(frozen=True)
class Played:
    """Learnt play without exploration: [seeds, games, …]."""

    payoffs: Float[np.ndarray, "seeds games players"]
    """Long-term, in money per slot."""
    welfare: Float[np.ndarray, "seeds games slots"]
    precision: Float[np.ndarray, "seeds games slots"]
    contributions: Float[np.ndarray, "seeds games slots silos"]
    slot_payoffs: Float[np.ndarray, "seeds games slots silos"]
    transfers: Float[np.ndarray, "seeds games slots silos"]


def _played(payoffs: Array, report: Any) -> Played:
    """Long-term payoffs and what the slots reported, off the device."""
    parts = (payoffs, report.welfare, report.precision, report.contributions, report.payoffs, report.transfers)
    return Played(*map(np.asarray, parts))


def evaluated(run: Trained, games: int) -> Played:
    """Play what a run has learnt, without exploration."""
    return _forced(run, games, _free(run))


def _free(run: Trained) -> Float[Array, "players action"]:
    environment = run.lanes.tree.environment
    return jnp.full((environment.players, environment.action_size), jnp.nan)


def evaluate(
    lanes: Lanes[Setup], agents: Any, discount: float, games: int, forced: Float[Array, "players action"] | None = None
) -> Played:
    """Play `games` games of every lane without exploration; the same luck whoever is forced to whatever."""
    payoffs, report = _evaluate(lanes, agents, discount, games, forced, mesh_over(games))
    return _played(payoffs, report)


@eqx.filter_jit
def _evaluate(
    lanes: Lanes[Setup], agents: Any, discount: float, games: int, forced: Array | None, mesh: Mesh
) -> tuple[Array, Any]:
    own, common = eqx.partition(lanes.tree, lanes.own)
    shared, rest = eqx.partition((common, forced), eqx.is_array)

    def here(by_lane: Any, shared: Any, keys: Array) -> tuple[Array, Any]:
        common, forced = eqx.combine(shared, rest)

        def lane(arrays: tuple[Any, Any, Array]) -> tuple[Array, Any]:
            own, agents, _ = arrays
            setup: Setup = eqx.combine(own, common)
            payoffs, report = jax.vmap(lambda key: episode(setup, agents, key, forced))(keys)
            return jax.vmap(lambda game: long_term(game, discount))(payoffs), report

        found: tuple[Array, Any] = jax.lax.map(lane, by_lane)
        return found

    sharded = jax.shard_map(here, mesh=mesh, in_specs=(P(), P(), P(GAMES)), out_specs=P(None, GAMES), check_vma=False)
    played: tuple[Array, Any] = sharded((own, agents, jnp.arange(lanes.count)), shared, _luck(games))
    return played


def forced_ways(
    lanes: Lanes[Setup],
    agents: Any,
    forced: Float[np.ndarray, "ways players action"],
    discount: float,
    games: int,
    at_once: int | None = None,
) -> Generator[Played]:
    """Each lane's play where players are forced in several ways (NaN: they choose); ways take the place of seeds.

    An accelerator plays about `at_once` games side by side. Cores are busy with one lane and one way, and then any
    number of them is one program.
    """
    if at_once is None:
        at_once = 1 if jax.default_backend() == "cpu" else AT_ONCE
    ways = len(forced) if len(forced) * games <= at_once else 1
    fit = [some for some in range(1, lanes.count + 1) if lanes.count % some == 0 and some * ways * games <= at_once]
    some = max(fit, default=1)
    for first in range(0, lanes.count, some):
        own = jax.tree.map(lambda leaf, first=first: leaf[first : first + some], agents)
        part = lanes.some(range(first, first + some))
        parts = [
            _forced_ways(part, own, jnp.asarray(forced[way : way + ways]), discount, games, mesh_over(games))
            for way in range(0, len(forced), ways)
        ]
        found = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *parts)
        for lane in range(some):
            yield _played(*jax.tree.map(lambda leaf, lane=lane: leaf[lane], found))


@eqx.filter_jit
def _forced_ways(
    lanes: Lanes[Setup], agents: Any, forced: Array, discount: float, games: int, mesh: Mesh
) -> tuple[Array, Any]:
    arrays, rest = eqx.partition((lanes, agents), eqx.is_array)

    def here(arrays: Any, forced: Array, keys: Array) -> tuple[Array, Any]:
        lanes, agents = eqx.combine(arrays, rest)

        def lane(setup: Setup, agents: Any, _: Array) -> tuple[Array, Any]:  # some agents know nothing at all
            def way(forced: Array) -> tuple[Array, Any]:
                payoffs, report = jax.vmap(lambda key: episode(setup, agents, key, forced))(keys)
                return jax.vmap(lambda game: long_term(game, discount))(payoffs), report

            ways: tuple[Array, Any] = jax.vmap(way)(forced)
            return ways

        return each_lane(lane, lanes, agents, jnp.arange(lanes.count))

    specs = P(), P(), P(GAMES)
    sharded = jax.shard_map(here, mesh=mesh, in_specs=specs, out_specs=P(None, None, GAMES), check_vma=False)
    played: tuple[Array, Any] = sharded(arrays, forced, _luck(games))
    return played


def unilateral(players: int, action_size: int) -> Float[np.ndarray, "ways players action"]:
    """Every constant of every player alone, constants outermost."""
    ways = np.full((len(CONSTANTS), players, players, action_size), np.nan, np.float32)
    for n in range(players):
        ways[:, n, n] = np.array(CONSTANTS)[:, None]
    return ways.reshape(-1, players, action_size)


def _luck(games: int) -> Array:
    """The games that everything here is measured in; no training seed's own."""
    return jax.random.split(jax.random.fold_in(jax.random.key(0), 2**31 - 1), games)


def constant_deviations(run: Trained, games: int, watch: Watcher) -> Float[np.ndarray, "constants seeds games players"]:
    """Payoff of each silo when it alone keeps to each of the constants."""
    free, found = _free(run), []
    for row, constant in enumerate(CONSTANTS):
        watch("constant deviations", row / len(CONSTANTS))
        each = [_forced(run, games, free.at[n].set(constant)).payoffs[..., n] for n in range(len(free))]
        found.append(np.stack(each, axis=-1))
    return np.stack(found)


def _forced(run: Trained, games: int, forced: Float[Array, "players action"]) -> Played:
    return evaluate(run.lanes, run.runs.agents, run.config.scenario.discount, games, forced)


def trained_deviations(
    run: Trained, games: int, slots: int, watch: Watcher
) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of a learner that trains `slots` slots against the frozen others, starting from what its silo knows."""
    config, players, agents = run.config, run.lanes.tree.environment.players, run.runs.agents
    windows = -(-slots // (config.games * config.depth))
    chunk = min(CHUNK, windows)
    chunks, mesh = -(-windows // chunk), mesh_over(config.games)
    found = []
    for n in range(players):
        lanes = _against(run, n, chunks * chunk)
        identities = jnp.asarray(OTHER_LUCK + n * config.seeds + np.arange(config.seeds), jnp.uint32)
        runs = begin(lanes, identities, config.games)
        knows = _warm(runs.agents, jax.tree.map(lambda leaf, n=n: leaf[:, n : n + 1], agents))
        runs = place(eqx.tree_at(lambda at: at.agents, runs, knows), mesh)
        training = TrainConfig(lanes, identities, mesh, config.games, config.depth, chunk)
        for done in range(chunks):
            watch("trained deviators", (n + done / chunks) / players)
            runs, _ = train(training, runs, jnp.asarray(done * config.depth * chunk))
        found.append(evaluate(lanes, runs.agents, config.scenario.discount, games).payoffs[..., 0])
    return np.stack(found, axis=-1)


def _against(run: Trained, player: int, updates: int = 1) -> Lanes[Setup]:
    """One silo against the others, a lane per seed: MPGD whoever the others are, shaped so that what its silo knows
    fits; it sees no more than its silo may.
    """
    setups = []
    for row in range(run.config.seeds):
        setup = run.lanes.lane(row)
        agents = jax.tree.map(lambda leaf, row=row: leaf[row], run.runs.agents)
        arena = Against(setup.environment, setup.learner, agents, jnp.asarray(player))
        learner, options = setup.learner, Options()
        if isinstance(learner, PolicyGradient):
            options = Options(policy=learner.policy, dnc=learner.dnc)
        brief = Brief(arena, run.config.scenario.discount, updates, options)
        setups.append(Setup(arena, AGENTS["mpgd"].build(brief)))
    return stack(setups)


def _warm(fresh: Any, known: Any) -> Any:
    """What the silo knows, where it fits: a central critic does not, and who hardly learns knows nothing."""
    if not isinstance(known, AgentState):
        return fresh
    for names in (("actor", "observations"), ("critic", "critic_observations", "payoffs")):
        parts = operator.attrgetter(*names)
        if alike(parts(fresh), parts(known)):
            fresh = eqx.tree_at(parts, fresh, parts(known))
    return fresh


def planned_deviations(run: Trained, games: int, watch: Watcher) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of the best plan d_n[1…T] found by ascent on the curve, the others reacting as they learnt."""
    players, discount = run.lanes.tree.environment.players, run.config.scenario.discount
    found = []
    for n in range(players):
        watch("best plans", n / players)
        found.append(np.asarray(_planned(_against(run, n), discount, games)))
    return np.stack(found, axis=-1)


@eqx.filter_jit
def _planned(lanes: Lanes[Setup], discount: float, games: int) -> Float[Array, "seeds games"]:
    keys = _luck(games)

    def best(setup: Setup, _: Array) -> Float[Array, " games"]:
        plan = climb(setup.environment, discount, jax.random.key(OTHER_LUCK))
        return jax.vmap(lambda key: long_term(follow(setup.environment, plan, key)[0], discount)[0])(keys)

    return each_lane(best, lanes, jnp.arange(lanes.count))


def planned_for_all(run: Trained, games: int, watch: Watcher) -> Played:
    """A planner's play: the best plan for all silos that was found, in the same games; one seed stands for all."""
    return followed(*plan_for_all(run, watch), run.config.scenario.discount, games)


def followed(planner: Planner, plan: Float[Array, "slots silos"], discount: float, games: int) -> Played:
    """A plan for all, played in the games that everything is measured in."""
    payoffs, report = _followed(planner, plan, games, mesh_over(games))
    long = jax.vmap(lambda game: long_term(game, discount))(payoffs)
    return _played(*jax.tree.map(lambda leaf: leaf[None], (long, report)))


@eqx.filter_jit
def _followed(planner: Planner, plan: Float[Array, "slots silos"], games: int, mesh: Mesh) -> tuple[Array, Any]:
    def here(keys: Array) -> tuple[Array, Any]:
        return jax.vmap(lambda key: follow(planner, plan, key))(keys)

    sharded = jax.shard_map(here, mesh=mesh, in_specs=P(GAMES), out_specs=P(GAMES), check_vma=False)
    played: tuple[Array, Any] = sharded(_luck(games))
    return played
