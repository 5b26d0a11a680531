"""Evaluation of learnt play, and what one silo would earn by deviating from it alone.

Whoever deviates and however, the games are the same: same keys, same draws, so differences are not luck.
"""

import operator
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
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
from potluck.studies.followers import Around, Follower, followers
from potluck.studies.imagination import Imagination, responses
from potluck.studies.planning import QUICK, Effort, Plan, Watcher, climb, follow, plan_for_all
from potluck.studies.reacting import reacted, reacting
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
    """In a game that is no federation nothing is transferred, and neither precision nor a signal is a number."""
    signals: Float[np.ndarray, "seeds games slots"]

    @property
    def mean_play(self) -> Float[np.ndarray, "seeds slots silos"]:
        """As a plan: what is contributed on average."""
        return np.asarray(self.contributions.mean(1))


def only(played: Played, seed: int) -> Played:
    """One seed's play."""
    return Played(*(getattr(played, field.name)[seed : seed + 1] for field in fields(played)))


def _played(payoffs: Array, report: Any) -> Played:
    """Long-term payoffs and what the slots reported, off the device."""
    unknown = np.full_like(report.welfare, np.nan)
    none = {"precision": unknown, "transfers": np.zeros_like(report.payoffs), "signal": unknown}
    names = ("welfare", "precision", "contributions", "payoffs", "transfers", "signal")
    told = (none[name] if getattr(report, name) is None else getattr(report, name) for name in names)
    return Played(*map(np.asarray, (payoffs, *told)))


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


def imagined_deviations(
    run: Trained, own: Played, imagination: Imagination, games: int, watch: Watcher
) -> tuple[Float[np.ndarray, "seeds games players"], Float[Array, "seeds slots silos"]]:
    """Payoff of the best plan of each silo that was imagined, the others as they play on average; played among the
    others as they are. And the plans.

    Silos imagine twice, the second time after games near what seemed best. Of a bold and a careful plan that which
    earns more in half of the games is taken: the half in which deviations are chosen, not that in which they are
    measured.
    """
    paid, plays = run.config.agent != "wpr", jnp.asarray(own.mean_play)
    signals, silos = jnp.asarray(own.signals.mean(1)), range(own.mean_play.shape[2])
    imagination.survey()
    watch("imagined deviations", 0.0)
    imagination.near(plays)
    first = responses(imagination.model(paid=paid), plays, signals, plays)
    watch("imagined deviations", 0.3)
    alone = [plays.at[..., n].set(plans[..., n]) for plans in first for n in silos]
    imagination.near(jnp.concatenate(alone))
    second = responses(imagination.model(paid=paid), plays, signals, first[0])
    watch("imagined deviations", 0.6)
    bold, careful = (np.stack([kept_to(run, n, plans[..., n], games) for n in silos], -1) for plans in second)
    better = (bold - careful)[:, : games // 2].mean(1, keepdims=True) > 0
    return np.where(better, bold, careful), jnp.where(better, *second)


def kept_to(
    run: Trained, player: int, plans: Float[Array, "seeds slots"], games: int
) -> Float[np.ndarray, "seeds games"]:
    """Payoff of one silo that keeps to a plan, the others as they learnt."""
    setups = [Setup(arena, Follower(plans.shape[1])) for arena in _arenas(run, player)]
    return evaluate(stack(setups), followers(plans[..., None]), run.config.scenario.discount, games).payoffs[..., 0]


def trained_deviations(
    run: Trained, games: int, slots: int, watch: Watcher, around: Float[Array, "seeds slots silos"] | None = None
) -> Float[np.ndarray, "seeds games players"]:
    """Payoff of a learner that trains `slots` slots against the frozen others, starting from what its silo knows; who
    knows no policy starts from a plan, and learns what to do otherwise.
    """
    config, players, agents = run.config, run.lanes.tree.environment.players, run.runs.agents
    windows = -(-slots // (config.games * config.depth))
    chunk = min(CHUNK, windows)
    chunks, mesh = -(-windows // chunk), mesh_over(config.games)
    if isinstance(agents, AgentState):
        around = None
    found = []
    for n in range(players):
        lanes = _against(run, n, chunks * chunk, None if around is None else around[..., n])
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


def _arenas(run: Trained, player: int) -> list[Against]:
    """One silo against the others, seed by seed."""
    found = []
    for row in range(run.config.seeds):
        setup, agents = run.lanes.lane(row), jax.tree.map(lambda leaf, row=row: leaf[row], run.runs.agents)
        found.append(Against(setup.environment, setup.learner, agents, jnp.asarray(player)))
    return found


def _against(
    run: Trained, player: int, updates: int = 1, around: Float[Array, "seeds slots"] | None = None
) -> Lanes[Setup]:
    """One silo against the others, a lane per seed: MPGD whoever the others are, shaped so that what its silo knows
    fits; it sees no more than its silo may.
    """
    learner, options, setups = run.lanes.tree.learner, Options(), []
    if isinstance(learner, PolicyGradient):
        options = Options(policy=learner.policy, dnc=learner.dnc)
    for row, against in enumerate(_arenas(run, player)):
        arena = against if around is None else Around(against, around[row])
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


def planned_for_all(
    run: Trained, games: int, watch: Watcher, starts: Sequence[Plan] = (), effort: Effort = QUICK
) -> Played:
    """A planner's play: the best plan for all silos that was found, in the same games; one seed stands for all."""
    return followed(*plan_for_all(run, watch, starts, effort), run.config.scenario.discount, games)


def followed(planner: Planner, plan: Float[Array, "slots silos"], discount: float, games: int) -> Played:
    """A plan for all, played in the games that everything is measured in."""
    return _of_one(*_followed(planner, plan, games, mesh_over(games)), discount)


def _of_one(payoffs: Float[Array, "games slots 1"], report: Any, discount: float) -> Played:
    long = jax.vmap(lambda game: long_term(game, discount))(payoffs)
    return _played(*jax.tree.map(lambda leaf: leaf[None], (long, report)))


def reacting_play(imagination: Imagination, plan: Plan, games: int, watch: Watcher) -> Played:
    """What a planner plays that begins with a plan and reacts to precision, in the same games."""
    feedback = reacting(imagination, plan, watch)
    return _of_one(*reacted(imagination.planner, feedback, _luck(games), mesh_over(games)), imagination.discount)


@eqx.filter_jit
def _followed(planner: Planner, plan: Float[Array, "slots silos"], games: int, mesh: Mesh) -> tuple[Array, Any]:
    def here(keys: Array) -> tuple[Array, Any]:
        return jax.vmap(lambda key: follow(planner, plan, key))(keys)

    sharded = jax.shard_map(here, mesh=mesh, in_specs=P(GAMES), out_specs=P(GAMES), check_vma=False)
    played: tuple[Array, Any] = sharded(_luck(games))
    return played
