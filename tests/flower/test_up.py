"""Trials without Flower's processes: the run is played in this one, and a stand-in says its last words."""

import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from potluck.errors import PotluckError
from potluck.flower import compare, consortium, up
from potluck.flower.consortium import Consortium, make_consortium
from potluck.flower.federation import Federation
from potluck.flower.processes import Group
from potluck.flower.site import read_site
from potluck.flower.up import Trial, play
from potluck.ledger import verify
from potluck.scenario import FederationConfig
from tests.flower.local import START, LocalGrid, client_app, incentivized, scenario_of, state_of

SCENARIO = scenario_of(2, precision=FederationConfig())


def trial(folder: Path, slots: int = 3) -> Trial:
    return Trial(SCENARIO, slots, (1.0, 0.5), folder)


@pytest.fixture
def dies_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Runs that play so many slots at most, and end with 0 as `flwr run --stream` does."""
    most = [1000]

    class Here(Federation):
        def start_run(self, app: Path, config: Any, name: str = "run") -> None:
            del app
            played = Consortium(self.folder, ("silo-0", "silo-1"))
            grid = LocalGrid(played, [client_app() for _ in played.names])
            incentivized(played, run=name).start(grid, START, num_rounds=min(most[0], config["num-server-rounds"]))
            self.group.start(name, ["echo", "the server is out of memory"])

    @contextmanager
    def started(trial: Trial, found: Consortium) -> Iterator[Federation]:
        del trial
        with Group(found.folder / "logs", {}) as group:
            group.start("superlink", ["sleep", "600"])
            yield Here(group, found.folder, 0, None)

    monkeypatch.setattr(up, "_started", started)
    monkeypatch.setattr(up, "LOOKING", 0.01)
    return lambda slots: most.__setitem__(0, slots)


def test_a_run_that_died_half_way_is_no_success(dies_after: Callable[[int], None], tmp_path: Path) -> None:
    dies_after(2)
    seen: list[int] = []
    with pytest.raises(PotluckError, match=r"after 2 of 3 slots: the server is out of memory; see .*run-1.log") as said:
        play(trial(tmp_path), lambda rows: seen.append(rows[0].slot))
    assert str(tmp_path / "ledger.db") in str(said.value)
    assert seen == [1, 2]
    assert verify(tmp_path / "ledger.db").fault is None
    dies_after(1000)
    assert play(trial(tmp_path))[1] == "run-2"


class Killed(BaseException):
    """Where the process would have ended."""


def dying(real: Callable[..., Any], at: int) -> Callable[..., Any]:
    """The same, but for its n-th call."""
    calls = iter(range(at + 1))

    def once(*words: Any, **more: Any) -> Any:
        if next(calls) == at:
            raise Killed
        return real(*words, **more)

    return once


@pytest.mark.parametrize(("name", "at"), [("new_key", 1), ("write_private", 1), ("write_text", 0)])
def test_who_is_killed_while_a_consortium_is_made_can_ask_again(
    name: str, at: int, dies_after: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del dies_after
    with monkeypatch.context() as dead:
        dead.setattr(consortium, name, dying(getattr(consortium, name), at))
        with pytest.raises(Killed):
            play(trial(tmp_path))
    play(trial(tmp_path, slots=1))


@pytest.mark.parametrize("at", range(6))
def test_who_is_killed_while_a_consortium_is_moved_can_ask_again(
    at: int, dies_after: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del dies_after
    real = Path.replace
    moves = iter(range(100))

    def move(self: Path, target: Path) -> Path:
        if self.parent.name == "consortium.part" and not self.name.endswith(".part") and next(moves) == at:
            raise Killed
        return real(self, target)

    with monkeypatch.context() as dead:
        dead.setattr(Path, "replace", move)
        with pytest.raises(Killed):
            play(trial(tmp_path))
    found, _ = play(trial(tmp_path, slots=1))
    assert not (tmp_path / "consortium.part").exists()
    assert read_site(found.terms(1)).agent == 0.5


def test_no_key_of_another_is_written_over(tmp_path: Path) -> None:
    key = tmp_path / "coordinator.key"
    key.write_text("another's")
    with pytest.raises(PotluckError, match=r"out: .*coordinator.key is there already"):
        make_consortium(tmp_path, SCENARIO, (1.0, 0.5))
    assert [place.name for place in tmp_path.iterdir()] == ["coordinator.key"]
    assert key.read_text() == "another's"


def test_terms_are_as_they_were_until_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_consortium(tmp_path, SCENARIO, (1.0, 0.5))
    with monkeypatch.context() as dead:
        dead.setattr(os, "fsync", dying(os.fsync, 0))
        with pytest.raises(Killed):
            found.choose(0, 0.25)
    assert read_site(found.terms(0)).agent == 1.0
    found.choose(0, 0.25)
    assert read_site(found.terms(0)).agent == 0.25
    assert found.terms(0).stat().st_mode & 0o777 == 0o600


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained run whose policies are fixed shares."""
    config = types.SimpleNamespace(agent="mpgd", options={}, scenario=SCENARIO, federation=SCENARIO)
    adapted = types.SimpleNamespace(adapt=lambda scenario: scenario)
    expected = {"payoffs": np.zeros((1, 2)), "precision": np.zeros(1), "contribution": np.zeros(1)}
    monkeypatch.setattr(compare, "trained", lambda _: types.SimpleNamespace(config=config))
    monkeypatch.setattr(compare, "find_agent", lambda *_: (adapted,))
    monkeypatch.setattr(compare, "export_policy", lambda *_: None)
    monkeypatch.setattr(compare, "predict", lambda *_: expected)
    monkeypatch.setattr(compare, "Trial", lambda scenario, slots, _, out: Trial(scenario, slots, (1.0, 0.5), out))
    return Path("mpgd")


def test_a_second_comparison_tells_of_its_own_slots(
    run: Path, dies_after: Callable[[int], None], tmp_path: Path
) -> None:
    del dies_after
    first = compare.compare(run, 2, tmp_path)
    second = compare.compare(run, 5, tmp_path)
    found = Consortium(tmp_path / "federation", ("silo-0", "silo-1"))
    for silo in range(2):
        about = state_of(found, silo)
        assert about["slots"] == 7
        assert second.payoffs[silo] == pytest.approx((about["earned"] - 2 * first.payoffs[silo]) / 5)
    assert second.welfare != pytest.approx(first.welfare)  # longer, so its model became better


def test_a_silo_that_was_never_paid_is_named(
    run: Path, dies_after: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del dies_after
    compare.compare(run, 2, tmp_path)
    monkeypatch.setattr(LocalGrid, "send_and_receive", lambda *_, **__: [])
    with pytest.raises(PotluckError, match="silo-0 was paid for no slot"):
        compare.compare(run, 2, tmp_path)
