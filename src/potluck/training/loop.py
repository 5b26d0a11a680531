"""The compiled loop: windows of play, then learning, for lanes side by side and games spread over devices.

Games go in step: all of a run begin and end together, so a slot's number belongs to the run and starting afresh is a
real branch. Every random draw comes from (seed, slot, game), so neither devices nor interruptions change any.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from potluck.agents import Act, Environment, Learner, Public, Seated, Window
from potluck.devices import GAMES, device_index, everywhere, gathered, mesh_over
from potluck.training.lanes import Lanes, each_lane

BEFORE = 2**32 - 1
"""A slot that no run reaches: its key draws what there is before the first one."""


class Setup(eqx.Module):
    """What is played, and how every player of it learns."""

    environment: Environment[Any, Any]
    learner: Learner[Any, Any]


class Runs(eqx.Module):
    """Where training stands. Leaves of `agents` are [lanes, players, …], of the others [lanes, games, …]."""

    agents: Any
    states: Any
    memory: Any


class TrainConfig(eqx.Module):
    """What stays the same while runs go on."""

    setup: Lanes[Setup]
    seeds: UInt32[Array, " lanes"]
    mesh: Mesh
    games: int
    slots: int
    """In a window."""
    windows: int
    """In a call of `train`."""


class Outcome(eqx.Module):
    """What happened in each window."""

    report: Any
    """Means over games and slots of what the environment reports, [windows, lanes, …]."""
    diagnostics: dict[str, Float[Array, "windows lanes players"]]
    finite: Bool[Array, "times lanes players"]
    """Whether all that a player knew was finite, before each window and after the last: who breaks down spoils the
    others' payoffs, and so them, one window later."""
    agreed: Bool[Array, ""]
    """Whether what is learnt is the same on all devices that share the games, but for rounding."""


SPECS = Runs(agents=P(), states=P(None, GAMES), memory=P(None, GAMES))


def begin(setup: Lanes[Setup], seeds: UInt32[Array, " lanes"], games: int) -> Runs:
    """Everyone before the first slot, where `train` wants them."""
    return place(fresh(setup, seeds, games), mesh_over(games))


def fresh(setup: Lanes[Setup], seeds: UInt32[Array, " lanes"], games: int) -> Runs:
    """`first`, compiled."""
    return _first(jax.default_backend())(setup, seeds, games)


def first(setup: Lanes[Setup], seeds: UInt32[Array, " lanes"], games: int) -> Runs:
    """Fresh learners, fresh games."""

    def one(setup: Setup, seed: UInt32[Array, ""]) -> Runs:
        environment, learner = setup.environment, setup.learner
        learning, playing = jax.random.split(jax.random.fold_in(jax.random.key(seed), BEFORE))
        agents = jax.vmap(learner.init)(jax.random.split(learning, environment.players))
        if isinstance(learner, Seated):
            agents = jax.vmap(learner.seated)(agents, jnp.arange(environment.players))
        states = jax.vmap(environment.reset)(jax.random.split(playing, games))
        memory = jax.vmap(learner.initial_memory, axis_size=environment.players)(agents)
        memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (games, *leaf.shape)), memory)
        return Runs(agents, states, memory)

    # A checkpoint reads back with strong types: begun so, a run and its resumption are one program.
    begun: Runs = jax.tree.map(
        lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), each_lane(one, setup, seeds)
    )
    return begun


@functools.cache
def _first(backend: str) -> Callable[..., Runs]:
    """`first`, compiled to run once: on a CPU, LLVM takes 20 s to optimise its many small draws, and saves nothing."""
    options: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 0}} if backend == "cpu" else {}
    return eqx.filter_jit(first, **options)


def place(runs: Runs, mesh: Mesh) -> Runs:
    """Games to their devices, what is learnt to all of them: where `train` leaves them, so it compiles once."""
    placed: Runs = jax.tree.map(
        lambda spec, part: jax.device_put(part, NamedSharding(mesh, spec)), SPECS, runs, is_leaf=lambda x: x is None
    )
    return placed


@eqx.filter_jit(donate="all-except-first")
def train(config: TrainConfig, runs: Runs, slot: Int[Array, ""]) -> tuple[Runs, Outcome]:
    """Several windows of play and learning, from a slot on."""
    arrays, rest = eqx.partition(config.setup, eqx.is_array)
    games, replicated = config.games // config.mesh.size, P()

    def here(arrays: Any, seeds: UInt32[Array, " lanes"], runs: Runs, slot: Int[Array, ""]) -> tuple[Runs, Outcome]:
        setup: Lanes[Setup] = eqx.combine(arrays, rest)
        shape = len(seeds), setup.tree.environment.players

        def one(runs: Runs, at: Int[Array, ""]) -> tuple[Runs, tuple[Any, Any, Any]]:
            finite = _finite(runs.agents, shape)
            play = functools.partial(window, slot=at, games=games, slots=config.slots)
            runs, report, diagnostics = each_lane(play, setup, seeds, runs)
            return runs, (report, diagnostics, finite)

        slots = slot + config.slots * jnp.arange(config.windows)
        runs, (report, diagnostics, finite) = jax.lax.scan(one, runs, slots)
        after = _finite(runs.agents, shape)
        return runs, Outcome(report, diagnostics, jnp.concatenate([finite, after[None]]), _agreed(runs.agents))

    return jax.shard_map(
        here,
        mesh=config.mesh,
        in_specs=(replicated, replicated, SPECS, replicated),
        out_specs=(SPECS, replicated),
        check_vma=False,
    )(arrays, config.seeds, runs, slot)


