"""A silo that learns how precision comes about, from its own record, and improves a plan of its own."""

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

from potluck.agents import AGENTS, Act, Brief, Public, PublicRules, Window
from potluck.agents.earnings import Games, Seen, earnings_of
from potluck.agents.model_based import AgentState, ModelBased
from potluck.devices import GAMES, mesh_over
from potluck.errors import PotluckError
from potluck.game import Members, game
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.studies.deviations import evaluate
from potluck.training.config import RunConfig, seeds_of, setup_one
from potluck.training.export import export_policy, load_policy
from potluck.training.lanes import Lanes, stack
from potluck.training.loop import Runs, Setup, TrainConfig, fresh, place, train
from potluck.training.run import resume, start, trained
from tests.agents.test_dominant import dominated
from tests.game.conftest import THREE, by_hand, play_through, random_contributions
from tests.training.conftest import TINY

SHORT = TINY.model_copy(update={"horizon": 8})
SURVEY = 32
"""Games before the first ascent, of learners that learn less than usual."""


def hasty(brief: Brief) -> ModelBased:
    """It does all that is done, and less of it."""
    usual = AGENTS["mbpg"].build(brief)
    assert isinstance(usual, ModelBased)
    less = {"survey": SURVEY, "first_fit": 200, "later_fit": 64, "fit_slots": 0, "members": 2, "units": 8}
    return ModelBased(**{field.name: getattr(usual, field.name) for field in dataclasses.fields(usual)} | less)


@pytest.fixture(scope="module", autouse=True)
def _register_hasty() -> None:
    AGENTS.register("hasty", dataclasses.replace(AGENTS["mbpg"], build=hasty, help="mbpg that learns little"))


@pytest.mark.parametrize(("slots", "survey"), [(30 * 16 * 2, 16), (2000, 40), (4800, 80), (12_000, 96)])
def test_a_short_run_surveys_half_of_its_games_at_most(slots: int, survey: int) -> None:
    learner = setup_one(RunConfig(preset("paper"), "mbpg", slots=slots, seeds=1)).learner
    assert isinstance(learner, ModelBased)
    assert learner.survey == survey


def test_where_there_is_no_scenario_but_rules_it_is_refused() -> None:
    environment = Members(game(SHORT))
    with pytest.raises(PotluckError, match=r"agent: mbpg does not learn in a deployment"):
        AGENTS["mbpg"].build(Brief(environment, 0.95, 1, rules=PublicRules(2, {"kind": "none"})))


@pytest.mark.parametrize("horizon", [1, 7, 30, 100])
def test_its_windows_are_whole_games_however_long_they_are(horizon: int) -> None:
    config = RunConfig(
        preset("paper").model_copy(update={"horizon": horizon}), "mbpg", slots=2 * horizon, seeds=1, games=1
    )
    assert config.depth == horizon
    assert isinstance(setup_one(config).learner, ModelBased)


def learnt(
    scenario: Scenario,
    windows: int,
    games: int = 16,
    mesh: Mesh | None = None,
    setup: Setup | None = None,
    agent: str = "hasty",
) -> tuple[Lanes[Setup], Runs]:
    """One seed after some windows; devices agree on it, and all is finite."""
    config = RunConfig(scenario, agent, seeds=1, games=games, slots=windows * games * scenario.horizon)
    lanes, luck = stack([setup or setup_one(config)]), seeds_of(config)
    mesh = mesh or mesh_over(games)
    training = TrainConfig(lanes, luck, mesh, games, scenario.horizon, windows)
    runs, outcome = train(training, place(fresh(lanes, luck, games), mesh), jnp.asarray(0))
    assert outcome.agreed
    assert outcome.finite.all()
    return lanes, runs


def played(lanes: Lanes[Setup], runs: Runs) -> Float[np.ndarray, "slots silos"]:
    """What is brought without exploration."""
    return np.asarray(evaluate(lanes, runs.agents, 0.95, 2).contributions[0, 0])


def of_silo(agents: AgentState, silo: int) -> list[np.ndarray]:
    return [np.asarray(leaf)[0, silo] for leaf in jax.tree.leaves(agents)]


@pytest.mark.parametrize("change", [{"mechanism": mechanism_of("redistribution", intensity=14.0)}, {"energy_price": 0}])
def test_a_dominant_contribution_is_found_in_a_short_game(change: dict[str, Any]) -> None:
    # each unit brought is paid 28 and costs 20; and where it costs nothing
    assert played(*learnt(SHORT.model_copy(update=change), windows=6)).min() >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("scenario", dominated())
def test_a_dominant_contribution_is_found_in_3_360_slots(scenario: Scenario) -> None:
    assert played(*learnt(scenario, windows=7, agent="mbpg")).min() >= 0.95


@pytest.mark.parametrize("seat", [0, 2])
def test_what_is_paid_is_found_without_anyone_s_terms(seat: int) -> None:
    silo = jnp.asarray(seat)
    random = np.random.default_rng(0)
    contributions, precision, signal = (random.uniform(size=(40, 8, *shape)) for shape in ((3,), (), ()))
    own, total = contributions[..., seat], contributions.sum(-1)
    payoff = 1000 * precision - 20 * own - 0.5 + 5 * signal * (3 * own - total)
    games = Games(*(jnp.asarray(part, jnp.float32) for part in (contributions, precision, 5 * signal, payoff)))
    earnings = earnings_of(Seen.blank(64, 8, 3).after(games), silo)
    paid = earnings(games.contributions, games.precision, games.signal, silo)
    assert_allclose(paid, payoff, atol=0.05)
    more = earnings(games.contributions.at[..., silo].add(0.1), games.precision, games.signal, silo)
    assert_allclose(more - paid, 0.1 * (10 * signal - 20), atol=0.05)  # α times N − 1, less the cost
    # another silo, were its terms the same
    other = 1000 * precision - 20 * contributions[..., 1] - 0.5 + 5 * signal * (3 * contributions[..., 1] - total)
    as_own = earnings(games.contributions, games.precision, games.signal, jnp.asarray(1))
    assert_allclose(as_own, other, atol=0.1)


@pytest.mark.parametrize(
    ("kind", "choices", "alike"),
    [
        ("redistribution", {"intensity": 6.0, "basis": "samples", "schedule": "gain"}, False),
        ("per-silo", {"intensity": (4.0, 5.0, 9.0), "schedule": "gain"}, False),
        ("cost-sharing", {}, False),
        ("none", {}, False),
        ("proportional", {}, True),
    ],
)
def test_what_is_paid_is_found_under_every_mechanism(kind: str, choices: dict[str, Any], alike: bool) -> None:
    silos = THREE.model_copy(update={"samples": 200.0} if alike else {})
    world = game(by_hand(silos=silos, mechanism=mechanism_of(kind, **choices)))
    given = jnp.stack([random_contributions(5, 3, seed) for seed in range(80)])
    slots = jax.jit(jax.vmap(lambda joint: play_through(world, joint, jax.random.key(0)).slots))(given)
    games = Games(slots.contributions, slots.precision, slots.signal, slots.payoff.total[..., 0])
    seen, others = (jax.tree.map(lambda leaf, part=part: leaf[part], games) for part in (slice(64), slice(64, 80)))
    first = jnp.asarray(0)
    earnings = earnings_of(Seen.blank(64, 5, 3).after(seen), first)
    assert_allclose(earnings(others.contributions, others.precision, others.signal, first), others.payoff, atol=0.1)


