"""Checkpoints: everything to resume from, the newest three."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any

from potluck.errors import PotluckError, file_faults
from potluck.training.files import read_arrays, write_arrays
from potluck.training.loop import Runs

KEPT = 3
SUFFIX = ".ckpt"
MARK = b"potluck checkpoint 3\n"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Everything to resume from."""

    runs: Runs
    chunk: int
    """Calls of the compiled program done."""
    metrics: int
    """Bytes of the metrics file that belong to them."""
    digest: str
    """SHA-256 of those bytes."""
    plan: str
    """Of what: a digest of the scenario, the agent, its options, and how much of which."""


def save(folder: Path, checkpoint: Checkpoint, kept: int = KEPT) -> None:
    """Write `folder/CHUNK.ckpt`; the oldest beyond `kept` are removed."""
    place = _place(folder, checkpoint.chunk)
    with file_faults(place, "the one before is kept, make room and resume", failed="checkpoint not written"):
        folder.mkdir(parents=True, exist_ok=True)
        about = {name: getattr(checkpoint, name) for name in ("chunk", "metrics", "digest", "plan")}
        write_arrays(place, MARK, about, checkpoint.runs)
    for old in _all(folder)[:-kept]:
        old.unlink(missing_ok=True)


def latest(folder: Path, like: Runs, plan: str, metrics: float = math.inf) -> Checkpoint | None:
    """The newest checkpoint that is complete, none of whose metrics are lost; None without one.

    `metrics` is how many bytes of them there are; whoever does not resume needs none.
    """
    for place in reversed(_all(folder)):
        try:
            found = _read(place, like, plan)
            if found.metrics <= metrics:
                return found
            fault: Exception = ValueError(f"{found.metrics - metrics:.0f} bytes of its metrics are lost")
        except (OSError, ValueError, KeyError) as damage:
            fault = damage
        warnings.warn(f"{place}: damaged ({fault}); falling back to the checkpoint before it", stacklevel=2)
    return None


def at(folder: Path, chunk: int, like: Runs, plan: str) -> Checkpoint:
    """The checkpoint after so many calls of the compiled program."""
    place = _place(folder, chunk)
    try:
        return _read(place, like, plan)
    except (OSError, ValueError, KeyError) as fault:
        raise PotluckError(
            f"{place}: damaged, or of another version ({fault}); remove {folder.parent} and go on"
        ) from None


def there(folder: Path, chunk: int) -> bool:
    """Whether there is one after so many calls."""
    return _place(folder, chunk).exists()


def _place(folder: Path, chunk: int) -> Path:
    return folder / f"{chunk:08d}{SUFFIX}"


def _read(place: Path, like: Runs, plan: str) -> Checkpoint:
    """One checkpoint; one of another plan is refused, not passed over."""

    def of_this_plan(about: dict[str, Any]) -> Runs:
        if about["plan"] != plan:
            raise PotluckError(
                f"{place}: was learnt under another plan; put back run.json or sweep.json, scenario.toml and what the "
                "agent reads, or begin in another folder"
            )
        return like

    about, runs = read_arrays(place, MARK, of_this_plan)
    return Checkpoint(runs, **{name: about[name] for name in ("chunk", "metrics", "digest", "plan")})


def any_in(folder: Path) -> bool:
    """Whether a run has left checkpoints here."""
    return bool(_all(folder))


def set_aside(folder: Path, after: int) -> None:
    """Rename checkpoints that were passed over: what is saved from now on must not count as older than they."""
    for place in _all(folder):
        if int(place.stem) > after:
            place.replace(place.with_suffix(".damaged"))


def _all(folder: Path) -> list[Path]:
    return sorted(place for place in folder.glob(f"*{SUFFIX}") if place.stem.isdecimal())
