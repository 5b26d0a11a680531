"""A federation that changes: what changes, what does not, and that one program plays it all."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from potluck.federation.from_scenario import on_task
from potluck.scenario import Scenario, preset
from potluck.studies.paper.adapt import game_of, jobs_of, obstacle, planner_of, stage_of, turning_chunks, with_room
from potluck.training.config import RunConfig, setup_one
from potluck.training.lanes import alike
from potluck.training.loop import Setup


def of_task(task: str | None) -> Scenario:
    scenario = preset("paper").model_copy(update={"horizon": 3})
    return scenario if task is None else on_task(scenario, task)


@pytest.fixture(scope="module", params=[None, "digits"])
def stages(request: pytest.FixtureRequest) -> list[Setup]:
    scenario = with_room(of_task(request.param))
    one = setup_one(RunConfig(scenario, "random", slots=24, seeds=1, games=2))
    return [stage_of(one, stage) for stage in range(3)]


def samples(setup: Setup) -> np.ndarray:
    return np.asarray(game_of(setup).reset(jax.random.key(0)).terms.samples)


def test_the_first_silos_data_doubles(stages: list[Setup]) -> None:
    before, *after = map(samples, stages)
    for later in after:
        assert 2 * before[0] <= later[0] <= 2 * before[0] + 1
        np.testing.assert_array_equal(before[1:], later[1:])


def test_one_pays_three_times_as_much_for_energy_and_one_earns_half(stages: list[Setup]) -> None:
    before, *after = (game_of(stage).terms for stage in stages)
    for later in after:
        np.testing.assert_allclose(later.energy / before.energy, [1, 3, 1, 1], rtol=1e-6)
        np.testing.assert_allclose(later.profit / before.profit, [1, 1, 0.5, 1], rtol=1e-6)


def test_who_is_away_brings_nothing_whoever_decides(stages: list[Setup]) -> None:
    for stage, setup in enumerate(stages):
        state = setup.environment.reset(jax.random.key(0))
        expected = [1, 1, 1, 0 if stage == 1 else 1]
        _, _, report = setup.environment.step(state, jnp.ones((4, 1)), jax.random.key(1))
        np.testing.assert_array_equal(report.contributions, expected)
        _, _, report = planner_of(setup).step(state, jnp.ones((1, 4)), jax.random.key(1))
        np.testing.assert_array_equal(report.contributions, expected)


def test_all_stages_are_one_program(stages: list[Setup]) -> None:
    assert alike(stages[0], stages[1])
    assert alike(stages[1], stages[2])


def test_before_the_change_it_is_the_games_own_economy() -> None:
    """The silos that the scenario's seed draws, with their own profits, energies and sizes."""
    scenario = of_task(None)
    own = game_of(setup_one(RunConfig(scenario, "random", slots=24, seeds=1, games=2))).terms
    first = game_of(stage_of(setup_one(RunConfig(with_room(scenario), "random", slots=24, seeds=1, games=2)), 0)).terms
    for name in ("profit", "energy", "samples"):
        np.testing.assert_allclose(getattr(first, name), getattr(own, name), rtol=1e-6)


def test_a_job_turns_at_half_and_at_three_quarters(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = RunConfig(with_room(of_task(None)), "greedy", slots=24 * 40, seeds=2, games=8, looks=20)
    (job,) = jobs_of({"adapt/greedy": config}, tmp_path_factory.mktemp("job"))
    assert turning_chunks(config) == (config.chunks // 2, 3 * config.chunks // 4)
    profits = [
        float(game_of(job.lanes_at(chunk).lane(1)).terms.profit[2])
        for chunk in (0, config.chunks // 2 - 1, config.chunks // 2, config.chunks - 1)
    ]
    assert profits[0] == profits[1] == pytest.approx(2 * profits[2])
    assert profits[2] == profits[3]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"silos": {"count": 3}}, False),
        ({"silos": {"redraw": ("samples",)}}, False),
    ],
)
def test_it_needs_four_silos_whose_data_stays(changed: dict[str, dict[str, object]], expected: bool) -> None:
    scenario = preset("paper")
    silos = scenario.silos.model_copy(update=changed.get("silos", {}))
    assert (obstacle(scenario.model_copy(update={"silos": silos})) is None) is expected


def test_learners_carry_on_through_the_change(stages: list[Setup]) -> None:
    """The learner is the same object's arrays in every stage."""
    for stage in stages[1:]:
        assert eqx.tree_equal(stage.learner, stages[0].learner)