@pytest.mark.parametrize(
    "names",
    [
        ("others", "communication", "signal", "precision", "own_contribution"),
        ("slot", "own_contribution", "precision", "others"),
    ],
)
def test_games_are_as_they_were_played_whatever_was_decided(names: tuple[str, ...]) -> None:
    environment = Members(game(SHORT.model_copy(update={"observation": names})))
    learner = AGENTS["mbpg"].build(
        Brief(environment, 0.95, 1, scenario=SHORT.model_copy(update={"observation": names}))
    )
    actions = jax.random.uniform(jax.random.key(0), (8, 3, 1))
    state, seen, paid, reports = environment.reset(jax.random.key(1)), [], [], []
    for action in actions:
        seen.append(environment.observe(state))
        state, payoff, report = environment.step(state, action, jax.random.key(2))
        paid.append(payoff)
        reports.append(report)
    shown, nothing = jnp.stack(seen), jnp.zeros((1, 8, 1))
    for silo in range(3):
        window: Window[Any] = Window(
            observation=shown[None, :, silo],
            critic_observation=shown[None, :, silo],
            act=Act(1 - actions[None, :, silo], nothing, nothing),
            payoff=jnp.stack(paid)[None, :, silo],
            first=jnp.arange(8) == 0,
            last=jnp.arange(8) == 7,
            critic_observation_after=environment.observe(state)[None, silo],
            memory=None,
            memory_after=None,
        )
        assert isinstance(learner, ModelBased)
        found = learner._games(jnp.asarray(silo), window)
        assert_array_equal(found.contributions[0], np.asarray([report.contributions for report in reports]))
        assert_array_equal(found.precision[0], np.asarray([report.precision for report in reports]))
        signal = [report.signal if "signal" in names else 0.0 for report in reports]
        assert_array_equal(found.signal[0], np.asarray(signal))
        assert_array_equal(found.payoff[0], np.asarray(paid)[:, silo])


def test_the_oldest_games_give_way() -> None:
    def games(first: int, count: int) -> Games:
        numbers = jnp.arange(first, first + count, dtype=float)
        return Games(
            *(
                jnp.broadcast_to(numbers.reshape(-1, *(1,) * extra), shape)
                for extra, shape in ((2, (count, 2, 3)), (1, (count, 2)), (1, (count, 2)), (1, (count, 2)))
            )
        )

    seen = Seen.blank(5, 2, 3).after(games(0, 3)).after(games(3, 4))
    assert_array_equal(seen.payoff[:, 0], [5, 6, 2, 3, 4])
    assert_array_equal(seen.public.contributions[:, 1, 2], [5, 6, 2, 3, 4])
    assert (int(seen.public.games), int(seen.public.kept)) == (7, 5)
    assert_array_equal(np.sort(seen.after(games(7, 12)).signal[:, 0]), [14, 15, 16, 17, 18])


def test_a_game_is_explored_by_one_plan_and_the_next_by_another() -> None:
    learner = setup_one(RunConfig(SHORT, "mbpg", seeds=1)).learner
    state = learner.init(jax.random.key(0))

    def explored(state: AgentState, key: int) -> Float[np.ndarray, " slots"]:
        memory, acts = learner.initial_memory(state), []
        for slot in range(8):
            memory, act = learner.act(state, memory, jnp.zeros(10), jax.random.key(100 * key + slot))
            acts.append(act.action[0])
            assert_array_equal(memory.plan[slot], act.action[0])
        assert_array_equal(memory.plan, jnp.stack(acts))  # drawn once, in the first slot
        return np.asarray(memory.plan)

    assert (explored(state, 1) != explored(state, 2)).any()
    later = eqx.tree_at(lambda s: (s.ascents, s.plan), state, (jnp.asarray(1), jnp.full(8, 0.4)))
    plans = np.stack([explored(later, key) for key in range(8)])
    assert_allclose(plans.mean(), 0.4, atol=0.1)
    memory, choices = learner.initial_memory(later), []
    for _ in range(8):
        memory, choice = learner.play(later, memory, jnp.zeros(10))
        choices.append(choice[0])
    assert_array_equal(choices, later.plan)


def test_others_terms_leave_no_trace_in_what_a_silo_learns() -> None:
    # One window of surveying: everybody plays the same whatever their terms, and learns from it once.
    config = RunConfig(SHORT, "hasty", seeds=1, games=SURVEY)
    setup = setup_one(config)
    others = np.arange(3) != 1

    def terms(setup: Any) -> Any:
        held = setup.environment.game.terms
        return held.profit, held.energy, held.communication

    changed = eqx.tree_at(terms, setup, tuple(jnp.where(others, 3 * term + 1, term) for term in terms(setup)))
    first, second = (learnt(SHORT, 1, SURVEY, setup=one)[1] for one in (setup, changed))
    assert (first.memory.slot == 8).all()
    before, after = first.agents, second.agents
    assert int(before.ascents[0, 1]) == 1
    for mine, same in zip(of_silo(before, 1), of_silo(after, 1), strict=True):
        assert_array_equal(mine, same)
    assert (np.asarray(before.plan[0, others]) != np.asarray(after.plan[0, others])).any()


