"""Certificates where the answer is known, and the arena in which deviators are trained."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from potluck.agents import Options, PolicyGradient
from potluck.economy import nash, payoffs, planner, regrets, welfare
from potluck.errors import PotluckError
from potluck.game import stage_game
from potluck.studies import deviations
from potluck.studies.certificate import bound, bounds, certify, found_gains, gain_share, plain, without
from potluck.studies.deviations import CONSTANTS, evaluate, evaluated, planned_for_all, trained_deviations
from potluck.studies.intervals import Interval
from potluck.training.config import RunConfig
from potluck.training.export import export_policy, load_policy
from potluck.training.opponents import Against
from potluck.training.run import Trained, start, trained
from tests.studies.learnt import ONE_SLOT, TINY, playing

HALF = [0.5, 0.5, 0.5]


def quiet(*_: object) -> None: ...


@pytest.fixture(scope="module")
def halves() -> Trained:
    return playing(ONE_SLOT, [HALF, HALF])


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of MAPPO: its critic sees what a deviator may not."""
    folder = tmp_path_factory.mktemp("learnt") / "run"
    list(start(RunConfig(TINY, "mappo", Options(dnc="none"), slots=60, seeds=2, games=2), folder))
    return folder


def test_gains_are_the_regrets_of_the_stage_game(halves: Trained) -> None:
    known = np.asarray(regrets(stage_game(ONE_SLOT), jnp.asarray(HALF)))
    found = certify(halves, games=2, slots=0)
    assert known.max() > 3
    assert_allclose([silo.gain.mean for silo in found.silos], known, rtol=1e-3, atol=1e-3)
    assert found.nash_conv == pytest.approx(known.sum(), rel=1e-3)
    assert [silo.gain.low for silo in found.silos] == [silo.gain.mean for silo in found.silos]  # both seeds play alike


def test_at_the_solved_equilibrium_nobody_gains() -> None:
    equilibrium = [float(d) for d in nash(stage_game(ONE_SLOT))]
    assert min(equilibrium) == 0.0 < sorted(equilibrium)[1] < max(equilibrium) == 1.0  # both corners and between
    found = certify(playing(ONE_SLOT, [equilibrium]), games=2, slots=0)
    assert found.share < 1e-3
    assert all(silo.share < 1e-3 for silo in found.silos)


def test_stakes_by_hand(halves: Trained) -> None:
    game, start_ = stage_game(ONE_SLOT), jnp.asarray(HALF)
    found = certify(halves, games=2, slots=0)
    for silo in found.silos:
        earned = [float(payoffs(game, start_.at[silo.silo].set(d))[silo.silo]) for d in CONSTANTS]
        assert silo.stake == pytest.approx(max(earned) - min(earned), rel=1e-3)
        assert silo.share == pytest.approx(silo.gain.mean / silo.stake)
    assert found.stake == sum(silo.stake for silo in found.silos)


def test_what_every_result_must_carry(halves: Trained) -> None:
    earned = np.asarray(payoffs(stage_game(ONE_SLOT), jnp.asarray(HALF)))
    found = certify(halves, games=2, slots=0)
    assert_allclose([silo.payoff.mean for silo in found.silos], earned, rtol=1e-5)
    assert found.welfare.mean == pytest.approx(earned.sum(), rel=1e-5)
    assert found.jain_index.mean == pytest.approx(earned.sum() ** 2 / (3 * (earned**2).sum()), rel=1e-5)
    assert found.budget_residual < 1e-3
    assert (found.seeds, found.games, found.agent) == (2, 2, "greedy")
    assert found.gain_share is None
    assert found.price_of_anarchy is None
    assert found.silos[0].payoff_wpr is None


def test_on_the_curve_the_best_plan_for_all_is_the_planners(halves: Trained) -> None:
    game = stage_game(ONE_SLOT)
    best = float(welfare(game, planner(game)))
    found = planned_for_all(halves, 2, lambda *_: None)
    assert_allclose(found.payoffs, best, rtol=1e-5)
    assert_allclose(found.welfare, best, rtol=1e-5)


