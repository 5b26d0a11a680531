"""`potluck certify` and `potluck demo` as a person meets them."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from potluck.cli.certify import _tables, _verdict
from potluck.scenario import render
from potluck.studies.certificate import Bounds, Certificate, certify, plain
from potluck.studies.deviations import evaluated
from potluck.training.run import trained
from tests.cli.person import potluck, refused
from tests.studies.learnt import ONE_SLOT, playing


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three silos that bring half of their data."""
    folder = tmp_path_factory.mktemp("certify")
    (folder / "one.toml").write_text(render(ONE_SLOT))
    potluck("train", "one.toml", "--agent", "fixed:0.5", "--slots", "20", "--seeds", "2", "--games", "2",
            "--out", "run", cwd=folder)  # fmt: skip
    return folder / "run"


CHEAP = ("--games", "2", "--slots", "0", "--no-bounds")


def test_a_certificate_is_a_table_a_file_and_the_same_every_time(run: Path) -> None:
    first = potluck("certify", "run", *CHEAP, "--json", cwd=run.parent)
    found = json.loads(first.stdout)
    assert found == json.loads((run / "certificate.json").read_text())
    assert found["nash_conv"] == pytest.approx(sum(silo["gain"]["mean"] for silo in found["silos"]))
    assert found["nash_conv_share_of_stake"] == pytest.approx(found["nash_conv"] / found["stake"])
    assert found["nash_conv_interval"]["mean"] == found["nash_conv"]
    assert found["welfare_planner"] is None
    assert (found["seeds"], found["slots"], found["broken_deviators"]) == (2, 20, 0)
    written = (run / "certificate.json").read_bytes()
    shown = potluck("certify", "run", *CHEAP, cwd=run.parent).stdout
    assert (run / "certificate.json").read_bytes() == written
    for text in ("NashConv", "of the stake", "could gain", "better than not taking part", "3 of 3 silos", "Saved run"):
        assert text in shown


def shown_at(width: int, judged: Certificate) -> str:
    said = io.StringIO()
    Console(width=width, file=said).print(*_tables(plain(judged)))
    return said.getvalue()


def test_a_certificate_fits_eighty_columns_and_gives_a_verdict(run: Path) -> None:
    judged = trained(run)
    against = Bounds(evaluated(judged, 2), evaluated(judged, 2))
    shown = shown_at(80, certify(judged, games=2, slots=0, against=against))
    assert "…" not in shown
    assert "not an equilibrium" in " ".join(shown.split())  # half of everything is not what these silos would bring
    assert "transfer" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert _verdict("mpgd", 0.01).startswith("near an equilibrium")
    assert _verdict("mpgd", 0.2).endswith("train longer")
    assert "train" not in _verdict("fixed:0.5", 0.2)  # it cannot learn
    assert _verdict("mpgd", None).startswith("nothing is at stake")


def test_where_all_lose_there_is_no_price_of_anarchy() -> None:
    silos = ONE_SLOT.silos.model_copy(update={"communication": 5000.0})
    run = playing(ONE_SLOT.model_copy(update={"silos": silos}), [[0.5] * 3])
    judged = certify(run, games=2, slots=0, against=Bounds(evaluated(run, 2), evaluated(run, 2)))
    shown = shown_at(100, judged)
    assert re.search(r"price of anarchy +–", shown)
    assert "0 of 3 silos" in shown


@pytest.mark.parametrize("command", ["certify", "demo"])
def test_help_teaches_by_example(command: str, tmp_path: Path) -> None:
    shown = potluck(command, "--help", cwd=tmp_path).stdout
    assert [line for line in shown.splitlines() if f"potluck {command}" in line and "Usage" not in line]


def test_a_planner_cannot_be_certified(run: Path, tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_bytes((run / "scenario.toml").read_bytes())
    plan = json.loads((run / "run.json").read_text()) | {"agent": "planner"}
    (tmp_path / "run.json").write_text(json.dumps(plan))
    assert "planner sets all contributions, so nobody can deviate" in refused("certify", str(tmp_path))


def test_a_folder_of_something_else_is_no_place_for_a_demo(tmp_path: Path) -> None:
    (tmp_path / "mpgd").mkdir()
    assert "mpgd: not written by a demo; name another folder" in refused("demo", "--out", ".", cwd=tmp_path)