def test_a_simulation_learns_the_law_once_which_each_silo_would_learn_by_itself() -> None:
    lanes, runs = learnt(SHORT, 1, SURVEY)
    learner = lanes.lane(0).learner
    assert isinstance(learner, ModelBased)
    assert isinstance(learner, Public)
    one = eqx.filter_jit(learner.public)
    for silo in range(3):
        state = learner.seated(learner.init(jax.random.key(silo)), jnp.asarray(silo))
        law = one(state, _of(runs.agents, silo))
        for shared, own in zip(jax.tree.leaves(runs.agents.laws), jax.tree.leaves(law), strict=True):
            assert_allclose(shared[0, silo], own, rtol=1e-3, atol=1e-4)
    assert_array_equal(runs.agents.seat[0], [0, 1, 2])


def _of(agents: AgentState, silo: int) -> Window[Any]:
    """The window that a silo has on record, as it saw it."""
    public, nothing = agents.seen.public, jnp.zeros((SURVEY, 8, 1))
    kept = public.contributions, public.precision, agents.seen.signal, agents.seen.payoff
    joint, precision, signal, payoff = (leaf[0, silo, :SURVEY] for leaf in kept)
    others = joint[..., np.arange(3) != silo]
    own = joint[..., silo, None]
    after = jnp.concatenate([others, nothing, signal[..., None], precision[..., None], own], axis=-1)
    observation = jnp.concatenate([jnp.zeros_like(after[:, :1]), after[:, :-1]], axis=1)
    act = Act(own, nothing, nothing)
    ends = jnp.arange(8) == 0, jnp.arange(8) == 7
    return Window(observation, observation, act, payoff, *ends, after[:, -1], None, None)


def test_two_devices_learn_what_one_does() -> None:
    alone = Mesh(np.array(jax.devices()[:1]), (GAMES,))
    plans = [learnt(SHORT, 1, SURVEY, mesh)[1].agents.plan for mesh in (alone, mesh_over(SURVEY))]
    assert_allclose(plans[0], plans[1], atol=0.02)  # rounding, after hundreds of steps of two fits


RUN = RunConfig(SHORT, "hasty", slots=768, seeds=2, games=16, looks=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert sum(1 for _ in start(RUN, folder, interval=0.0)) == RUN.chunks == 3
    return folder


def test_however_a_run_is_stopped_it_ends_with_the_same_numbers(whole: Path, tmp_path: Path) -> None:
    begun = start(RUN, tmp_path / "run", interval=0.0)
    assert len(list(itertools.islice(begun, 2))) == 2
    begun.close()
    assert sum(1 for _ in resume(tmp_path / "run")) == 1
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()


def test_what_leaves_the_run_is_the_plan_alone(whole: Path, tmp_path: Path) -> None:
    found = trained(whole)
    export_policy(found, silo=1, seed=1, place=tmp_path / "p")
    policy, plan = load_policy(tmp_path / "p"), np.asarray(found.of_seed(1)[1].plan[1])
    for _ in range(2):  # a second game after a fresh start is the same
        policy.start()
        assert_array_equal([policy.decide(np.full(12, 0.5)) for _ in range(8)], plan)
    assert [leaf.shape for leaf in jax.tree.leaves(policy.actor)] == [(8, 1)]
    assert_allclose(evaluate(found.lanes, found.runs.agents, 0.95, 2).contributions[1, 0, :, 1], plan, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scenario": SHORT.model_copy(update={"observation": ("others", "signal")})}, "observation must have 'prec"),
        ({"scenario": SHORT.model_copy(update={"observation": ("precision",)})}, "observation must have 'others'"),
        ({"window": 4}, "window must be a whole game, 8 slots, for mbpg, got 4"),
    ],
)
def test_what_it_cannot_learn_from_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        setup_one(dataclasses.replace(RUN, agent="mbpg", **change))
