"""Training as a person runs it: real processes, stopped in every way there is."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from rich.console import Console

from potluck.cli.train import _slots, _sums
from potluck.scenario import render
from tests.cli.person import potluck
from tests.training.conftest import CACHE, TINY

LONG = 24
"""Chunks of the runs that are stopped on the way."""
ENVIRONMENT = os.environ | {"POTLUCK_CACHE": str(CACHE / "potluck")}


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "potluck", *map(str, words)]


def process(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, check=False, cwd=cwd, env=ENVIRONMENT, timeout=300
    )


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("scenario") / "tiny.toml"
    file.write_text(render(TINY))
    return file


def training(scenario: Path, out: Path, chunks: int = LONG) -> list[str | Path]:
    """Games over two devices where there are two."""
    return [
        "train", scenario, "--dnc", "none", "--seeds", "2", "--games", "2", "--window", "3",
        "--slots", str(48 * chunks), "--out", out, "--checkpoint", "0.1",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def whole(scenario: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nobody stops this one."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = process(*training(scenario, folder), "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["slots"] == 48 * LONG
    assert summary["welfare_by_seed"].keys() == {"0", "1"}
    assert len(summary["contribution"]) == 3
    return folder


def metrics(folder: Path) -> bytes:
    return (folder / "metrics.csv").read_bytes()


def stop(words: list[str | Path], folder: Path, how: signal.Signals, after: int) -> tuple[int, str]:
    """Start training, and send a signal once its metrics have so many bytes, or at −1 once it is written down."""
    # A test runner in the background may have told its children to ignore Ctrl-C.
    heeding = "from signal import *; signal(SIGINT, default_int_handler); from potluck.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", heeding, *map(str, words)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    file = folder / ("metrics.csv" if after >= 0 else "run.json")
    while process.poll() is None and (not file.exists() or file.stat().st_size <= after):
        time.sleep(0.005)
    process.send_signal(how)
    _, said = process.communicate(timeout=120)
    return process.returncode, said


@pytest.mark.slow
def test_killed_at_a_random_moment_a_run_goes_on_to_the_same_metrics(
    scenario: Path, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    length = len(metrics(whole))
    code, _ = stop(training(scenario, folder), folder, signal.SIGKILL, random.randrange(length // 10, length // 2))
    assert code == -signal.SIGKILL
    assert len(metrics(folder)) < length
    done = process("resume", folder)
    assert done.returncode == 0, done.stderr
    assert metrics(folder) == metrics(whole)


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_goes_on_to_the_same_metrics(scenario: Path, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    length = len(metrics(whole))
    words = [*training(scenario, folder)[:-1], "1000"]  # no checkpoint but the one that Ctrl-C leaves
    code, said = stop(words, folder, signal.SIGINT, length // 5)
    assert code == 130, said
    assert said.splitlines()[-1] == f"resume with: potluck resume {folder}"
    assert "Traceback" not in said
    (left,) = (folder / "checkpoints").glob("*.ckpt")
    assert 0 < int(left.stem) < LONG
    done = process("resume", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["slots"] == 48 * LONG
    assert metrics(folder) == metrics(whole)


def test_ctrl_c_before_the_first_chunk_leaves_at_once(scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, said = stop(training(scenario, folder), folder, signal.SIGINT, -1)
    assert code == 130, said
    assert said.strip() in {f"resume with: potluck resume {folder}", ""}  # nothing before there is a run
    assert not (folder / "checkpoints").exists()


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_a_run_goes_on(scenario: Path, whole: Path, tmp_path: Path) -> None:
    # No file may grow beyond 256 kB, so metrics can be written and checkpoints cannot.
    folder = tmp_path / "run"
    line = " ".join(command(*training(scenario, folder)))
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 256; exec {line}"], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 2
    assert "checkpoint not written (file too large)" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert process("resume", folder).returncode == 0
    assert metrics(folder) == metrics(whole)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_a_warning_of_one_line(whole: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    newest = max((folder / "checkpoints").glob("*.ckpt"))
    newest.write_bytes(b"")
    done = process("resume", folder, "--json")
    assert done.returncode == 0
    assert done.stderr.splitlines()[0].startswith(f"potluck: {newest}: damaged")
    assert metrics(folder) == metrics(whole)


@pytest.mark.slow
def test_devices_do_not_matter(scenario: Path, tmp_path: Path) -> None:
    tables = []
    for cores in ("1", "2"):
        folder = tmp_path / cores
        words = [str(word) for word in training(scenario, folder, chunks=4)]
        environment = {**ENVIRONMENT, "XLA_FLAGS": f"--xla_force_host_platform_device_count={cores}"}
        subprocess.run([sys.executable, "-m", "potluck", *words], check=True, capture_output=True, env=environment)
        written = json.loads((folder / "run.json").read_text())
        assert written["computed_with"]["devices"].startswith(f"{cores} ")
        tables.append(pd.read_csv(folder / "metrics.csv").to_numpy())
    # losses nearly cancel: their error is that of what they sum, however small they are
    assert_allclose(tables[0], tables[1], rtol=1e-3, atol=3e-5)


def test_play_shows_the_slots(whole: Path) -> None:
    played: dict[str, Any] = json.loads(potluck("play", whole, "--json", "--seed", "1").stdout)
    assert [slot["slot"] for slot in played["slots"]] == [1, 2, 3, 4]
    for slot in played["slots"]:
        assert_allclose(sum(slot["payoffs"]), slot["welfare"], rtol=1e-5)
        assert np.all((np.array(slot["contributions"]) >= 0) & (np.array(slot["contributions"]) <= 1))
    shown = potluck("play", whole, "--seed", "1").stdout
    assert all(f"{slot['precision']:.4f}" in shown for slot in played["slots"])
    paid = sum(slot["transfers"][0] for slot in played["slots"])
    assert f"{paid:+,.1f}" in shown


def test_play_draws_who_pays_whom(whole: Path, tmp_path: Path) -> None:
    picture = tmp_path / "transfers.png"
    assert potluck("play", whole, "--plot", picture).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("silos", [2, 4, 6, 100])
def test_a_game_fits_eighty_columns(silos: int) -> None:
    row = {
        "slot": 30, "contributions": [0.123] * silos, "precision": 0.8765, "signal": -12.34,
        "payoffs": [12345.6] * silos, "transfers": [-1234.5] * silos, "welfare": 12345.6 * silos,
    }  # fmt: skip
    said = io.StringIO()
    Console(width=80, file=said).print(_slots([row], "a game"), _sums([row]))
    assert "…" not in said.getvalue()
    assert max(map(len, said.getvalue().splitlines())) <= 80


def test_export_writes_a_file(whole: Path, tmp_path: Path) -> None:
    done = potluck("export", whole, "--silo", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["observation"] == 10
    assert (tmp_path / "policy.potluck").stat().st_size == told["bytes"]


def test_tensorboard_is_named_where_it_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['tensorboardX'] = None; from potluck.cli import main; main()",
            "train",
            "--tensorboard",
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'potluck-fl[tensorboard]'" in done.stderr


def test_a_run_that_is_there_is_not_overwritten(scenario: Path, whole: Path) -> None:
    done = potluck(*training(scenario, whole))
    assert done.returncode == 2
    assert f"{whole}: holds a run; go on with `potluck resume {whole}`" in done.stderr


@pytest.mark.parametrize("name", ["train", "resume", "play", "export"])
def test_help_teaches(name: str) -> None:
    assert f"potluck {name}" in potluck(name, "--help").stdout
