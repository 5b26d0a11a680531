"""Federations are drawn, surveyed and fitted one by one; what was done is kept."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.agents.prior import SharedLaw, expected, numbers_of
from potluck.agents.prior_file import load_survey
from potluck.errors import PotluckError
from potluck.game import game
from potluck.scenario import CurvePrecision, FederationConfig, Scenario
from potluck.training import pretraining
from potluck.training.pretraining import federation, fitted, pretrain, surveyed


def test_every_seed_draws_another_federation_and_the_same_seed_the_same() -> None:
    drawn = [federation("curve", seed) for seed in range(8)]
    assert drawn == [federation("curve", seed) for seed in range(8)]
    assert len({scenario.model_dump_json() for scenario in drawn}) == 8
    assert len({scenario.silos.count for scenario in drawn}) > 2
    assert all(isinstance(scenario.precision, CurvePrecision) for scenario in drawn)
    trained = [federation("digits", seed).precision for seed in range(8)]
    assert all(isinstance(each, FederationConfig) for each in trained)
    assert {each.partition for each in trained if isinstance(each, FederationConfig)} == {"iid", "dirichlet"}


def test_a_law_that_made_the_games_is_found_again() -> None:
    own = numbers_of(SharedLaw()).at[:4].set(jnp.array([0.9, -0.3, 0.7, 1.5]))
    plans = jax.random.uniform(jax.random.key(0), (48, 10, 3)) ** 2
    found, noise = fitted(plans, jax.vmap(lambda plan: expected(own, plan))(plans))
    others = jax.random.uniform(jax.random.key(1), (8, 10, 3))
    predicted, true = (jax.vmap(lambda plan, law=law: expected(law, plan))(others) for law in (found, own))
    assert_allclose(predicted, true, atol=0.01)
    assert float(noise) < 0.02


def test_the_curve_is_surveyed_and_its_law_predicts_it() -> None:
    scenario = federation("curve", 3)
    plans, precision = surveyed(game(scenario), jax.random.split(jax.random.key(0), 32))
    assert plans.shape == (32, 30, scenario.silos.count)
    assert float(plans.min()) >= 0
    assert float(plans.max()) <= 1
    law, _ = fitted(plans[:24], precision[:24])
    predicted = jax.vmap(lambda plan: expected(law, plan))(plans[24:])
    assert float(jnp.sqrt(jnp.mean((predicted - precision[24:]) ** 2))) < 0.01


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a survey finds does not matter here."""

    def law_of(scenario: Scenario) -> tuple[list[float], float]:
        return np.random.default_rng(scenario.seed).normal(size=13).tolist(), 0.1

    monkeypatch.setattr(pretraining, "surveyed_law", law_of)


@pytest.mark.usefixtures("quick")
def test_a_survey_that_is_stopped_goes_on_to_the_same_file(tmp_path: Path) -> None:
    asked = ["curve"], 5, 40
    assert [len(step.survey.federations) for step in pretrain(tmp_path / "whole", *asked)] == [1, 2, 3, 4, 5]
    begun = pretrain(tmp_path / "stopped", *asked)
    assert len(list(itertools.islice(begun, 2))) == 2
    begun.close()
    assert len(load_survey(tmp_path / "stopped", fewest=2).federations) == 2
    assert [len(step.survey.federations) for step in pretrain(tmp_path / "stopped", *asked)] == [3, 4, 5]
    assert (tmp_path / "stopped").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(pretrain(tmp_path / "whole", *asked))
    with pytest.raises(PotluckError, match="holds a prior of other federations; name another file"):
        list(pretrain(tmp_path / "whole", ["curve"], 5, 41))
    assert np.isfinite(load_survey(tmp_path / "whole").prior.laws).all()


@pytest.mark.parametrize(
    ("tasks", "count", "seed", "said"),
    [
        (["curve"], 3, 0, "federations must be 4 to 4096, got 3"),
        (["curve"], 4, -1, "seed must be 0 or more"),
        (["x"], 4, 0, "tasks must be curve or one of digits"),
        ([""], 4, 0, "tasks must be curve or one of digits"),
    ],
)
def test_what_cannot_be_surveyed_is_named(tasks: list[str], count: int, seed: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(PotluckError, match=said):
        list(pretrain(tmp_path / "x", tasks, count, seed))
