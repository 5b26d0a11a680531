"""A player that learns a model of any game from its own record, and improves a policy inside it."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jaxtyping import Float
from numpy.testing import assert_allclose, assert_array_equal

import potluck
from potluck.agents import AGENTS, Act, AgentSpec, Brief, Window
from potluck.agents.actors import SlotActor
from potluck.agents.imagination import bounded
from potluck.agents.imagined import AgentState, ImaginedPlay
from potluck.agents.known_games import Cournot, LinearQuadratic, riccati
from potluck.agents.linear import inverse
from potluck.agents.world_model import Record, Slots, World, features, formed, scale_of
from potluck.devices import GAMES, mesh_over
from potluck.training.config import RunConfig, seeds_of, setup_one
from potluck.training.lanes import stack
from potluck.training.loop import Runs, Setup, TrainConfig, fresh, place, train
from potluck.training.run import resume, start
from tests.agents.games import Quadratic

SMALL = {"fit_steps": 8, "ascent_steps": 8, "room": 256, "survey": 32, "members": 2, "units": 8}


def learner_of(game: Any, **changes: Any) -> ImaginedPlay:
    built = AGENTS["mbpg"].build(Brief(game, discount=0.9, updates=10))
    assert isinstance(built, ImaginedPlay)
    return dataclasses.replace(built, **changes)


def learnt(game: Any, learner: ImaginedPlay, windows: int, mesh: Mesh | None = None) -> Any:
    """What the players of one seed know after some windows of 4 games; devices agree on it, and all is finite."""
    lanes, luck, mesh = stack([Setup(game, learner)]), jnp.zeros(1, jnp.uint32), mesh or mesh_over(4)
    training = TrainConfig(lanes, luck, mesh, 4, 8, windows)
    runs, outcome = train(training, place(fresh(lanes, luck, 4), mesh), jnp.asarray(0))
    assert outcome.agreed
    assert outcome.finite.all()
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], runs.agents)


def of_player(agents: Any, player: int) -> list[np.ndarray]:
    return [leaf[player] for leaf in jax.tree.leaves(agents)]


def test_slots_are_as_they_were_played() -> None:
    # games of 3 slots in a window of 5, begun one slot before it
    learner = learner_of(LinearQuadratic(), slots=3)
    seen = jnp.arange(2 * 5 * 2, dtype=float).reshape(2, 5, 2)
    acts = jnp.arange(10, dtype=float).reshape(2, 5, 1) / 10
    once = learner.initial_memory(learner.init(jax.random.key(0)))
    before = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), once)
    before = eqx.tree_at(lambda memory: memory.slot, before, jnp.array([1, 1]))
    window: Window[Any] = Window(
        observation=seen,
        critic_observation=seen,
        act=Act(acts, acts, acts),
        payoff=acts[..., 0],
        first=jnp.array([False, False, True, False, False]),
        last=jnp.array([False, True, False, False, True]),
        critic_observation_after=seen[:, -1] + 100,
        memory=before,
        memory_after=before,
    )
    found = learner._slots(window)
    assert_allclose(found.time, np.array([1, 2, 0, 1, 2] * 2) / 3, rtol=1e-6)
    assert_array_equal(found.goes_on, [True, False, True, True, False] * 2)
    assert_array_equal(found.follows, [True, False, True, True, False] * 2)
    assert_array_equal(found.observation, seen.reshape(10, 2))
    assert_array_equal(found.after[:4], seen[0, 1:])
    assert_array_equal(found.after[9], seen[1, -1] + 100)


def test_the_last_fifth_counts_for_half() -> None:
    record = Record(Slots.blank(1000, 1, 1), jnp.asarray(0))
    more = jax.tree.map(lambda leaf: leaf[:500], record.slots)
    weights = np.asarray(record.after(more).after(more).weights(3.0))
    assert weights[-159:].sum() / weights.sum() == pytest.approx(0.5, abs=0.01)
    assert_array_equal(record.after(more).weights(0.0), [1] * 500 + [0] * 500)


def test_the_oldest_slots_give_way() -> None:
    record = Record(Slots.blank(5, 1, 1), jnp.asarray(0))

    def some(first: int, count: int) -> Slots:
        blank = Slots.blank(count, 1, 1)
        made: Slots = eqx.tree_at(lambda slots: slots.payoff, blank, jnp.arange(first, first + count, dtype=float))
        return made

    record = record.after(some(0, 3)).after(some(3, 4))
    assert_array_equal(record.slots.payoff, [5, 6, 2, 3, 4])
    assert_array_equal(np.argsort(record.weights(1.0)), [2, 3, 4, 0, 1])
    assert_array_equal(np.sort(record.after(some(7, 12)).slots.payoff), [14, 15, 16, 17, 18])


def test_a_linear_quadratic_game_is_known_from_few_slots() -> None:
    # x' = A·x + b·f and u = −(x·Q·x + r·f²), found from 60 slots and predicted in others
    game = LinearQuadratic(noise=0.0)
    keys = jax.random.split(jax.random.key(0), 80)
    state = jax.vmap(game.reset)(keys)
    action = jax.vmap(lambda key: jax.random.uniform(key, (1, 1)))(keys)
    after, paid, _ = jax.vmap(game.step)(state, action, keys)
    slots = Slots(state, action[:, 0], jnp.zeros(80), paid[:, 0], after, jnp.ones(80, bool), jnp.zeros(80, bool))
    record = Record(jax.tree.map(lambda leaf: leaf[:60], slots), jnp.asarray(60))
    weights = record.weights(0.0)
    scale = scale_of(record, weights)
    world = formed(World.blank(2, 1, 4, jax.random.key(0)), record, scale, weights)
    new = jax.tree.map(lambda leaf: leaf[60:], slots)
    guessed, payoff = jax.vmap(lambda o, a, t: world(scale, o, a, t))(new.observation, new.action, new.time)
    inside = ((new.after > scale.low) & (new.after < scale.high)).all(1)
    assert inside.sum() >= 10
    assert_allclose(guessed[inside], new.after[inside], atol=1e-3)
    assert_allclose(scale.payoff + scale.payoff_spread * payoff, new.payoff, atol=2e-3)


def test_a_positive_matrix_is_inverted() -> None:
    some = np.random.default_rng(0).normal(size=(30, 20))
    matrix = some.T @ some / 30 + 1e-2 * np.eye(20)
    assert_allclose(inverse(jnp.asarray(matrix, jnp.float32)) @ matrix, np.eye(20), atol=1e-3)


def test_of_many_inputs_only_squares_are_features() -> None:
    assert_array_equal(features(jnp.array([2.0, 3.0])), [2, 3, 4, 6, 9])
    assert len(features(jnp.ones(40))) == 80


def test_one_start_cannot_outweigh_all_others() -> None:
    slope = SlotActor.create(2, 1, 4, (3, 3), jax.random.key(0))
    for size, length in ((1e6, 1.0), (1e-6, None)):
        large = jax.tree.map(lambda leaf, size=size: size * jnp.ones_like(leaf), slope)
        found = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(bounded(large))))
        own = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(large)))
        assert found == pytest.approx(length or own, rel=1e-4)


def test_it_receives_only_its_own() -> None:
    # Nobody's action pays into another's account: all that could reach the first is what the second sees and earns.
    alone, bonus, sight = (
        learnt(game, learner_of(game, **SMALL), 6)
        for game in (Quadratic.create(0.0), Quadratic.create(0.0, bonus=50.0), Quadratic.create(0.0, sight=3.0))
    )
    for beside in (bonus, sight):
        for mine, same in zip(of_player(alone, 0), of_player(beside, 0), strict=True):
            assert_array_equal(mine, same)
        changed = zip(of_player(alone, 1), of_player(beside, 1), strict=True)
        assert any((mine != other).any() for mine, other in changed)


def test_two_devices_learn_what_one_does() -> None:
    game = Cournot()
    one, two = (
        learnt(game, learner_of(game, **SMALL), 2, mesh)
        for mesh in (Mesh(np.array(jax.devices()[:1]), (GAMES,)), mesh_over(4))
    )
    assert_allclose(one.record.slots.action, two.record.slots.action, atol=1e-5)
    for mine, same in zip(jax.tree.leaves(one.learning.actor), jax.tree.leaves(two.learning.actor), strict=True):
        assert_allclose(mine, same, atol=0.01)


def test_what_leaves_the_run_is_the_policy_alone() -> None:
    learner = learner_of(Cournot())
    state = learner.init(jax.random.key(0))
    actor = learner.export(state)
    empty = SlotActor.empty(**actor.settings)
    assert [leaf.shape for leaf in jax.tree.leaves(empty)] == [leaf.shape for leaf in jax.tree.leaves(actor)]
    memory, seen = learner.initial_memory(state), jnp.array([0.1, 0.5, 0.9])
    slot = actor.initial_memory()
    for _ in range(3):
        memory, action = learner.play(state, memory, seen)
        slot, same = actor(slot, seen)
        assert_array_equal(action, same)


def test_it_surveys_and_then_plays_near_its_policy() -> None:
    learner = learner_of(Cournot())
    state = learner.init(jax.random.key(0))

    def explored(state: AgentState) -> Float[np.ndarray, " draws"]:
        def one(key: jax.Array) -> jax.Array:
            return learner.act(state, learner.initial_memory(state), jnp.zeros(3), key)[1].action[0]

        return np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(1), 500)))

    survey = explored(state)
    assert survey.min() < 0.05 < 0.95 < survey.max()
    later = eqx.tree_at(lambda s: s.record.count, state, jnp.asarray(learner.survey))
    middle = float(learner.play(later, learner.initial_memory(later), jnp.zeros(3))[1][0])
    near = explored(later)
    assert abs(near.mean() - middle) < 0.02
    assert 0.08 < near.std() < 0.2


RUN = RunConfig(potluck.environment("cournot", costs=[0.0, 0.2]), "small", slots=128, seeds=2, games=4, looks=2)


def test_however_a_run_is_stopped_it_ends_with_the_same_numbers(tmp_path: Path) -> None:
    build = AGENTS["mbpg"].build
    small = AgentSpec(lambda brief: dataclasses.replace(build(brief), **SMALL), "learns little")  # type: ignore[type-var]
    AGENTS.register("small", small)
    assert sum(1 for _ in start(RUN, tmp_path / "whole", interval=0.0)) == RUN.chunks == 2
    begun = start(RUN, tmp_path / "run", interval=0.0)
    assert len(list(itertools.islice(begun, 1))) == 1
    begun.close()
    assert sum(1 for _ in resume(tmp_path / "run")) == 1
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


def after(config: RunConfig) -> tuple[Setup, Any]:
    """One seed's players at the end."""
    lanes, luck, mesh = stack([setup_one(config)]), seeds_of(config), mesh_over(config.games)
    training = TrainConfig(lanes, luck, mesh, config.games, config.depth, config.chunk * config.chunks)
    runs: Runs = train(training, place(fresh(lanes, luck, config.games), mesh), jnp.asarray(0))[0]
    return lanes.lane(0), jax.tree.map(lambda leaf: leaf[0], runs.agents)


