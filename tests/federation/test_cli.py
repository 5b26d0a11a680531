"""The commands, as a person or a program runs them."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.federation import build, run


def potluck(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "potluck", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_a_run_is_pure_json_on_stdout_and_leaves_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "run.png"
    done = potluck(
        "federation", "run", "--contributions", "1,0.5,0", "--slots", "4", "--json", "--plot", str(picture),
        "--dynamics", "redraw", XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [slot["slot"] for slot in result["slots"]] == [1, 2, 3, 4]
    assert result["slots"][-1]["precision"] > result["initial"]
    assert len(result["slots"][0]["local_samples"]) == 3
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_is_the_same_game_as_in_the_library(tmp_path: Path) -> None:
    done = potluck(
        "federation", "run", "--contributions", "1,0.5,0,0.1", "--slots", "4", "--seed", "3", "--json",
        XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    trace = run(build("digits", seed=3), np.array([1, 0.5, 0, 0.1]), jax.random.key(3), 4)
    assert_allclose(result["initial"], trace.initial, atol=1e-6)
    # the program may have another number of devices; a sample in 397 may tip over
    assert_allclose([slot["precision"] for slot in result["slots"]], trace.precision, atol=1.1 / 397)


def test_a_run_shows_a_table(tmp_path: Path) -> None:
    done = potluck("federation", "run", "--slots", "2", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "precision" in done.stdout
    assert "350 350 350 350" in done.stdout
    assert done.stdout.endswith("┘\n")


def test_a_curve_is_measured_and_fitted(tmp_path: Path) -> None:
    done = potluck("federation", "curve", "--seeds", "1", "--slots", "6", "--json", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [point["contribution"] for point in result["common"]] == [0.05, 0.1, 0.25, 0.5, 0.75, 1.0]
    assert result["common"][-1]["sustained"]["mean"] > result["common"][0]["sustained"]["mean"]
    assert result["fit"].keys() == {"initial", "ceiling", "scale", "exponent"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--contributions", "1,nan,0"), "--contributions must be finite"),
        (("run", "--contributions", "1,1.5,0"), "silo 1 gives 1.5"),
        (("run", "--contributions", "1,a"), "--contributions must be numbers"),
        (("run", "--slots", "0"), "--slots must be 1 or more"),
        (("run", "--seed", "-1"), "--seed must be 0 or more and below 2**32, got -1"),
        (("run", "--seed", "4294967296"), "--seed must be 0 or more"),
        (("run", "--samples", "5000"), "ask for 20000 samples and the task has 1400"),
        (("run", "--plot", "a.txt"), "--plot must end in .png"),
        (("run", "--task", "folder:/nowhere.npz"), "does not exist"),
        (("run", "--task", "imagenet"), "'imagenet' is not one of digits"),
        (("curve", "--seeds", "0"), "seeds must be 1 or more"),
        (("curve", "--others", "2"), "--others must be in"),
    ],
)
def test_a_mistake_costs_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    done = potluck("federation", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_data_commands(tmp_path: Path) -> None:
    listed = potluck("data", "list", POTLUCK_CACHE=str(tmp_path))
    assert all(name in listed.stdout for name in ("digits", "fmnist", "cifar10", "folder"))
    missing = potluck("data", "path", "fmnist", POTLUCK_CACHE=str(tmp_path))
    assert missing.returncode == 2
    assert "potluck data fetch fmnist" in missing.stderr
    unknown = potluck("data", "fetch", "imagenet", POTLUCK_CACHE=str(tmp_path))
    assert unknown.returncode == 2
    fetched = potluck("data", "fetch", "digits", POTLUCK_CACHE=str(tmp_path))
    assert "1,400 samples and 397 held out" in fetched.stdout


def test_help_stays_light() -> None:
    script = "import sys, potluck.cli; print([m for m in ('jax', 'numpy', 'sklearn', 'rich.live') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "jax" not in done.stdout
    assert "sklearn" not in done.stdout
