"""Several processes on one study."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from potluck.studies.paper import sharing
from potluck.studies.paper.pace import Piece, Unit
from potluck.studies.paper.sharing import free, shared


def never(_: Any) -> Generator[float]:
    yield 0.0


def unit(folder: Path, name: str, *needs: str) -> Unit:
    """A unit that is done when the file of its name is there."""
    piece = Piece(name, 1.0, (folder / f"{name}.json",), never)
    return Unit(name, (piece,), tuple(folder / f"{need}.json" for need in needs))


def finish(folder: Path, name: str) -> None:
    (folder / f"{name}.json").write_text("{}")


@pytest.fixture
def claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sharing, "AGAIN", 0.0)
    place = tmp_path / "claimed"
    place.mkdir()
    return place


def test_nobody_takes_what_another_is_at(tmp_path: Path, claimed: Path) -> None:
    first, second = unit(tmp_path, "a"), unit(tmp_path, "b")
    one, other = shared([first, second], claimed), shared([first, second], claimed)
    assert next(one) is first
    assert next(other) is second
    finish(tmp_path, "b")
    assert next(other) is None, "a is not its to do"
    finish(tmp_path, "a")
    assert list(one) == list(other) == []


def test_what_needs_others_waits_for_them(tmp_path: Path, claimed: Path) -> None:
    learnt, planned = unit(tmp_path, "learnt"), unit(tmp_path, "planned", "learnt")
    one, other = shared([planned, learnt], claimed), shared([planned, learnt], claimed)
    assert next(one) is learnt
    assert next(other) is None
    finish(tmp_path, "learnt")
    assert next(other) is planned


def test_who_is_killed_leaves_the_claim_to_others(tmp_path: Path, claimed: Path) -> None:
    only = unit(tmp_path, "a")
    words = "import fcntl, sys; f = open(sys.argv[1], 'wb'); fcntl.flock(f, fcntl.LOCK_EX); print('mine', flush=True)"
    command = [sys.executable, "-c", f"{words}; sys.stdin.read()", str(claimed / "a")]
    work = shared([only], claimed)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mine\n"
        assert next(work) is None
        holder.kill()
    assert next(work) is only


def test_what_is_compiled_ahead_is_what_nobody_is_at(tmp_path: Path, claimed: Path) -> None:
    units = [unit(tmp_path, name) for name in ("a", "b", "c")]
    one, other = shared(units, claimed), shared(units, claimed)
    present = next(one)
    next(other)
    assert present is units[0]
    assert free(units, present, claimed) is units[2]
    finish(tmp_path, "c")
    assert free(units, present, claimed) is None
