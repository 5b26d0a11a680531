"""Runs small enough that compiling them is most of the wait."""

import shutil
from pathlib import Path

import pytest

from potluck.agents import Options
from potluck.scenario import Normal, Scenario, Silos
from potluck.training.config import RunConfig
from potluck.training.run import start

CACHE = Path(__file__).parents[2] / ".pytest_cache"


TINY = Scenario(
    horizon=4,
    history=2,
    energy_price=0.0025,
    silos=Silos(
        count=3,
        profit=Normal(mean=1000, deviation=10),
        energy=Normal(mean=4, deviation=0.2),
        communication=Normal(mean=0.5, deviation=0.02),
        samples=Normal(mean=2000, deviation=50),
    ),
)
# Memories on both sides, and windows that end within games: all there is to carry over is carried over.
CONFIG = RunConfig(TINY, options=Options(dnc="both"), slots=192, seeds=2, games=2, window=3)


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted, checkpoints after every chunk."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert sum(1 for _ in start(CONFIG, folder, interval=0.0)) == CONFIG.chunks == 4
    return folder


@pytest.fixture
def stopped(whole: Path, tmp_path: Path) -> Path:
    """The same run after three of its four chunks, as a kill would leave it: some metrics have no checkpoint yet."""
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / "checkpoints" / "00000004.ckpt").unlink()
    return folder