@pytest.mark.slow
def test_a_trained_deviator_finds_most_of_what_there_is() -> None:
    known = np.asarray(regrets(stage_game(ONE_SLOT), jnp.asarray(HALF)))
    run = playing(ONE_SLOT, [HALF], games=8)
    gains = (trained_deviations(run, 2, 2000, quiet) - evaluated(run, 2).payoffs).mean((0, 1))
    worth = known > 1
    assert worth.any()
    assert (gains[worth] > 0.8 * known[worth]).all()
    assert (gains < known + 1e-2).all()  # nobody beats the best response


def by_kind(*kinds: list[float]) -> list[np.ndarray]:
    """One seed, four games, one silo."""
    return [np.array(kind, float)[None, :, None] for kind in kinds]


def test_a_deviation_is_chosen_on_some_games_and_measured_on_others() -> None:
    own, lucky, good = by_kind([10, 10, 10, 10], [19, 19, 8, 8], [12, 12, 13, 15])
    gains, found_by = found_gains(own, {"lucky": lucky, "good": good})
    assert found_by == ["none"]
    assert_array_equal(gains, [[0.0]])  # what it gained where it was chosen does not count, and staying is free
    gains, found_by = found_gains(own, {"good": good})
    assert found_by == ["good"]
    assert_array_equal(gains, [[4.0]])


def test_a_gain_of_one_seed_is_named_though_most_find_none() -> None:
    own, other = np.full((3, 4, 1), 10.0), np.full((3, 4, 1), 9.0)
    other[2] = 12.0
    gains, found_by = found_gains(own, {"other": other})
    assert (gains.tolist(), found_by) == ([[0.0], [0.0], [2.0]], ["other"])


