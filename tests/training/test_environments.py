"""A game of one's own is trained, kept, exported and judged like a federation."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import potluck
from potluck.agents.known_games import ENVIRONMENTS, Cournot
from potluck.errors import PotluckError
from potluck.training.config import RunConfig, read_config, setup_one, write_config
from potluck.training.export import export_policy, load_policy
from potluck.training.run import Trained, train_in, trained
from tests.cli.person import potluck as typed
from tests.cli.person import refused


class Pair(eqx.Module):
    """u = −Σ(a − ⅓, a − ⅔)²; two numbers are decided, and nothing is seen but a one."""

    observed: int = 1
    paid: int = 1
    reported: float | tuple[float, float] = 0.5
    grows: bool = False
    players, action_size, horizon = 1, 2, 8

    @property
    def observation_size(self) -> int:
        return self.observed

    def reset(self, key: Any) -> Any:
        del key
        return jnp.zeros(1)

    def observe(self, state: Any) -> Any:
        del state
        return jnp.ones((1, 1))

    def step(self, state: Any, actions: Any, key: Any) -> Any:
        del key
        short = jnp.sum((actions - jnp.array([1 / 3, 2 / 3])) ** 2, axis=-1)
        after = jnp.zeros(2) if self.grows else state
        return after, -jnp.broadcast_to(short, (self.paid,)), {"half": jnp.asarray(self.reported)}


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    ENVIRONMENTS.register("pair", Pair)
    ENVIRONMENTS.register("nothing", lambda: None)  # type: ignore[arg-type, return-value]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Path]:
    folder = tmp_path_factory.mktemp("own") / "run"
    config = RunConfig(potluck.environment("pair", seed=3), "greedy", slots=256, seeds=2, games=4)
    for progress in train_in(folder, config):
        assert progress.precision is None
    return trained(folder), folder


def test_what_a_run_plays_is_written_and_read_back(tmp_path: Path) -> None:
    config = RunConfig(potluck.environment("cournot", costs=(0.1, 0.2), discount=0.8, seed=7), "mpgd")
    write_config(config, tmp_path)
    assert read_config(tmp_path) == config
    built: Any = setup_one(read_config(tmp_path)).environment
    assert_allclose(np.asarray(built.environment.costs), [0.1, 0.2])
    assert not (tmp_path / "scenario.toml").exists()


def test_its_metrics_are_its_own(run: tuple[Trained, Path]) -> None:
    table = np.genfromtxt(run[1] / "metrics.csv", delimiter=",", names=True)
    assert table.dtype.names == ("seed", "slot", "welfare", "contribution_0", "payoff_0", "half", "best_payoff")
    assert_allclose(table["welfare"], table["payoff_0"])
    assert set(table["seed"]) == {3, 4}
    assert (table["half"] == 0.5).all()


def test_a_certificate_counts_what_a_player_could_gain(run: tuple[Trained, Path]) -> None:
    # of constants alike in both numbers ½ loses least: 2/36; 0 and 1 lose 5/9: the stake is ½
    found = potluck.certify(run[0], games=4, slots=0)
    (player,) = found.silos
    assert player.stake == pytest.approx(0.5, abs=1e-4)
    assert found.welfare.mean == pytest.approx(player.payoff.mean, abs=1e-5)
    best = max(0.0, -1 / 18 - player.payoff.mean)
    assert found.nash_conv == pytest.approx(best, abs=1e-5) or found.nash_conv > best
    assert player.transfer.mean == 0


def test_a_policy_decides_all_numbers(run: tuple[Trained, Path], tmp_path: Path) -> None:
    export_policy(run[0], silo=0, seed=4, place=tmp_path / "p")
    policy = load_policy(tmp_path / "p")
    learnt = np.asarray(run[0].of_seed(4)[1].action[0])
    assert_allclose(policy.act([1.0]), learnt)
    assert policy.decide([1.0]) == pytest.approx(learnt[0])
    assert policy.about["environment"]["name"] == "pair"
    with pytest.raises(PotluckError, match="observation must be 1 numbers"):
        policy.act([1.0, 2.0])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("duel", {}, "environment must be one of cournot, .*, got 'duel'"),
        ("nothing", {}, "environment: 'nothing' must have players, .* and step"),
        ("pair", {"size": 3}, "environment: 'pair' cannot be made from these settings .*size"),
        ("pair", {"observed": 3}, r"environment: 'pair' must show numbers of shape \[1, 3\], got \[1, 1\]"),
        ("pair", {"observed": 0}, "environment: 'pair' must have 1 or more observation_size, a whole number, got 0"),
        ("pair", {"paid": 2}, r"environment: 'pair' must pay 1 players, got shape \[2\]"),
        ("pair", {"reported": [1.0, 2.0]}, "environment: 'pair' must report single numbers, by name"),
        ("pair", {"grows": True}, "environment: 'pair' must keep the shapes and types of its state"),
        ("pair", {"discount": 1.5}, "discount must be at most 1, got 1.5"),
        ("cournot", {"costs": {1, 2}}, "environment: settings must be numbers, texts or lists of them"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        potluck.environment(name, **settings)


@pytest.mark.parametrize("agent", ["wpr", "planner", "nash"])
def test_an_agent_for_federations_is_refused(agent: str) -> None:
    with pytest.raises(PotluckError, match=f"^agent: {agent} is "):
        setup_one(RunConfig(potluck.environment("cournot"), agent))


def test_what_only_a_federation_has_is_refused_in_one_line(run: tuple[Trained, Path]) -> None:
    assert "pair is no federation, which this needs" in refused("play", str(run[1]))
    assert "bounds: pair is no federation, without WPR; add --no-bounds" in refused("certify", str(run[1]))


def test_the_command_line_certifies_and_exports_it(run: tuple[Trained, Path], tmp_path: Path) -> None:
    judged = typed("certify", run[1], "--no-bounds", "--slots", "0", "--games", "4")
    assert judged.returncode == 0
    assert "NashConv" in judged.stdout
    assert typed("export", run[1], "--silo", "0", "--out", tmp_path / "p").returncode == 0


def test_another_game_in_the_folder_is_refused(run: tuple[Trained, Path]) -> None:
    with pytest.raises(PotluckError, match="holds another run"):
        potluck.train(potluck.environment("pair", seed=4), "greedy", slots=256, seeds=2, games=4, out=run[1])


def test_the_shipped_ones_are_listed() -> None:
    assert isinstance(ENVIRONMENTS["cournot"](), Cournot)
