"""Every command and piece of code under "In five minutes" of docs/ledger.md runs as it stands there."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from potluck.cli import app
from potluck.ledger import verify

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


def test_the_page_can_be_followed_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part = PAGE.read_text(encoding="utf-8").split("## In five minutes")[1].split("\n## ")[0]
    names: dict[str, object] = {}
    said: dict[str, str] = {}
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL):
        if kind == "python":
            exec(block, names)
            continue
        for line in block.splitlines():
            words = line.split(">")[0].split()[1:]
            answer = CliRunner().invoke(app, words)
            assert answer.exit_code == 0, (line, answer.output)
            said[" ".join(words[:2])] = answer.output
    assert "2 slots, 4 entries and 1 countersignatures" in said["ledger verify"]
    assert "7.500000" in said["ledger settle"]
    assert verify(tmp_path / "consortium.ledger").countersigned == {"spring": {"north": (1, 2), "south": (0, 2)}}


def test_the_page_names_the_tables_as_they_are() -> None:
    from potluck.ledger.schema import TABLES

    page = PAGE.read_text(encoding="utf-8")
    for table, sql in TABLES.items():
        (row,) = re.findall(rf"^\| `{table}` \| (.*) \|$", page, flags=re.MULTILINE)
        columns = [line.split()[0] for line in sql.splitlines()[1:-1] if line.split()[0].islower()]
        assert re.findall(r"`(\w+)`", row) == columns
