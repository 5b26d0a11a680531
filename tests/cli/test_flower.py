"""`potluck flower up` as a person runs it: it plays, leaves a ledger, and never leaves a process behind."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from potluck.cli.flower import _side_by_side
from potluck.flower.compare import Comparison
from potluck.flower.processes import MARK
from potluck.ledger import Row, reading, verify
from tests.cli.person import potluck, refused
from tests.flower.real import wait_for

LONG = 600.0
HEEDING = "from signal import *; signal(SIGINT, default_int_handler); from potluck.cli import main; main()"
"""Who runs in the background may have been told to ignore Ctrl-C."""


def up(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """In a home of its own, where nothing may appear."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    asked = ["flower", "up", "--silos", "2", "--out", str(folder / "trial"), *words]
    environment = {**os.environ, "HOME": str(home), "COLUMNS": "80"}
    environment.pop("XDG_CACHE_HOME", None)
    return subprocess.Popen(
        [sys.executable, "-c", HEEDING, *asked],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def started_by(owner: int) -> list[int]:
    """Processes that carry the mark of this owner."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(f"{MARK}={owner}-".encode()) for word in words) and int(entry.name) != owner:
            found.append(int(entry.name))
    return found


def slots(folder: Path) -> int:
    ledger = folder / "trial" / "ledger.db"
    if not ledger.exists():
        return 0
    with reading(ledger) as book:
        return len({(row.run, row.slot) for row in book.rows()})


def played_and_left(process: "subprocess.Popen[str]", folder: Path) -> None:
    """Two slots, settled; a ledger, and nothing else."""
    out, said = process.communicate(timeout=LONG)
    assert process.returncode == 0, said
    found = json.loads(out)
    assert found["verified"]
    assert [slot["contributions"] for slot in found["slots"]][-2:] == [[0.5, 0.5]] * 2
    assert verify(folder / "trial" / "ledger.db").fault is None
    assert not started_by(process.pid)
    assert list((folder / "home").iterdir()) == []
    assert "Traceback" not in said


@pytest.mark.slow
def test_simulated_it_leaves_a_ledger_and_nothing_else(tmp_path: Path) -> None:
    played_and_left(up(tmp_path, "--slots", "2", "--agent", "0.5", "--json", "--simulation"), tmp_path)


@pytest.mark.slow
def test_stopped_or_killed_it_leaves_no_process_behind(tmp_path: Path) -> None:
    first = up(tmp_path, "--slots", "1000", "--agent", "0.5", "--tls")
    wait_for(lambda: slots(tmp_path) >= 1, "the first slot")
    assert len(started_by(first.pid)) >= 3  # a SuperLink and two SuperNodes at least
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=LONG)
    assert first.returncode == 130
    assert "Traceback" not in said
    assert not started_by(first.pid)
    assert verify(tmp_path / "trial" / "ledger.db").fault is None
    second = up(tmp_path, "--slots", "1000", "--agent", "0.5", "--tls")
    known = slots(tmp_path)
    wait_for(lambda: slots(tmp_path) > known, "another slot")
    second.kill()
    second.communicate(timeout=LONG)
    orphans = started_by(second.pid)
    assert orphans
    played_and_left(up(tmp_path, "--slots", "2", "--agent", "0.5", "--json", "--tls"), tmp_path)
    assert not started_by(second.pid)


def test_mistakes_are_named_before_anything_starts(tmp_path: Path) -> None:
    out = str(tmp_path / "trial")
    words = ("flower", "up", "--silos", "2", "--out", out)
    assert "--policy" in refused(*words, "--policy", "nowhere.potluck")
    assert "--tls" in refused(*words, "--tls", "--simulation")
    assert "nobody" in refused(*words, "--agent", "nobody")
    assert "planner" in refused(*words, "--agent", "planner")
    assert not (tmp_path / "trial").exists()


def test_runs_of_one_name_are_refused_and_both_are_named(tmp_path: Path) -> None:
    said = refused("flower", "compare", "a/mpgd", "b/wpr", "b/mpgd", "--out", str(tmp_path / "out"))
    assert said.startswith("potluck: runs: a/mpgd and b/mpgd have the same name")
    assert not (tmp_path / "out").exists()


def test_names_are_printed_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(run: Path, slots: int, out: Path, watch: Callable[[list[Row]], None]) -> Comparison:
        del out, watch
        return Comparison(
            str(run), "mpgd", "none", slots, 100.0, (60.0, 40.0), 0.5, 0.5, 100.0, (90.0, 110.0), (60.0, 40.0), 0.5, 0.5
        )

    monkeypatch.setattr("potluck.flower.compare.compare", compared)
    answer = potluck("flower", "compare", "runs/[red]", "runs/[bold]:cat:", "--out", tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "[red]" in answer.stdout
    assert "[bold]:cat:" in answer.stdout


def test_a_comparison_fits_eighty_columns() -> None:
    numbers = (12345.6,) * 4
    one = Comparison(
        "runs/" + "m" * 30, "mpgd", "redistribution", 30, 49382.4, numbers, 0.9512, 0.221, 49382.4, (1.0, 2.0), numbers,
        0.9512, 0.221,
    )  # fmt: skip
    said = io.StringIO()
    Console(width=80, file=said).print(_side_by_side([one, one]))
    assert "…" not in said.getvalue()
    assert said.getvalue().count("12345.6") == 16
    assert max(map(len, said.getvalue().splitlines())) <= 80