def test_the_solved_equilibrium_is_certified_as_one(tmp_path: Path) -> None:
    list(start(RunConfig(ONE_SLOT, "nash", slots=20, seeds=1, games=2), tmp_path / "run"))
    run = trained(tmp_path / "run")
    found = certify(run, games=2, slots=0)
    solved = nash(stage_game(ONE_SLOT))
    assert_allclose([silo.contribution.mean for silo in found.silos], solved, atol=1e-6)
    assert found.nash_conv < 1e-3 * found.stake
    export_policy(run, 1, ONE_SLOT.seed, tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    assert policy.decide(np.zeros(policy.observation_size)) == pytest.approx(float(solved[1]), abs=1e-6)


def test_who_finds_nothing_better_stays_and_a_broken_deviator_gains_nothing() -> None:
    own, worse, broken = by_kind([10, 10, 10, 10], [9, 9, 9, 9], [np.nan, np.nan, np.nan, np.nan])
    gains, found_by = found_gains(own, {"worse": worse, "broken": broken})
    assert (gains.tolist(), found_by) == ([[0.0]], ["none"])


def test_gains_of_different_seeds_span_their_interval() -> None:
    equilibrium = [float(d) for d in nash(stage_game(ONE_SLOT))]
    found = certify(playing(ONE_SLOT, [HALF, equilibrium]), games=2, slots=0)
    silo = max(found.silos, key=lambda silo: silo.gain.mean)
    assert silo.gain.low < 0.01 < silo.gain.mean < silo.gain.high
    assert silo.gain.mean == pytest.approx((silo.gain.low + silo.gain.high) / 2, rel=1e-3)


def test_share_of_the_planners_gain_by_hand() -> None:
    alike = np.full(3, 10.0), np.full(3, 8.0), np.full(3, 12.0)
    assert gain_share(*alike) == Interval(0.5, 0.5, 0.5)
    assert gain_share(np.full(3, 7.0), *alike[1:]) == Interval(-0.25, -0.25, -0.25)
    apart = gain_share(np.array([9.0, 11.0]), *alike[1:])
    assert apart is not None
    assert (apart.low, apart.mean, apart.high) == (0.25, 0.5, 0.75)


def test_where_a_planner_gains_nothing_there_is_no_share_of_it() -> None:
    assert gain_share(np.ones(2), np.full(2, 2.0), np.full(2, 2.0)) is None


@pytest.mark.slow
def test_bounds_are_trained_once_and_the_same_certificate_comes_twice(learnt: Path) -> None:
    def once() -> str:
        run = trained(learnt)
        against = bounds(run, learnt, games=2)
        return json.dumps(plain(certify(run, games=2, slots=20, against=against)))

    first = once()
    written = {file: file.stat().st_mtime_ns for file in learnt.rglob("*.ckpt")}
    assert sorted(file.parents[1].name for file in written) == ["run", "wpr"]
    assert once() == first
    assert {file: file.stat().st_mtime_ns for file in written} == written
    found = json.loads(first)
    own, wpr, best = (found[name]["mean"] for name in ("welfare", "welfare_wpr", "welfare_planner"))
    assert found["gain_share"]["mean"] == pytest.approx((own - wpr) / (best - wpr), rel=1e-4)
    assert found["price_of_anarchy"] == pytest.approx(best / own)
    assert best >= max(own, wpr)
    silo = found["silos"][0]
    assert silo["gain_over_wpr"] == pytest.approx(silo["payoff"]["mean"] - silo["payoff_wpr"]["mean"])
    assert silo["rational_against_leaving"]


def test_a_bound_of_another_plan_is_refused(learnt: Path) -> None:
    other = without(RunConfig(TINY, "mappo", slots=120, seeds=2, games=2))
    folder = learnt.parent / "other"
    list(start(RunConfig(TINY, "fixed:0.5", slots=30, seeds=1, games=2), folder))
    with pytest.raises(PotluckError, match="holds another run; remove it, or ask for no bounds"):
        bound(other, folder)


def test_a_planner_and_a_single_game_cannot_be_certified(halves: Trained) -> None:
    with pytest.raises(PotluckError, match="games must be 2 or more"):
        certify(halves, games=1)
    with pytest.raises(PotluckError, match="planner sets all contributions, so nobody can deviate"):
        certify(Trained(RunConfig(TINY, "planner"), halves.lanes, halves.runs))


def test_a_silo_that_does_as_it_learnt_earns_the_same_in_the_arena(learnt: Path) -> None:
    """Same keys, same luck, and the others play without exploration, as in evaluation."""
    run = trained(learnt)
    together = evaluated(run, 3).payoffs
    for silo in range(2):
        arena = deviations._against(run, silo)
        arena = eqx.tree_at(lambda lanes: lanes.tree.learner, arena, run.lanes.tree.learner)
        own = jax.tree.map(lambda leaf, n=silo: leaf[:, n : n + 1], run.runs.agents)
        alone = evaluate(arena, own, TINY.discount, 3).payoffs
        assert_allclose(alone[..., 0], together[..., silo], rtol=1e-6)


def test_in_the_arena_the_others_neither_explore_nor_show_what_they_see(learnt: Path) -> None:
    run = trained(learnt)
    setup, agents = run.of_seed(0)
    environment = setup.environment
    arena = Against(environment, setup.learner, agents, jnp.asarray(1))
    state = arena.reset(jax.random.key(0))
    step = eqx.filter_jit(arena.step)
    after, earned, report = step(state, jnp.array([[0.9]]), jax.random.key(1))
    _, _, again = step(state, jnp.array([[0.2]]), jax.random.key(2))
    assert report.contributions[0] == again.contributions[0]
    assert_allclose([report.contributions[1], again.contributions[1]], [0.9, 0.2])
    assert_allclose(earned, report.payoffs[1:])
    assert_array_equal(arena.observe(after)[0], environment.observe(after.state)[1])


@pytest.mark.slow
def test_a_deviator_starts_from_what_its_silo_knows_but_never_from_a_central_critic(learnt: Path) -> None:
    run = trained(learnt)
    deviator = deviations._against(run, 0, 10).lane(0).learner
    assert isinstance(deviator, PolicyGradient)
    assert not deviator.central
    fresh = deviator.init(jax.random.key(5))
    known = jax.tree.map(lambda leaf: leaf[0, 0], run.runs.agents)
    warm = deviations._warm(fresh, known)
    assert eqx.tree_equal(warm.actor, known.actor)
    assert eqx.tree_equal(warm.observations, known.observations)
    assert eqx.tree_equal(warm.critic, fresh.critic)
