"""Whatever a person mistypes costs one line that names the field and the remedy, and nothing else."""

import shlex
from pathlib import Path

import pytest

from tests.cli.person import refused

MISTAKES = {
    "game --preset papre": "preset must be one of paper, dilemma",
    'game --preset ""': "preset must be one of paper, dilemma",
    'train --preset ""': "preset must be one of paper, dilemma",
    'scenario show --preset ""': "preset must be one of paper, dilemma",
    "game --intensity -1": "--intensity must be",
    "game --intensity nan": "--intensity must be",
    "game --intensity 1e308": "--intensity must be",
    "game --sweep 0:16": "--sweep must be FROM:TO:POINTS",
    "game --sweep 5:1:3": "--sweep must have 0 ≤ FROM < TO",
    "game --sweep 0:16:999999999": "--sweep must have",
    "game --contributions 1,0.5": "4 silos need 4 numbers, got 2",
    "game --contributions 1,0.5,0.5,1.1": "silo 3 gives 1.1; a share of its data is in [0, 1]",
    "game --contributions 1,0.5,0.5,nan": "must be finite",
    "game --contributions 1,0.5,0.5,x": "must be numbers separated by commas",
    "game --plot picture.bmp": "--plot must end in .png, .pdf or .svg",
    "game nowhere.toml": "no such file",
    "game nowhere.toml --preset paper": "exclude each other",
    "scenario validate .": "is a directory; name a scenario file",
    "scenario validate /dev/zero": "larger than 4 MB",
    "games": "No such command",
    "federation run --contributions 1,nan,0": "--contributions must be finite",
    "federation run --contributions 1,1.5,0": "silo 1 gives 1.5",
    "federation run --contributions 1,a": "--contributions must be numbers",
    "federation run --slots 0": "--slots must be 1 or more",
    "federation run --seed -1": "--seed must be 0 or more and below 2**32, got -1",
    "federation run --seed 4294967296": "--seed must be 0 or more",
    "federation run --samples 5000": "ask for 20000 samples and the task has 1400",
    "federation run --plot a.txt": "--plot must end in .png",
    "federation run --task folder:/nowhere.npz": "does not exist",
    "federation run --task imagenet": "--task must be one of digits",
    "federation run --optimiser lion": "--optimiser must be one of sgd, momentum, adam",
    "federation run --batch-size 0": "--batch-size must be at least 1, got 0",
    "federation curve --server-momentum 1": "--server-momentum must be below 1",
    "federation curve --seeds 0": "--seeds must be 1 or more",
    "federation curve --others 2": "--others must be in",
    "train --estimator reinforce": "--estimator must be one of paper, ppo, a2c, got 'reinforce'",
    "train --dnc all": "--dnc must be one of critic, actor, both, none",
    "train --policy uniform": "--policy must be one of gaussian, beta",
    "train --agent mpdg": "--agent must be one of mpgd",
    "train --slots 0": "--slots must be 1 or more, got 0",
    "train --window -1": "--window must be 1 or more",
    "train --task imagenet": "--task must be one of digits",
    "train --out /proc/run": "name a folder to write to",
    "train nowhere.toml": "no such file",
    "resume nowhere": "nowhere: no run here; begin one with `potluck train --out nowhere`",
    "play nowhere": "no run here",
    "export nowhere --silo 0": "no run here",
    "export nowhere": "Missing option '--silo'",
    "certify nowhere": "nowhere: no run here; begin one with `potluck train --out nowhere`",
    "certify nowhere --games 1": "--games must be 2 or more, got 1",
    "certify nowhere --slots -1": "--slots must be 0 or more, got -1",
    "demo --seeds 0": "--seeds must be 1 or more, got 0",
    "demo --slots -5": "--slots must be 1 or more, got -5",
    "sweep": "vary must name a field and its values",
    "sweep --vary mechanism.intensity": "--vary must be FIELD=V,V,… or FIELD=FROM:TO:POINTS",
    "sweep --vary mechanism.intensity=a": "--vary must be FIELD=V,V,… or FIELD=FROM:TO:POINTS",
    "sweep --vary mechanism.intensty=1": "mechanism.intensty is no field of the scenario",
    "sweep --vary mechanism.intensity=-1": "mechanism.intensity must be at least 0, got -1",
    "list agents": "must be one of preset, mechanism, observation, task",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_costs_one_line(line: str, tmp_path: Path) -> None:
    assert MISTAKES[line] in refused(*shlex.split(line), cwd=tmp_path)
    assert not list(tmp_path.iterdir())
