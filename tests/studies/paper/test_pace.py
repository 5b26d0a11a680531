"""How long a study says it will take."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from potluck.studies.paper.pace import LEARNING, PLAY, Pace, Piece, Trial


def never(_: Any) -> Generator[float]:
    yield 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    return now


def test_the_rest_is_told_by_the_pace_of_slots_and_by_what_compiling_took(clock: list[float], tmp_path: Path) -> None:
    missing = (tmp_path / "result.json",)
    first, second = (Piece(name, cost, missing, never, lambda: None) for name, cost in (("a", 1000.0), ("b", 9000.0)))
    found = Pace([first, second])
    assert (found.share(), found.left()) == (0.0, None)
    found.begins()
    for seconds, share in ((4.0, 0.25), (5.0, 0.5), (6.0, 0.75)):  # 4 s to compile, then 250 slots a second
        clock[0] = seconds
        found.at(first, share)
    assert found.share() == pytest.approx(0.075)
    assert found.left() == pytest.approx(2 * 4.0 / 2 + 9250 / 250)
    found.over(first)
    found.begins()
    clock[0] = 30.0
    found.at(second, 0.1)  # its first stretch may have compiled
    assert found.share() == pytest.approx(0.19)
    assert found.left() == pytest.approx(4.0 / 2 + 8100 / 250)
    clock[0] = 34.0
    found.at(second, 0.2)
    assert found.left() == pytest.approx(4.0 / 2 + 7200 * 6 / 1400)
    found.over(second)
    assert (found.share(), found.left()) == (1.0, 0.0)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    there = tmp_path / "result.json"
    there.write_text("{}")
    found = Pace([Piece("plan", 1000.0, (there,), never), Piece("learn", 3000.0, (tmp_path / "other.json",), never)])
    assert found.share() == 0.25


def test_what_takes_its_own_time_is_not_told_in_slots(clock: list[float], tmp_path: Path) -> None:
    missing = (tmp_path / "result.json",)
    learn, plan = Piece("learn", 1000.0, missing, never), Piece("plan", 1000.0, missing, never, seconds=60.0)
    found = Pace([learn, plan])
    found.begins()
    for seconds, share in ((1.0, 0.25), (2.0, 0.5)):  # 250 slots a second
        clock[0] = seconds
        found.at(learn, share)
    assert found.left() == pytest.approx(500 / 250 + 1000 / 250 + 60)
    found.over(learn)
    found.begins()
    found.at(plan, 0.5)
    assert found.left() == pytest.approx(500 / 250 + 30)


def test_a_trial_tells_until_slots_are_counted(clock: list[float], tmp_path: Path) -> None:
    learn = Piece("learn", 1000.0, (tmp_path / "result.json",), never, lambda: None)
    found = Pace([learn])
    found.expects(Trial(slot=0.01, compiling=3.0))
    assert found.left() == pytest.approx(1000 * 0.01 / PLAY + 3.0 * LEARNING / 2)
    found.begins()
    for seconds, share in ((4.0, 0.25), (5.0, 0.5)):
        clock[0] = seconds
        found.at(learn, share)
    assert found.left() == pytest.approx(4.0 / 2 + 500 / 250)
