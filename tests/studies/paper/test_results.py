"""Studies that were run and are shown in the documentation: what is shown is what their data says."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from potluck.studies.paper.claims import judge
from potluck.studies.paper.findings import Findings
from potluck.studies.paper.tables import all_tables, write_tables
from potluck.studies.paper.telling import finished
from potluck.studies.plain import plain_values

SHOWN = Path(__file__).parents[3] / "docs" / "results"
FOLDERS = sorted(path for path in SHOWN.glob("*") if path.is_dir())


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def shown(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def study(shown: Path, tmp_path: Path) -> Path:
    with tarfile.open(shown / "study.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def test_verdicts_and_tables_follow_from_what_was_measured(shown: Path, study: Path) -> None:
    config, _ = finished(study)
    found = Findings.read(config, study)
    verdicts = [plain_values(claim) for claim in judge(found)]
    written = json.loads((shown / "claims.json").read_text(encoding="utf-8"))
    numbers = ("value", "low", "high")
    assert [_but(claim, numbers) for claim in verdicts] == [_but(claim, numbers) for claim in written]
    for ours, theirs in zip(verdicts, written, strict=True):
        for name in numbers:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-6, abs=1e-9)
    write_tables(all_tables(found), study / "tables")
    tables = sorted(table.name for table in (study / "tables").iterdir())
    assert tables == sorted(table.name for table in (shown / "tables").iterdir())
    for name in tables:
        for cell, same in zip(_cells(study / "tables" / name), _cells(shown / "tables" / name), strict=True):
            assert cell == (pytest.approx(same, rel=1e-5, abs=1e-8) if isinstance(same, float) else same)


def test_every_figure_that_is_shown_is_there() -> None:
    page = (SHOWN / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\(([^)]*\.png)\)", page)
    assert pictures
    assert [name for name in pictures if not (SHOWN / name).exists()] == []


def _but(claim: dict[str, object], numbers: tuple[str, ...]) -> dict[str, object]:
    return {name: value for name, value in claim.items() if name not in numbers}


def _cells(table: Path) -> list[float | str]:
    """Every number of a table, and every word."""
    cells = re.split(r"[,\n]", table.read_text(encoding="utf-8"))
    return [float(cell) if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", cell) else cell for cell in cells]