@pytest.mark.slow
def test_the_best_force_is_found_in_1_024_slots() -> None:
    # within 0.05 of the Riccati solution, in the box, wherever a game begins
    setup, agents = after(RunConfig(potluck.environment("linear-quadratic"), "mbpg", slots=1024, seeds=1, games=4))
    game = LinearQuadratic()
    gain = riccati(game, 0.95)[0, 0]
    states = np.random.default_rng(0).uniform(-1, 1, (50, 1, 2)).astype(np.float32)
    memory = jax.vmap(setup.learner.initial_memory)(agents)
    actions = np.asarray([jax.vmap(setup.learner.play)(agents, memory, state)[1][0, 0] for state in states])
    wanted = -(states[:, 0] @ gain) / float(game.bound) / 2 + 0.5
    assert np.sqrt(np.mean((actions - wanted) ** 2)) < 0.05


@pytest.mark.slow
def test_cournot_s_quantities_are_found_in_2_048_slots() -> None:
    setup, agents = after(RunConfig(potluck.environment("cournot"), "mbpg", slots=2048, seeds=1, games=4))
    memory = jax.vmap(setup.learner.initial_memory)(agents)
    state, sold = jnp.zeros(3), []
    for _ in range(8):
        memory, actions = jax.vmap(setup.learner.play)(agents, memory, jnp.broadcast_to(state, (3, 3)))
        state = actions[:, 0]
        sold.append(state)
    assert_allclose(np.mean(sold, axis=0), [0.325, 0.225, 0.125], atol=0.05)
