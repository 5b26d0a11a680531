"""The benchmark of training, on work small enough to wait for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.errors import PotluckError
from potluck.studies.benchmarks.training import Row, Work, draw_cost, measure, run_config


@pytest.mark.slow
def test_a_row_says_what_was_timed_and_the_cache_saves_compiling() -> None:
    row = measure(Work(agent="greedy", task="curve", silos=3, games=4, seconds=0.0))
    assert (row.agent, row.task, row.silos, row.games, row.seeds) == ("greedy", "curve", 3, 4, 1)
    assert row.slots_per_second > 0
    assert row.compile_seconds > row.compile_seconds_cached


def test_a_work_that_cannot_be_done_is_one_line() -> None:
    with pytest.raises(PotluckError, match="bench training: agent must be one of"):
        measure(Work(agent="nobody", task="curve", seconds=0.0))


def test_silos_share_a_tasks_data() -> None:
    scenario = run_config(Work(silos=64)).federation
    assert scenario.silos.count == 64
    assert scenario.silos.samples.mean * 64 <= 1400  # type: ignore[union-attr]


def test_the_cost_of_silos_is_drawn(tmp_path: Path) -> None:
    rows = [
        Row(silos=n, device="cpu", slots_per_second=1000 / n, compile_seconds=30.0, compile_seconds_cached=5.0)
        for n in (4, 8)
    ]
    draw_cost(rows, tmp_path / "cost.png")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(PotluckError, match="no such file or directory"):
        draw_cost(rows, tmp_path / "nowhere" / "cost.png")


@pytest.mark.slow
def test_the_command_prints_json() -> None:
    small = ["--task", "curve", "--agent", "greedy", "--games", "2", "--seconds", "0"]
    words = ["bench", "training", *small, "--silos", "2,3", "--json"]
    done = subprocess.run([sys.executable, "-m", "potluck", *words], check=True, capture_output=True, text=True)
    assert [row["silos"] for row in json.loads(done.stdout)] == [2, 3]
