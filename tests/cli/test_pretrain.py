"""`potluck pretrain` and what begins with its file."""

import json
from pathlib import Path

import numpy as np
import pytest

from potluck.agents.prior_file import load_survey
from potluck.federation.from_scenario import on_task
from potluck.scenario import FederationConfig, Scenario, preset, render
from potluck.training import pretraining
from tests.cli.person import potluck, refused


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a survey finds does not matter here."""
    shipped = load_survey().federations

    def law_of(scenario: Scenario) -> tuple[list[float], float]:
        found = shipped[scenario.seed % len(shipped)]
        return list(found.law), found.noise

    monkeypatch.setattr(pretraining, "surveyed_law", law_of)


def test_a_prior_is_made_shown_and_played_with(tmp_path: Path) -> None:
    words = "pretrain", "--tasks", "curve", "--federations", "4", "--seed", "40", "--out", tmp_path / "mine.json"
    made = potluck(*words)
    assert made.returncode == 0
    assert "the laws of 4 federations (4 of curve)" in made.stdout
    assert "federation 4 of 4, curve" in made.stderr
    again = json.loads(potluck(*words, "--json").stdout)
    assert again["federations"] == {"curve": 4}
    asked = "--agent", "pretrained:mine.json", "--slots", "30", "--games", "1", "--seeds", "1", "--out", "runs/first"
    played = potluck("train", "--preset", "paper", *asked, "--json", cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    assert json.loads(potluck("play", "runs/first", "--json", cwd=tmp_path).stdout)["agent"] == "pretrained:mine.json"
    out = potluck("export", "runs/first", "--silo", "1", "--json", cwd=tmp_path)
    assert json.loads(out.stdout)["observation"] == 7 * 5 + 5


def test_a_policy_is_exported_where_nothing_was_trained(tmp_path: Path) -> None:
    assert potluck("scenario", "init", "my.toml", cwd=tmp_path).returncode == 0
    exported = potluck("export", "my.toml", "--silo", "3", "--out", "p.potluck", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert "Wrote p.potluck: silo 3" in exported.stdout


def test_nobody_s_data_is_read_for_what_is_public(tmp_path: Path) -> None:
    far = on_task(preset("paper"), "digits")
    assert isinstance(far.precision, FederationConfig)
    away = far.precision.model_copy(update={"task": "folder:nowhere.npz"})
    (tmp_path / "my.toml").write_text(render(far.model_copy(update={"precision": away})))
    exported = potluck("export", "my.toml", "--silo", "0", "--out", "p.potluck", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr


def test_a_run_does_not_go_on_with_another_prior(tmp_path: Path) -> None:
    words = "pretrain", "--tasks", "curve", "--federations", "4", "--out", "mine.json"
    assert potluck(*words, "--seed", "40", cwd=tmp_path).returncode == 0
    asked = "--agent", "pretrained:mine.json", "--slots", "30", "--games", "1", "--seeds", "1", "--out", "run"
    assert potluck("train", "--preset", "paper", *asked, cwd=tmp_path).returncode == 0
    (tmp_path / "mine.json").unlink()
    assert potluck(*words, "--seed", "90", cwd=tmp_path).returncode == 0
    assert "was learnt under another plan" in refused("resume", "run", cwd=tmp_path)


def test_mistakes_cost_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    said = refused("train", "--agent", "pretrained:bad.json", "--slots", "30", "--seeds", "1", cwd=tmp_path)
    assert (
        "bad.json: not a prior that can be used (it is another kind of file); make one with `potluck pretrain`" in said
    )
    assert "no such file" in refused("train", "--agent", "pretrained:none.json", "--seeds", "1", cwd=tmp_path)
    assert "--federations must be 4 to 4096, got 1" in refused("pretrain", "--federations", "1", cwd=tmp_path)
    assert "--tasks must be curve or one of" in refused("pretrain", "--tasks", "mars", cwd=tmp_path)
    assert "not a prior that can be used" in refused("pretrain", "--tasks", "curve", "--out", "bad.json", cwd=tmp_path)
    assert "--out: '.' is a folder; name a file" in refused("pretrain", "--tasks", "curve", "--out", ".", cwd=tmp_path)
    np.savez(tmp_path / "few.npz", X=np.eye(20), y=np.arange(20) % 2)
    said = refused("pretrain", "--tasks", "folder:few.npz", "--out", "few.json", cwd=tmp_path)
    assert "samples, and 80 are the fewest" in said