def _finite(agents: Any, shape: tuple[int, int]) -> Bool[Array, "lanes players"]:
    """Whose numbers are all numbers. −∞ is one: what Greedy has earned before its first slot."""
    finite = jnp.ones(shape, bool)
    for leaf in jax.tree.leaves(eqx.filter(agents, eqx.is_inexact_array)):
        finite &= (jnp.isfinite(leaf) | (leaf == -jnp.inf)).reshape(*shape, -1).all(-1)
    return finite


def _agreed(agents: Any) -> Bool[Array, ""]:
    """Whether no number differs between devices by a thousandth of the largest beside it."""
    agreed = jnp.asarray(True)
    for leaf in jax.tree.leaves(eqx.filter(agents, eqx.is_inexact_array)):
        everyone = jnp.where(jnp.isfinite(leaf), leaf, 0.0)
        apart = jnp.abs(everyone - gathered(everyone)[0])
        agreed &= jnp.max(apart, initial=0.0) <= 1e-3 * jnp.max(jnp.abs(everyone), initial=0.0)
    return jnp.all(gathered(agreed))


def window(
    setup: Setup, seed: UInt32[Array, ""], runs: Runs, *, slot: Int[Array, ""], games: int, slots: int
) -> tuple[Runs, Any, dict[str, Float[Array, " players"]]]:
    """Play `slots` slots in each of the `games` here, then let every player learn from them."""
    environment, learner = setup.environment, setup.learner
    key, agents = jax.random.key(seed), runs.agents
    identity = games * device_index() + jnp.arange(games)
    initial = jax.vmap(learner.initial_memory, axis_size=environment.players)(agents)
    slots_ahead = slot + jnp.arange(slots)
    first, last = slots_ahead % environment.horizon == 0, (slots_ahead + 1) % environment.horizon == 0

    def act(memory: Any, observation: Float[Array, "players observation"], key: PRNGKeyArray) -> tuple[Any, Act]:
        keys = jax.random.split(key, environment.players)
        acted: tuple[Any, Act] = jax.vmap(learner.act)(agents, memory, observation, keys)
        return acted

    def play(carry: tuple[Any, Any], at: tuple[Array, Array]) -> tuple[tuple[Any, Any], tuple[Any, ...]]:
        states, memory = carry
        number, begins = at
        keys = jax.vmap(lambda game: jax.random.fold_in(jax.random.fold_in(key, number), game))(identity)
        starting, acting, stepping = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(keys)
        states = jax.lax.cond(begins, jax.vmap(environment.reset), lambda _: states, starting)
        memory = jax.tree.map(lambda new, old: jnp.where(begins, new, old), initial, memory)
        observation = jax.vmap(environment.observe)(states)
        memory, acts = jax.vmap(act)(memory, observation, acting)
        states, payoff, report = jax.vmap(environment.step)(states, acts.action, stepping)
        return (states, memory), (observation, acts, payoff, report)

    (states, memory), (observation, acts, payoff, report) = jax.lax.scan(
        play, (runs.states, runs.memory), (slots_ahead, first)
    )
    after = jax.vmap(environment.observe)(states)

    def by_player(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, (0, 1, 2), (2, 1, 0)), tree)

    def players_first(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), tree)

    stored: Window[Any] = Window(
        observation=by_player(observation),
        critic_observation=by_player(_critics_observe(learner, observation)),
        act=by_player(acts),
        payoff=by_player(payoff),
        first=first,
        last=last,
        critic_observation_after=players_first(_critics_observe(learner, after)),
        memory=players_first(runs.memory),
        memory_after=players_first(memory),
    )
    for_all = eqx.tree_at(lambda w: (w.first, w.last), jax.tree.map(lambda _: 0, stored), (None, None))
    update = learner.update
    if isinstance(learner, Public):
        state, seen = jax.tree.map(lambda leaf: leaf[0], (agents, stored))
        known = learner.public(state, eqx.tree_at(lambda w: (w.first, w.last), seen, (first, last)))
        update = functools.partial(learner.updated, known=known)
    agents, memory, diagnostics = jax.vmap(update, in_axes=(0, for_all))(agents, stored)
    means = jax.tree.map(lambda leaf: everywhere(leaf.mean((0, 1))), report)
    return Runs(agents, states, players_first(memory)), means, jax.tree.map(everywhere, dict(diagnostics))


def _critics_observe(
    learner: Learner[Any, Any], observation: Float[Array, "*batch players observation"]
) -> Float[Array, "*batch players critic_observation"]:
    """What each player observes, or for a central critic what all of them do."""
    if not learner.central:
        return observation
    joint = observation.reshape(*observation.shape[:-2], 1, -1)
    return jnp.broadcast_to(joint, (*observation.shape[:-1], joint.shape[-1]))
