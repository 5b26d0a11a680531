"""Bounds that hold: what a planner's play stands for, and which equilibrium is the best."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents.registry import without_transfers
from potluck.game import Planner, game
from potluck.scenario import preset
from potluck.studies.bounds import Candidate, best_equilibrium, bounds, never_below
from potluck.studies.certificate import certify, gain_share, plain, without
from potluck.studies.deviations import evaluated, followed
from potluck.studies.judgement import judge
from potluck.studies.planning import Checked, answer, best_plan, climb
from potluck.training.config import RunConfig
from potluck.training.run import Trained, start, trained
from tests.studies.learnt import ONE_SLOT, TINY, playing
from tests.studies.test_planning import BEST, Hilly

NOTHING = jnp.zeros((1, 3))


def quiet(*_: object) -> None: ...


@pytest.fixture(scope="module")
def learners() -> Trained:
    """Two seeds: half of everything, and nearly what a planner would do."""
    return playing(ONE_SLOT, [[0.5] * 3, [0.9] * 3])


def test_a_planner_that_learners_beat_takes_over_what_they_play(learners: Trained) -> None:
    played = evaluated(learners, 2)
    planner = Planner(game(ONE_SLOT))
    found_by, planned = never_below(planner, NOTHING, {"greedy": played}, 0.95, 2)
    assert found_by == "mean play of greedy, seed 1"
    assert_allclose(planned.contributions[0, 0], [[0.9] * 3], rtol=1e-6)
    reacting = dataclasses.replace(played, welfare=played.welfare + 5)  # as if its play earned more than its mean play
    found_by, planned = never_below(planner, NOTHING, {"greedy": reacting}, 0.95, 2)
    assert found_by == "play of greedy, seed 1"
    assert planned.welfare.mean() == reacting.welfare[1].mean()


def test_a_planner_that_is_ahead_stays_what_it_is(learners: Trained) -> None:
    planner, scenario = Planner(game(ONE_SLOT)), ONE_SLOT
    plan = answer(best_plan(planner, scenario))
    found_by, planned = never_below(planner, plan, {"greedy": evaluated(learners, 2)}, 0.95, 2)
    assert found_by == "search"
    assert_allclose(planned.welfare, followed(planner, plan, 0.95, 2).welfare)


def test_of_settled_play_the_best_welfare_counts_and_of_other_play_the_closest() -> None:
    wasteful, poor, good = Candidate("a", 90.0, 0.2), Candidate("b", 70.0, 0.01), Candidate("c", 80.0, 0.04)
    at_rest = Candidate("d", 60.0, float("nan"))  # nothing is at stake

    def best(*candidates: Candidate) -> str:
        return max(candidates, key=lambda each: each.rank).name

    assert best(wasteful, poor, good, at_rest) == "c"
    assert best(wasteful, at_rest) == "d"
    assert best(wasteful, Candidate("e", 95.0, 0.3)) == "a"


def test_without_redistribution_the_solved_equilibrium_is_found_and_settled() -> None:
    """WPR that plays half of everything is far from an equilibrium; the solved one is not."""
    run = playing(without_transfers(ONE_SLOT), [[0.5] * 3, [0.6] * 3])
    run = Trained(without(run.config), run.lanes, run.runs)
    test = judge(run, games=2, watch=quiet)
    found = best_equilibrium(run, evaluated(run, 4), test, jnp.full((1, 1, 3), 0.3), None, quiet)
    assert test.share > 0.2
    assert found is not None
    assert found.share < 1e-3
    assert found.found_by == "solved 1"
    assert found.played.welfare.shape == (1, 4, 1)


def test_a_share_is_not_given_where_planner_and_wpr_are_closer_than_their_interval() -> None:
    own, close = np.array([9.0, 11.0]), np.array([9.9, 10.1, 10.3, 9.9])
    assert gain_share(own, np.array([9.0, 11.0]), close) is None
    assert gain_share(own, np.array([10.0, 10.2]), close) is None
    assert gain_share(own, np.array([9.0, 9.1]), close) is not None


def test_climbing_goes_on_until_it_no_longer_gains() -> None:
    """Preset literal, where one ascent ends 6.0 short."""
    scenario = preset("literal")
    planner = Planner(game(scenario))

    def earns(plan: jax.Array) -> float:
        return float(followed(planner, plan, 1.0, 16).welfare.mean(dtype=float))

    once = jax.jit(lambda: climb(planner, 1.0, jax.random.key(0)))()
    found = answer(best_plan(planner, scenario))
    assert earns(found) > earns(once) + 5
    assert earns(answer(best_plan(planner, scenario, starts=[found]))) == pytest.approx(earns(found), abs=0.01)


def test_a_plan_is_better_where_it_gains_more_than_its_standard_error() -> None:
    check = Checked(Hilly(BEST), jax.random.split(jax.random.key(0), 8), 4)
    half = jnp.full((6, 2), 0.5)
    assert check.against(half)
    assert not check.against(half)  # the same luck: no gain, no error
    assert not check.against(1 - BEST)
    assert check.against(BEST)
    assert_allclose(check.best[0], BEST)


@pytest.mark.slow
def test_a_certificate_with_bounds_says_all_of_it(tmp_path: Path) -> None:
    list(start(RunConfig(TINY, "mpgd", slots=60, seeds=2, games=2), tmp_path))
    run = trained(tmp_path)
    found = plain(certify(run, games=4, slots=0, against=bounds(run, tmp_path, games=4)))
    seeds = np.concatenate([evaluated(each, 4).welfare.mean((1, 2)) for each in (run, trained(tmp_path / "wpr"))])
    assert found["welfare_planner"]["mean"] >= seeds.max() - 1e-3
    assert found["nash_conv_share_wpr"] > 0
    assert found["equilibrium"]["nash_conv_share"] < 0.05
    assert found["welfare_reacting"] is None  # on the curve there is no luck to react to
