"""The commands that list and fetch data."""

from pathlib import Path

import pytest

from potluck.cli.data import listening
from tests.cli.person import potluck


def test_data_commands(tmp_path: Path) -> None:
    listed = potluck("data", "list", POTLUCK_CACHE=str(tmp_path))
    assert all(name in listed.stdout for name in ("digits", "fmnist", "cifar10", "folder"))
    missing = potluck("data", "path", "fmnist", POTLUCK_CACHE=str(tmp_path))
    assert missing.returncode == 2
    assert "potluck data fetch fmnist" in missing.stderr
    unknown = potluck("data", "fetch", "imagenet", POTLUCK_CACHE=str(tmp_path))
    assert unknown.returncode == 2
    fetched = potluck("data", "fetch", "digits", POTLUCK_CACHE=str(tmp_path))
    assert "1,400 samples and 397 held out" in fetched.stdout


def test_messages_show_paths_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with listening() as listener:
        listener.say("/data/[red]/:cat:/fmnist.npz")
    assert "potluck: /data/[red]/:cat:/fmnist.npz" in capsys.readouterr().err
