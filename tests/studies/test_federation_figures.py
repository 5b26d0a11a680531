"""Pictures of federations."""

from pathlib import Path

import pytest

from potluck.errors import PotluckError
from potluck.studies.federation_figures import check_picture, draw_run
from potluck.studies.intervals import Interval


def test_a_picture_that_cannot_be_saved_is_refused_before_training(tmp_path: Path) -> None:
    check_picture(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
    with pytest.raises(PotluckError, match=r"/proc/x\.png cannot be written"):
        check_picture(Path("/proc/x.png"))
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(PotluckError, match=r"folder\.png is a folder"):
        check_picture(tmp_path / "folder.png")


def test_a_picture_that_fails_after_all_costs_one_line() -> None:
    with pytest.raises(PotluckError, match=r"/proc/x\.png cannot be written"):
        draw_run([Interval(0.1, 0.0, 0.2)], "title", Path("/proc/x.png"))
