"""The PyTorch example: what changes, and that it runs."""

import difflib
from pathlib import Path

import pytest

from potluck.flower.federation import deployed
from potluck.ledger import verify
from tests.flower.local import consortium_in, rows, scenario_of
from tests.flower.real import finish

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-torch"


def changed_lines() -> list[str]:
    found: list[str] = []
    for before in sorted((EXAMPLE / "before").rglob("*.*")):
        after = EXAMPLE / "after" / before.relative_to(EXAMPLE / "before")
        if before.suffix in (".py", ".toml"):
            compared = difflib.unified_diff(before.read_text().splitlines(), after.read_text().splitlines(), n=0)
            found += [line for line in compared if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return found


def test_ten_lines_are_all_that_changes_in_an_app() -> None:
    assert 0 < len(changed_lines()) <= 10


def test_the_documentation_shows_that_difference() -> None:
    told = (EXAMPLE / "README.md").read_text().splitlines()
    assert set(changed_lines()) <= set(told)


@pytest.mark.slow
def test_an_ordinary_pytorch_app_is_settled(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    consortium = consortium_in(tmp_path, scenario_of(2), [1.0, 0.25])
    with deployed(consortium) as federation:
        federation.start_run(EXAMPLE / "after", {"consortium": str(consortium.folder), "num-server-rounds": 2}, "torch")
        said = finish(federation, "torch")
    settled = rows(consortium)
    assert [row.contribution for row in settled] == [1.0, 0.25, 1.0, 0.25]
    assert settled[-1].precision > 0.3
    assert verify(consortium.ledger).fault is None
    assert all(row.countersigned for row in settled)
    assert "Final accuracy" in said
