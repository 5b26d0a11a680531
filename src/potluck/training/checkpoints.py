"""Checkpoints: everything to resume from, the newest three."""

import dataclasses
import math
import warnings
from pathlib import Path

from potluck.errors import PotluckError, file_faults
from potluck.training.files import read_arrays, write_arrays
from potluck.training.loop import Runs

KEPT = 3
SUFFIX = ".ckpt"
MARK = b"potluck checkpoint 2\n"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Everything to resume from."""

    runs: Runs
    chunk: int
    """Calls of the compiled program done."""
    metrics: int
    """Bytes of the metrics file that belong to them."""
    lanes: tuple[str, ...]
    """Which cell and seed each lane is."""


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder/CHUNK.ckpt`; the oldest beyond three are removed."""
    place = folder / f"{checkpoint.chunk:08d}{SUFFIX}"
    with file_faults(place, "the one before is kept, make room and resume", failed="checkpoint not written"):
        folder.mkdir(parents=True, exist_ok=True)
        about = {"chunk": checkpoint.chunk, "metrics": checkpoint.metrics, "lanes": checkpoint.lanes}
        write_arrays(place, MARK, about, checkpoint.runs)
    for old in _all(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def latest(folder: Path, like: Runs, lanes: tuple[str, ...], metrics: float = math.inf) -> Checkpoint | None:
    """The newest checkpoint that is complete, shaped as `like`, none of whose metrics are lost; None without one.

    `metrics` is how many bytes of them there are; whoever does not resume needs none.
    """
    for place in reversed(_all(folder)):
        try:
            about, runs = read_arrays(place, MARK, lambda _: like)
            found = Checkpoint(runs, int(about["chunk"]), int(about["metrics"]), tuple(about["lanes"]))
            if found.lanes != lanes:
                raise PotluckError(
                    f"{place}: learnt by other cells or seeds than are asked for; begin in another folder"
                )
            if found.metrics <= metrics:
                return found
            fault: Exception = ValueError(f"{found.metrics - metrics:.0f} bytes of its metrics are lost")
        except (OSError, ValueError, KeyError) as damage:
            fault = damage
        warnings.warn(f"{place}: damaged ({fault}); falling back to the checkpoint before it", stacklevel=2)
    return None


def set_aside(folder: Path, after: int) -> None:
    """Rename checkpoints that were passed over: what is saved from now on must not count as older than they."""
    for place in _all(folder):
        if int(place.stem) > after:
            place.replace(place.with_suffix(".damaged"))


def _all(folder: Path) -> list[Path]:
    return sorted(place for place in folder.glob(f"*{SUFFIX}") if place.stem.isdecimal())
