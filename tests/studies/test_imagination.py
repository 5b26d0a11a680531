"""Best responses and equilibria, where the answers are known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.testing import assert_allclose

from potluck.agents.registry import without_transfers
from potluck.economy import nash
from potluck.federation.from_scenario import on_task
from potluck.game import Members, Planner, game, stage_game
from potluck.scenario import Scenario, preset
from potluck.studies.bounds import payoffs_on_curve, solved
from potluck.studies.deviations import evaluated, imagined_deviations, kept_to
from potluck.studies.followers import keeping_to
from potluck.studies.imagination import Imagination, equilibria
from potluck.studies.judgement import imagination_of
from potluck.studies.planning import simple
from potluck.training.config import RunConfig
from potluck.training.run import Trained
from tests.studies.learnt import ONE_SLOT


def quiet(*_: object) -> None: ...


def test_silos_that_climb_at_once_come_to_rest_at_the_solved_equilibrium() -> None:
    found = solved(Planner(game(ONE_SLOT)), ONE_SLOT.discount, simple(1, 3))
    assert_allclose(found[:, 0], np.tile(nash(stage_game(ONE_SLOT)), (4, 1)), atol=0.01)


def short(scenario: Scenario) -> Scenario:
    return without_transfers(scenario).model_copy(update={"horizon": 8})


def wasteful(scenario: Scenario, plan: Float[Array, "slots silos"]) -> Trained:
    """Silos that keep to a plan, but bring everything in the last slot."""
    return keeping_to(plan.at[-1].set(1.0)[None], RunConfig(scenario, "wpr"), Members(game(scenario)))


def test_a_model_of_the_curve_predicts_what_silos_earn_and_finds_a_wasteful_last_slot() -> None:
    """The only test of the model in which the truth is known exactly: the curve, as if it were unknown."""
    scenario = short(preset("paper"))
    planner = Planner(game(scenario))
    settled = solved(planner, scenario.discount, simple(8, 4)[1:2])[0]
    run, imagination = (
        wasteful(scenario, settled),
        Imagination(planner, scenario.discount, first_fit=1200, next_fit=600),
    )
    own = evaluated(run, 2)
    gained, _ = imagined_deviations(run, own, imagination, 2, quiet)
    worth = jnp.stack([kept_to(run, n, settled[None, :, n], 2) for n in range(4)], axis=-1) - own.payoffs
    assert float(worth.min()) > 1  # money per slot
    assert_allclose((gained - own.payoffs).mean((0, 1)), worth.mean((0, 1)), rtol=0.1)
    plan = settled.at[-1].set(1.0)
    believed = imagination.model(paid=False).worth(plan, jnp.zeros(8))
    assert_allclose(believed, payoffs_on_curve(planner, scenario.discount)(plan), rtol=2e-3)


def test_deviations_are_imagined_where_there_is_a_law_to_learn() -> None:
    scenario = short(preset("paper"))
    assert imagination_of(wasteful(scenario, jnp.zeros((8, 4)))) is None  # ascent on the curve is exact


@pytest.mark.slow
def test_on_real_training_a_wasteful_last_slot_is_found_to_its_full_worth() -> None:
    scenario = short(on_task(preset("paper"), "digits"))
    imagination = Imagination(Planner(game(scenario)), scenario.discount)
    imagination.survey()
    settled = equilibria(imagination.model(paid=False), simple(8, 4)[1:2], jnp.zeros(8))[0]
    run = wasteful(scenario, settled)
    own = evaluated(run, 64)
    before = len(imagination.told)
    found, _ = imagined_deviations(run, own, imagination, 64, quiet)
    assert len(imagination.told) - before <= 2  # batches of 64 games: what it costs beside the check
    worth = np.stack([kept_to(run, n, settled[None, :, n], 64) for n in range(4)], axis=-1) - own.payoffs
    assert worth.mean((0, 1)).min() > 1
    assert ((found - own.payoffs).mean((0, 1)) > 0.9 * worth.mean((0, 1))).all()
    assert jax.tree.all(jax.tree.map(lambda told: bool(np.isfinite(told).all()), imagination.told))


def test_what_is_told_apart_stays_apart_and_money_from_outside_is_no_welfare() -> None:
    imagination = Imagination(Planner(game(short(preset("paper")))), 0.95)
    imagination.survey()
    apart = imagination.apart()
    apart.near(jnp.full((1, 8, 4), 0.5))
    assert (len(imagination.told), len(apart.told)) == (2, 3)
    told = apart.told[-1]
    subsidised = dataclasses.replace(told, payoffs=told.payoffs + 7, transfers=told.transfers + 7)
    assert_allclose(subsidised.welfare, told.welfare, rtol=1e-5)
