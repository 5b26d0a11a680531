"""Every agent learns for a few windows and stays sane."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from potluck.agents import AGENTS, Options
from potluck.economy import nash
from potluck.errors import PotluckError
from potluck.game import stage_game
from potluck.scenario import FederationConfig, preset
from potluck.training.config import RunConfig, setup
from potluck.training.run import start, trained
from tests.training.conftest import TINY

WAYS = {
    "mpgd": Options(dnc="none", estimator="ppo"),
    "wpr": Options(dnc="none", policy="beta"),
    "maa2c": Options(dnc="none"),
    "mappo": Options(),
    "lineage": Options(),
    "mbpg": Options(),
    "pretrained": Options(),
    "greedy": Options(),
    "planner": Options(),
    "nash": Options(),
    "random": Options(),
    "fixed:0.5": Options(),
}


def test_every_agent_of_the_registry_is_tried() -> None:
    assert [name.partition(":")[0] for name in WAYS] == list(AGENTS)


LONG = ("wpr", "planner", "lineage", "maa2c")


@pytest.mark.parametrize("agent", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in WAYS])
def test_an_agent_trains_and_stays_finite(agent: str, tmp_path: Path) -> None:
    plan = RunConfig(TINY, agent, WAYS[agent], slots=24, seeds=1, games=2, window=4)
    list(start(plan, tmp_path / "run"))
    table = pd.read_csv(tmp_path / "run" / "metrics.csv")
    assert np.isfinite(table.to_numpy()).all()
    shares = table[[f"contribution_{n}" for n in range(3)]].to_numpy()
    assert shares.min() >= 0
    assert shares.max() <= 1
    if agent.startswith("fixed"):
        assert (shares == 0.5).all()
    if agent == "nash":
        assert_allclose(shares, np.broadcast_to(nash(stage_game(TINY)), shares.shape), atol=1e-6)
    if agent == "wpr":
        assert (table.signal == 0).all()
    assert trained(tmp_path / "run").config == dataclasses.replace(plan)


def test_real_training_has_no_equilibrium_to_solve() -> None:
    scenario = TINY.model_copy(
        update={"precision": FederationConfig(), "silos": TINY.silos.model_copy(update={"samples": 50.0})}
    )
    with pytest.raises(PotluckError, match=r"precision\.source must be 'curve' to solve the stage game"):
        setup(RunConfig(scenario, "nash", seeds=1))


@pytest.mark.parametrize("slots", [1, 480, 23_040, 100_000])
def test_a_run_plays_hardly_more_than_it_was_asked_for(slots: int) -> None:
    plan = RunConfig(preset("paper"), slots=slots)
    window = plan.games * plan.depth
    played = plan.chunks * plan.chunk * window
    assert slots <= played < max(1.01 * slots, slots + window)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("wpr:1", Options(), "agent must be one of .*, got 'wpr:1'"),
        ("greedy:3", Options(), "agent must be one of .*, got 'greedy:3'"),
        ("fixed:2", Options(), "fixed needs a contribution in"),
        ("greedy", Options(estimator="ppo"), "estimator: greedy has no choice of it"),
        ("maa2c", Options(estimator="ppo"), "estimator: maa2c has no choice of it"),
    ],
)
def test_what_an_agent_cannot_be_is_refused(name: str, options: Options, message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        setup(RunConfig(TINY, name, options, seeds=1))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(PotluckError, match="dnc must be one of critic, actor, both, none, got 'all'"):
        Options(dnc="all")
