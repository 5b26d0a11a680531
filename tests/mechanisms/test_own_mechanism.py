"""The example of a mechanism of one's own: a scenario file, the stage game, the game and its PettingZoo face."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_mechanism.py"


def example(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a scenario file that names the mechanism."""
    path = tmp_path_factory.mktemp("own")
    assert example("scenario", "init", "my.toml", cwd=path).returncode == 0
    text = (path / "my.toml").read_text()
    start, _, rest = text.partition("[mechanism]")
    chosen = '[mechanism]\nkind = "leave-one-out"\nrate = 800.0\n\n# Precision'
    (path / "my.toml").write_text(start + chosen + rest.partition("# Precision")[2])
    return path


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_a_scenario_file_names_it_and_is_explained(folder: Path) -> None:
    shown = example("scenario", "show", "my.toml", cwd=folder).stdout
    assert "# money per unit of marginal precision\nrate = 800.0" in shown
    assert "leave-one-out" in example("list", "mechanism", cwd=folder).stdout


@pytest.mark.slow
def test_its_stage_game_is_solved_by_best_responses(folder: Path) -> None:
    found = json.loads(example("game", "my.toml", "--json", cwd=folder).stdout)
    assert found["solver"] == "best-response"
    assert found["nash_conv"] < 1e-6
    assert abs(sum(found["transfers"])) < 1e-9
    assert found["mechanism"] == {"kind": "leave-one-out", "rate": 800.0}
    assert found["welfare"] > found["no_redistribution"]["welfare"]


@pytest.mark.slow
@pytest.mark.parametrize("task", [(), ("--task", "digits")])
def test_silos_learn_under_it_and_are_certified(task: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    words = ("--agent", "greedy", "--slots", "60", "--seeds", "2", "--games", "2", "--out", run, *task)
    trained = example("train", "my.toml", *words, cwd=folder)
    assert trained.returncode == 0, trained.stderr
    certified = example("certify", run, "--games", "2", "--slots", "0", "--no-bounds", "--json", cwd=folder)
    assert certified.returncode == 0, certified.stderr
    assert json.loads(certified.stdout)["budget_residual"] < 1e-2


PROGRAM = """
import runpy
from pathlib import Path
import numpy as np
runpy.run_path(__EXAMPLE__, run_name="example")
from potluck.game.pettingzoo import parallel_env
from potluck.scenario import load
env = parallel_env(load(Path("my.toml")))
seen, _ = env.reset(seed=0)
while env.agents:
    seen, payoffs, _, _, infos = env.step({silo: 0.5 for silo in env.agents})
    assert all(env.observation_space(silo).contains(z) for silo, z in seen.items())
    assert abs(sum(info["transfer"] for info in infos.values())) < 1e-3
print("played")
"""


def test_pettingzoo_plays_it(folder: Path) -> None:
    program = PROGRAM.replace("__EXAMPLE__", repr(str(EXAMPLE)))
    answer = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.stdout == "played\n", answer.stderr


def test_without_the_script_the_file_is_refused_by_name(folder: Path) -> None:
    words = [sys.executable, "-m", "potluck", "game", "my.toml"]
    answer = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "my.toml: mechanism.kind must be one of redistribution, none" in answer.stderr
