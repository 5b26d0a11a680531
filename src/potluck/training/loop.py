"""The compiled loop: windows of play, then learning, for seeds side by side and games spread over devices.

Games go in step: all of a run begin and end together, so a slot's number belongs to the run and starting afresh is a
real branch. Every random draw comes from (seed, slot, game), so neither devices nor interruptions change any.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from potluck.agents.environment import Environment
from potluck.agents.learner import Act, Learner, Window
from potluck.federation.runs import mesh_over

__all__ = ["AXIS", "Course", "Runs", "begin", "first", "mesh_for", "place", "side_by_side", "train"]

AXIS = "games"
BEFORE = 2**32 - 1
"""A slot that no run reaches: its key draws what there is before the first one."""
Played = TypeVar("Played", bound=Environment)


class Runs(eqx.Module):
    """Where training stands. Leaves of `learned` are [seeds, players, …], of the others [seeds, games, …]."""

    learned: Any
    states: Any
    recall: Any


class Course(eqx.Module):
    """What stays the same while a run goes on; arrays of the environment have a leading axis of seeds."""

    environment: Environment
    learner: Learner
    seeds: Int[Array, " seeds"]
    mesh: Mesh
    games: int
    slots: int
    """In a window."""
    windows: int
    """In a call of `train`."""


SPECS = Runs(learned=P(), states=P(None, AXIS), recall=P(None, AXIS))


def mesh_for(games: int) -> Mesh:
    """As many devices as divide the games evenly."""
    return mesh_over(games, AXIS)


def side_by_side(environments: Sequence[Played]) -> Played:
    """One environment whose arrays have a leading axis of seeds."""
    arrays, rest = zip(*(eqx.partition(one, eqx.is_array) for one in environments), strict=True)
    joined: Played = eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), rest[0])
    return joined


def begin(environment: Environment, learner: Learner, seeds: Int[Array, " seeds"], games: int) -> Runs:
    """Everyone before the first slot; `environment` has a leading axis of seeds."""
    return place(_first(jax.default_backend())(environment, learner, seeds, games), mesh_for(games))


def first(environment: Environment, learner: Learner, seeds: Int[Array, " seeds"], games: int) -> Runs:
    """Fresh learners, fresh games."""

    def one(environment: Environment, seed: Int[Array, ""]) -> Runs:
        learning, playing = jax.random.split(jax.random.fold_in(jax.random.key(seed), BEFORE))
        learned = jax.vmap(learner.init)(jax.random.split(learning, environment.players))
        states = jax.vmap(environment.reset)(jax.random.split(playing, games))
        recall = jax.vmap(learner.rest, axis_size=environment.players)(learned)
        recall = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (games, *leaf.shape)), recall)
        return Runs(learned, states, recall)

    # A checkpoint reads back with strong types: begun so, a run and its resumption are one program.
    begun: Runs = jax.tree.map(
        lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), eqx.filter_vmap(one)(environment, seeds)
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
def train(course: Course, runs: Runs, slot: Int[Array, ""]) -> tuple[Runs, Any, Bool[Array, "times seeds players"]]:
    """Several windows of play and learning.

    What is reported are means over games and slots, [windows, seeds, …], and of every player whether all that it knew
    was finite, before each window and after the last: who breaks down spoils the others' payoffs, and so them, one
    window later.
    """
    arrays, rest = eqx.partition((course.environment, course.learner), eqx.is_array)
    whole = P()

    def here(arrays: Any, seeds: Int[Array, " seeds"], runs: Runs, slot: Int[Array, ""]) -> tuple[Runs, Any]:
        environment, learner = eqx.combine(arrays, rest)

        def one(runs: Runs, at: Int[Array, ""]) -> tuple[Runs, Any]:
            sound = _sound(runs.learned, (len(seeds), environment.players))
            axes = (eqx.if_array(0), None, 0, 0, None, None, None)
            runs, means = eqx.filter_vmap(window, in_axes=axes)(
                environment, learner, seeds, runs, at, course.games // course.mesh.size, course.slots
            )
            return runs, (means, sound)

        runs, (means, sound) = jax.lax.scan(one, runs, slot + course.slots * jnp.arange(course.windows))
        after = _sound(runs.learned, (len(seeds), environment.players))
        return runs, (means, jnp.concatenate([sound, after[None]]))

    runs, (means, sound) = jax.shard_map(
        here, mesh=course.mesh, in_specs=(whole, whole, SPECS, whole), out_specs=(SPECS, whole), check_vma=False
    )(arrays, course.seeds, runs, slot)
    return runs, means, sound


def _sound(learned: Any, shape: tuple[int, int]) -> Bool[Array, "seeds players"]:
    """Whose numbers are all numbers. −∞ is one: what Greedy has earned before its first slot."""
    sound = jnp.ones(shape, bool)
    for leaf in jax.tree.leaves(eqx.filter(learned, eqx.is_inexact_array)):
        sound &= (jnp.isfinite(leaf) | (leaf == -jnp.inf)).reshape(*shape, -1).all(-1)
    return sound


def window(
    environment: Environment,
    learner: Learner,
    seed: Int[Array, ""],
    runs: Runs,
    slot: Int[Array, ""],
    games: int,
    slots: int,
) -> tuple[Runs, Any]:
    """Play `slots` slots in each of the `games` here, then let every player learn from them."""
    key, learned = jax.random.key(seed), runs.learned
    identity = games * jax.lax.axis_index(AXIS) + jnp.arange(games)
    rest = jax.vmap(learner.rest, axis_size=environment.players)(learned)
    slots_ahead = slot + jnp.arange(slots)
    first, last = slots_ahead % environment.horizon == 0, (slots_ahead + 1) % environment.horizon == 0

    def act(recall: Any, observation: Float[Array, "players observation"], key: PRNGKeyArray) -> tuple[Any, Act]:
        keys = jax.random.split(key, environment.players)
        acted: tuple[Any, Act] = jax.vmap(learner.act)(learned, recall, observation, keys)
        return acted

    def play(carry: tuple[Any, Any], at: tuple[Array, Array]) -> tuple[tuple[Any, Any], tuple[Any, ...]]:
        states, recall = carry
        number, begins = at
        keys = jax.vmap(lambda game: jax.random.fold_in(jax.random.fold_in(key, number), game))(identity)
        starting, acting, stepping = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(keys)
        states = jax.lax.cond(begins, jax.vmap(environment.reset), lambda _: states, starting)
        recall = jax.tree.map(lambda new, old: jnp.where(begins, new, old), rest, recall)
        observation = jax.vmap(environment.observe)(states)
        recall, acts = jax.vmap(act)(recall, observation, acting)
        states, payoff, report = jax.vmap(environment.step)(states, acts.action, stepping)
        return (states, recall), (observation, acts, payoff, report)

    (states, recall), (observation, acts, payoff, report) = jax.lax.scan(
        play, (runs.states, runs.recall), (slots_ahead, first)
    )
    after = jax.vmap(environment.observe)(states)

    def sight(observation: Float[Array, "... players observation"]) -> Float[Array, "... players sight"]:
        if not learner.central:
            return observation
        joint = observation.reshape(*observation.shape[:-2], 1, -1)
        return jnp.broadcast_to(joint, (*observation.shape[:-1], joint.shape[-1]))

    def by_player(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, (0, 1, 2), (2, 1, 0)), tree)

    stored = Window(
        observation=by_player(observation),
        sight=by_player(sight(observation)),
        act=by_player(acts),
        payoff=by_player(payoff),
        first=first,
        last=last,
        sight_after=jnp.swapaxes(sight(after), 0, 1),
        recall=jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), runs.recall),
        recall_after=jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), recall),
    )
    axes = Window(0, 0, 0, 0, None, None, 0, 0, 0)  # type: ignore[arg-type]
    learned, recall = jax.vmap(learner.update, in_axes=(0, axes))(learned, stored)
    recall = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), recall)
    means = jax.tree.map(lambda leaf: jax.lax.pmean(leaf.mean((0, 1)), AXIS), report)
    return Runs(learned, states, recall), means
