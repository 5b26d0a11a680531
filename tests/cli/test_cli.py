"""The command line as a person meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.person import potluck, refused


def test_version() -> None:
    assert potluck("--version").stdout.startswith("potluck 0.")


@pytest.mark.parametrize(
    "words", [(), ("game",), ("scenario",), ("scenario", "init"), ("bench",), ("bench", "economy")]
)
def test_help_teaches_by_example(words: tuple[str, ...]) -> None:
    answer = potluck(*words, "--help")
    assert answer.returncode == 0
    examples = [line for line in answer.stdout.splitlines() if "potluck " in line and "Usage" not in line]
    assert examples


def test_help_does_not_import_jax() -> None:
    program = "import sys, potluck.cli; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_scenario_is_started_edited_checked_and_solved(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    assert potluck("scenario", "init", str(file), "--preset", "dilemma").returncode == 0
    assert "exists" in refused("scenario", "init", str(file))
    assert potluck("scenario", "init", str(file), "--preset", "dilemma", "--force").returncode == 0
    assert "is valid" in potluck("scenario", "validate", str(file)).stdout
    assert potluck("scenario", "show", str(file)).stdout == file.read_text()
    figures = json.loads(potluck("game", str(file), "--json").stdout)
    assert len(figures["nash"]) == 4
    assert figures["nash_conv"] < 1e-6


def test_game_draws_and_reports(tmp_path: Path) -> None:
    words = ("--sweep", "0:16:5", "--contributions", "1,0.5,0.5,0.1", "--plot", "g.svg", "--report", "page")
    answer = potluck("game", "--preset", "paper", *words, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "best" in answer.stdout
    assert "<svg" in (tmp_path / "g.svg").read_text()
    assert "data:image/png;base64," in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert len(json.loads((tmp_path / "page" / "game.json").read_text())["sweep"]) == 5


def test_no_command_shows_help_and_nothing_else() -> None:
    answer = potluck()
    assert "Usage" in answer.stdout
    assert answer.stderr == ""


def test_the_report_names_the_intensity_that_was_solved(tmp_path: Path) -> None:
    answer = potluck("game", "--preset", "dilemma", "--intensity", "40", "--report", "page", cwd=tmp_path)
    assert "α = 40" in answer.stdout
    assert "intensity = 40.0" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")


def test_intensity_overrides_the_scenario() -> None:
    figures = json.loads(potluck("game", "--preset", "dilemma", "--intensity", "0", "--json").stdout)
    assert figures["nash"] == figures["no_redistribution"]["nash"]


def test_files_that_are_no_scenarios_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "prose.toml").write_text("dear scenario,\n")
    with (tmp_path / "large.toml").open("wb") as large:
        large.truncate(50_000_000)
    assert "not UTF-8" in refused("game", "binary.toml", cwd=tmp_path)
    assert "not a TOML file" in refused("scenario", "show", "prose.toml", cwd=tmp_path)
    assert "larger than 4 MB" in refused("scenario", "validate", "large.toml", cwd=tmp_path)


def test_the_stage_game_of_a_real_federation_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "real.toml"
    text = potluck("scenario", "show", "--preset", "paper").stdout
    file.write_text(text[: text.index("[precision]")] + '[precision]\nsource = "fedavg"\n')
    assert "precision.source must be 'curve' to solve the stage game" in refused("game", str(file))


@pytest.mark.slow
def test_a_full_disk_is_named_not_traced(tmp_path: Path) -> None:
    """No file may grow beyond 4 kB here (and Python ignores the signal that says so), so the picture cannot be."""
    answer = subprocess.run(
        ["sh", "-c", f"ulimit -f 8; exec {sys.executable} -m potluck game --plot g.png"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
        check=False,
    )
    assert answer.returncode == 2
    assert "g.png: file too large" in answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr
