"""Every piece of code in docs/extending.md runs as it stands there, and does what the page says of it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import potluck
from potluck.errors import PotluckError
from potluck.federation import run_games
from potluck.federation.fedavg import FedAvg
from potluck.game import Game
from potluck.training.run import Trained

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


def sections() -> dict[str, str]:
    """The Python code under each heading, in one piece."""
    found = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        code = re.findall(r"^```python\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL)
        if code:
            found[title] = "\n".join(code)
    return found


def trains(run: Trained) -> None:
    assert run.finished
    assert run.slots >= 480


def mechanism(names: dict[str, Any]) -> None:
    trains(names["run"])
    game = names["run"].lanes.tree.environment.game
    state = game.reset(jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), 2):
        state, slot = game.step(state, jnp.array([1.0, 0.5, 0.2, 0.0]), key)
        assert slot.payoff.transfer[0] > slot.payoff.transfer[1] > slot.payoff.transfer[3]
        assert abs(slot.payoff.transfer.sum()) < 1e-3
        assert slot.signal == 800


def agent(names: dict[str, Any]) -> None:
    trains(names["run"])


def own_game(names: dict[str, Any]) -> None:
    trains(names["run"])
    table = pd.read_csv("runs/duopoly/metrics.csv")
    assert np.allclose(table.price, 1 - table.contribution_0 - table.contribution_1, atol=1e-5)
    again = potluck.train(names["duopoly"], agent="mpgd", slots=512, seeds=2, games=8, out="runs/duopoly")
    assert again.finished
    assert 0 <= names["certificate"].share < 1
    setup, agents = names["run"].of_seed(0)
    learnt = jax.vmap(setup.learner.play)(agents, jax.vmap(setup.learner.initial_memory)(agents), jnp.zeros((2, 2)))[1]
    assert np.allclose(names["sold"], learnt[1], atol=1e-6)


def metric(names: dict[str, Any]) -> None:
    trains(names["run"])
    table = pd.read_csv("runs/watched/metrics.csv")
    assert (table.action_deviation > 0).all()


def target(names: dict[str, Any]) -> None:
    trains(names["run"])
    found = names["one_step"](np.array([1.0, 2.0]), np.array([10.0, 20.0]), 8.0, np.array([False, True]), 0.5, 1.0)
    assert found.tolist() == [11.0, 2.0]


def learns(federation: FedAvg) -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    trace = run_games(federation, np.ones((2, 4)), keys, slots=12)
    assert (trace.precision[:, -1] > trace.initial + 0.2).all()


def task(names: dict[str, Any]) -> None:
    learns(names["federation"])
    assert names["scenario"].precision.task == "stripes"


def aggregation(names: dict[str, Any]) -> None:
    learns(names["federation"])


def observation(names: dict[str, Any]) -> None:
    played: Game = names["played"]
    state = played.reset(jax.random.key(0))
    state, first = played.step(state, jnp.ones(4), jax.random.key(1))
    seen = played.observe(state)
    assert seen.shape == (4, 7 * 6 + 1)
    assert np.allclose(seen[:, -1], first.precision / 6)


def nothing(_: dict[str, Any]) -> None:
    """Only shown."""


WHAT_IT_SAYS: dict[str, Callable[[dict[str, Any]], None]] = {
    "How the command line finds your code": nothing,
    "A mechanism": mechanism,
    "An agent": agent,
    "A game of your own": own_game,
    "A metric of a learner": metric,
    "A critic target, an estimator, a policy": target,
    "A task": task,
    "An aggregation": aggregation,
    "An observation": observation,
}


def test_every_section_with_code_is_tried() -> None:
    assert list(sections()) == list(WHAT_IT_SAYS)


@pytest.mark.parametrize("title", list(WHAT_IT_SAYS))
def test_the_page_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(sections()[title], str(PAGE), "exec"), names)
    WHAT_IT_SAYS[title](names)


def test_an_agent_that_learns_from_one_devices_games_alone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = sections()["An agent"].replace("everywhere(window", "(window").replace('"follower"', '"apart"')
    with pytest.raises(PotluckError, match=r"agent: apart learns another thing on every device; .*everywhere"):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "page"})
