"""Curves for TensorBoard: the mean, and every seed."""

from pathlib import Path

import pytest

from potluck.training.run import start
from potluck.training.tensorboard import Board
from tests.training.conftest import CONFIG


def test_every_seed_has_its_curve(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    board = Board(tmp_path)
    for progress in start(CONFIG, tmp_path / "run"):
        assert progress.by_lane.keys() == {"0", "1"}
        assert progress.welfare == pytest.approx(sum(seed["welfare"] for seed in progress.by_lane.values()) / 2)
        board.write(progress)
    board.close()
    written = b"".join(file.read_bytes() for file in (tmp_path / "tensorboard").iterdir())
    for name in (b"welfare", b"policy_loss", b"welfare/seed_0", b"precision/seed_1"):
        assert name in written
