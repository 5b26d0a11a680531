"""What is shown while trainings go on side by side."""

import pytest

from potluck.cli.progress import TrainingDisplay, blocks
from potluck.training.run import Progress


def test_a_curve_is_drawn_as_far_as_it_has_come() -> None:
    # four cells: heights 0, 0, 7 and what is to come
    assert blocks([(0.5, 10.0), (0.75, 17.0)], 10.0, 17.0, width=4) == "▁▁█·"
    assert blocks([], 0.0, 0.0, width=3) == "···"
    assert blocks([(1.0, 5.0)], 5.0, 5.0, width=3) == "▁▁▁"


def test_where_nobody_looks_trainings_are_told_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.cli.progress.EVERY", 0.0)
    progress = Progress(1, 4, 1920, 3540.25, 0.9, 5.0, 0.125, {"entropy": 1.0}, {})
    with TrainingDisplay({"one": 2, "other": 2}) as display:
        display.update("other", progress)
    assert capsys.readouterr().err == "other: 25%, 1,920 slots: welfare 3540.2 d 0.125 P 0.900\n"
