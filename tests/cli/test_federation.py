"""The commands, as a person or a program runs them."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from potluck.cli.federation import CONFIG
from potluck.federation import build, run
from potluck.scenario import FederationConfig
from tests.cli.person import potluck


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
    held = result["slots"][0]["local_samples"]
    assert result["slots"][0]["brought"] == [held[0], round(held[1] / 2), 0]
    assert len(result["slots"][0]["precision_by_game"]) == result["games"] == 8
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_same_seed_is_the_same_game_as_in_the_library(tmp_path: Path) -> None:
    done = potluck(
        "federation", "run", "--contributions", "1,0.5,0,0.1", "--slots", "4", "--seed", "3", "--json", "--games", "1",
        XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    trace = run(build(seed=3), np.array([1, 0.5, 0, 0.1]), jax.random.key(3), 4)
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


@pytest.mark.slow
def test_every_field_of_the_config_is_an_option(tmp_path: Path) -> None:
    words = "--optimiser adam --learning-rate 0.003 --aggregation fedyogi --server-learning-rate 0.1 --proximal 0.1"
    more = "--batch-size 20 --epochs 2 --hidden 16 --dtype bfloat16 --held-out 100 --partial-batches full --json"
    done = potluck("federation", "run", "--slots", "1", *words.split(), *more.split(), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    described = json.loads(done.stdout)["federation"]
    assert {name for name in CONFIG if name not in described} == set()
    assert (described["aggregation"], described["batch_size"], described["dtype"]) == ("fedyogi", 20, "bfloat16")
    assert CONFIG.keys() == FederationConfig.model_fields.keys() - {"source", "channels"}


def test_silos_of_different_sizes_can_be_asked_for(tmp_path: Path) -> None:
    picture = tmp_path / "[red]run.png"
    done = potluck(
        "federation", "run", "--contributions", "1,1,1", "--partition", "quantity", "--samples", "100,200,50",
        "--slots", "1", "--json", "--plot", str(picture), XDG_CACHE_HOME=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["slots"][0]["local_samples"] == [100, 200, 50]
    assert f"picture: {picture}" in done.stderr


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ("100,200", "samples: 2 sizes for 4 silos"),
        ("10.5", "--samples must be whole numbers of 1 or more, got '10.5'"),
        ("many", "--samples must be numbers separated by commas"),
    ],
)
@pytest.mark.parametrize("command", ["run", "curve"])
def test_sizes_that_make_no_sense_cost_one_line(command: str, samples: str, message: str) -> None:
    done = potluck("federation", command, "--samples", samples)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_stays_light() -> None:
    script = "import sys, potluck.cli; print([m for m in ('jax', 'numpy', 'sklearn', 'rich.live') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "jax" not in done.stdout
    assert "sklearn" not in done.stdout
