"""Silos that have never met: the first game is played well, from what is public and one's own terms alone."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal

from potluck.agents import AGENTS, Brief
from potluck.agents.known_games import Cournot
from potluck.agents.pretrained import OBSERVED, MemoryState, Pretrained, after, mean_of, sight
from potluck.errors import PotluckError
from potluck.game import Game, Members, game
from potluck.game.pettingzoo import parallel_env
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.studies.deviations import evaluate
from potluck.training.config import RunConfig, setup, setup_one
from potluck.training.export import export_policy, load_policy, untrained
from potluck.training.run import start
from tests.agents.test_dominant import dominated
from tests.training.conftest import TINY

SHORT = AGENTS["pretrained"].played(TINY.model_copy(update={"horizon": 8}))
WITHOUT = 3185.3
"""The best equilibrium without redistribution of preset `paper` on the curve (docs/learning.md)."""


def learner_of(scenario: Scenario) -> Pretrained:
    learner = setup_one(RunConfig(scenario, "pretrained", seeds=1)).learner
    assert isinstance(learner, Pretrained)
    return learner


@eqx.filter_jit
def decisions(
    learner: Pretrained, played: Game, plan: Float[Array, "slots silos"], silo: int
) -> tuple[MemoryState, Float[Array, " slots"]]:
    """What one silo would decide before every slot of a game in which all keep to a plan."""

    def slot(carry: tuple[Any, Any], now: tuple[Array, Array]) -> tuple[tuple[Any, Any], Array]:
        state, memory = carry
        memory, action = learner.play(None, memory, played.observe(state)[silo])
        return (played.step(state, *now)[0], memory), action[0]

    keys = jax.random.split(jax.random.key(1), played.horizon)
    begun = played.reset(jax.random.key(0)), learner.initial_memory(None)
    (_, memory), decided = jax.lax.scan(slot, begun, (plan, keys))
    return memory, decided


PLAN = jax.random.uniform(jax.random.key(3), (8, 3))


@pytest.mark.parametrize("silo", [0, 1, 2])
def test_what_is_seen_is_put_where_it_belongs(silo: int) -> None:
    played = game(SHORT)
    state, learner = played.reset(jax.random.key(0)), learner_of(SHORT)
    record, precision = learner.initial_memory(None).record, []
    for slot in range(8):
        state, happened = played.step(state, PLAN[slot], jax.random.key(slot))
        precision.append(happened.precision)
        if slot % 2:  # H = 2 or more: a slot in which nobody asked is not lost
            seen = sight(played.observe(state)[silo], SHORT.history, 3, 8)
            record = after(record, seen)
    assert_array_equal(record.plan, PLAN)
    assert_array_equal(record.precision, jnp.stack(precision))
    assert record.over.all()
    terms = jax.tree.map(lambda term: term[silo], state.terms)
    assert (int(seen.place), int(seen.slot)) == (silo, 8)
    assert_allclose([seen.profit, seen.samples], [terms.profit, terms.samples])
    assert_allclose(seen.cost, played.energy_price * terms.energy * terms.samples)


def test_others_terms_change_nothing_that_a_silo_decides() -> None:
    learner, played = learner_of(SHORT), game(SHORT)
    others = np.arange(3) != 1
    terms = played.terms
    changed = [jnp.where(others, 3 * term + 1, term) for term in (terms.profit, terms.energy, terms.communication)]
    world = eqx.tree_at(lambda g: (g.terms.profit, g.terms.energy, g.terms.communication), played, tuple(changed))
    mine, same = (decisions(learner, each, PLAN, 1)[1] for each in (played, world))
    assert_array_equal(mine, same)
    own, other = (decisions(learner, each, PLAN, 0)[1] for each in (played, world))
    assert (np.asarray(own) != np.asarray(other)).any()  # the test would notice


def test_how_much_others_hold_is_seen_in_precision_alone() -> None:
    # Two silos that always bring alike change sizes with each other: no slot's precision differs.
    alike = PLAN.at[:, 2].set(PLAN[:, 0])
    sizes = SHORT.silos.model_copy(update={"samples": (100.0, 200.0, 300.0), "redraw": ("communication",)})
    scenario = SHORT.model_copy(update={"silos": sizes, "energy_price": 0.05})
    swapped = scenario.model_copy(update={"silos": sizes.model_copy(update={"samples": (300.0, 200.0, 100.0)})})
    learner = learner_of(scenario)
    mine, same = (decisions(learner, game(each), alike, 1)[1] for each in (scenario, swapped))
    assert_allclose(mine, same, atol=1e-5)
    assert (np.asarray(mine) != np.asarray(decisions(learner, game(scenario), PLAN, 1)[1])).any()


def test_the_same_seed_plays_the_same_game_bit_for_bit() -> None:
    first, second = (
        evaluate(setup(RunConfig(SHORT, "pretrained", seeds=1)), None, 0.95, 2).contributions for _ in range(2)
    )
    assert_array_equal(first, second)


@pytest.fixture(scope="module")
def paper() -> tuple[float, Any]:
    """First games of preset paper on the curve: welfare per slot, and what a silo remembers of one."""
    scenario = preset("paper")
    lanes = setup(RunConfig(scenario, "pretrained", seeds=1))
    played = evaluate(lanes, None, scenario.discount, 2)
    learner, world = lanes.lane(0).learner, lanes.lane(0).environment
    assert isinstance(learner, Pretrained)
    assert isinstance(world, Members)
    return float(played.welfare.mean()), decisions(learner, world.game, jnp.asarray(played.contributions[0, 0]), 0)[0]


def test_a_first_game_on_the_curve_earns_more_than_silos_do_without_redistribution(paper: tuple[float, Any]) -> None:
    assert paper[0] > WITHOUT


def test_it_learns_within_the_game(paper: tuple[float, Any]) -> None:
    _, memory = paper
    missed = np.abs(np.asarray(memory.predicted - memory.record.precision))[:-1]  # the last slot is never seen
    assert missed[5:].max() < missed[0] / 3
    learner = learner_of(preset("paper"))
    blank = jax.tree.map(jnp.zeros_like, memory.record)
    laws = learner.prior.members(blank, learner.members)
    alone = np.asarray(mean_of(laws, memory.record.plan))
    assert np.mean(missed**2) < np.mean((alone - memory.record.precision)[:-1] ** 2) / 4


def test_a_dominant_contribution_is_made_in_the_first_game() -> None:
    for scenario in dominated():
        found = evaluate(setup(RunConfig(scenario, "pretrained", seeds=1)), None, scenario.discount, 1)
        assert found.contributions.min() >= 0.95


def test_late_slots_of_long_games_are_seen_however_small_a_discount_makes_them() -> None:
    free = preset("paper").model_copy(update={"energy_price": 0.0, "horizon": 60, "discount": 0.5})
    found = evaluate(setup(RunConfig(free, "pretrained", seeds=1)), None, free.discount, 1)
    assert found.contributions[:, :, :-1].min() >= 0.95


@pytest.mark.parametrize("schedule", ["constant", "gain", "printed"])
def test_imagined_transfers_are_those_of_the_game(schedule: str) -> None:
    rule = mechanism_of("redistribution", intensity=6.0, schedule=schedule)
    scenario = SHORT.model_copy(update={"mechanism": rule})
    played, learner = game(AGENTS["pretrained"].played(scenario)), learner_of(scenario)

    def slot(state: Any, now: tuple[Array, Array]) -> tuple[Any, Any]:
        return played.step(state, *now)

    state = played.reset(jax.random.key(0))
    slots = jax.lax.scan(slot, state, (PLAN, jax.random.split(jax.random.key(1), played.horizon)))[1]
    begun = played.source.measure(state.federation)
    samples = jnp.asarray(float(played.terms.samples[0]))
    imagined = learner.transfers(PLAN, begun, slots.precision, samples)
    assert_allclose(imagined, slots.payoff.transfer, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "choices", "silos"),
    [
        ("none", {}, 2),
        ("redistribution", {"intensity": 6.0, "basis": "samples", "schedule": "gain"}, 16),
        ("per-silo", {"intensity": (4.0, 5.0, 9.0), "schedule": "printed"}, 3),
        ("proportional", {}, 3),
        ("cost-sharing", {"costs": (2.0, 2.0, 2.0), "profits": (1000.0,) * 3}, 3),
    ],
)
def test_every_mechanism_that_silos_know_is_played(kind: str, choices: dict[str, Any], silos: int) -> None:
    sizes = SHORT.silos.model_copy(update={"count": silos})
    scenario = SHORT.model_copy(update={"silos": sizes, "mechanism": mechanism_of(kind, **choices), "horizon": 3})
    played = evaluate(setup(RunConfig(scenario, "pretrained", seeds=1)), None, 0.95, 1)
    assert played.contributions.shape == (1, 1, 3, silos)
    assert ((played.contributions >= 0) & (played.contributions <= 1)).all()


def test_what_it_cannot_play_is_refused_in_one_line() -> None:
    scenario = SHORT.model_copy(update={"mechanism": mechanism_of("cost-sharing")})
    with pytest.raises(PotluckError, match=r"agent: pretrained cannot play cost-sharing.*take mpgd"):
        setup_one(RunConfig(scenario, "pretrained"))
    with pytest.raises(PotluckError, match="agent: pretrained is made for a federation"):
        AGENTS["pretrained"].build(Brief(Cournot(), 0.9, 1))


def test_a_run_of_it_reports_what_it_learnt_in_each_game(tmp_path: Path) -> None:
    list(start(RunConfig(SHORT, "pretrained", slots=32, seeds=1, games=2), tmp_path / "run"))
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    values = dict(zip(rows[0].split(","), map(float, rows[-1].split(",")), strict=True))
    assert 0 < values["precision_error"] < values["prior_error"]


def test_an_exported_policy_plays_as_the_agent_does_and_holds_nobody_s_terms(tmp_path: Path) -> None:
    run = untrained(SHORT)
    for silo in range(3):
        export_policy(run, silo, SHORT.seed, tmp_path / f"{silo}")
    first, second = ((tmp_path / name).read_bytes() for name in ("0", "1"))
    other = SHORT.model_copy(update={"silos": SHORT.silos.model_copy(update={"profit": 1.0, "energy": 9.0})})
    export_policy(untrained(other), 0, SHORT.seed, tmp_path / "poor")
    assert (tmp_path / "poor").read_bytes() == first
    assert len(first) == len(second) < 100_000
    policies = [load_policy(tmp_path / f"{silo}") for silo in range(3)]
    assert policies[0].about["observation"] == list(OBSERVED)
    env = parallel_env(SHORT, seed=SHORT.seed)
    seen, _ = env.reset(seed=0)
    decided = []
    while env.agents:
        shares = {name: policy.decide(seen[name]) for name, policy in zip(env.agents, policies, strict=True)}
        for name in env.agents:
            assert env.observation_space(name).contains(seen[name])
        decided.append(list(shares.values()))
        seen, *_ = env.step(shares)
    learner, played = learner_of(SHORT), game(SHORT)
    again = decisions(learner, played, jnp.asarray(decided, jnp.float32), 0)[1]
    assert_allclose(again[:3], [row[0] for row in decided[:3]], atol=1e-4)  # the luck of communication costs is other
    assert Members(played).observation_size == policies[0].observation_size
