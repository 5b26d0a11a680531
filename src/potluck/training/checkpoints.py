"""Checkpoints: everything to go on from, the newest three."""

import dataclasses
import io
import math
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from potluck.errors import PotluckError
from potluck.training.files import read_whole, write_whole

__all__ = ["Checkpoint", "latest", "save", "set_aside"]

KEPT = 3
SUFFIX = ".ckpt"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Everything to go on from."""

    runs: Any
    chunk: int
    """Calls of the compiled program done."""
    metrics: int
    """Bytes of the metrics file that belong to them."""


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder/CHUNK.ckpt`; the oldest beyond three are removed."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(checkpoint.runs, eqx.is_array))]
    content = io.BytesIO()
    numbers = np.array([checkpoint.chunk, checkpoint.metrics])
    np.savez(content, allow_pickle=False, numbers=numbers, **{f"leaf{n}": leaf for n, leaf in enumerate(leaves)})
    place = folder / f"{checkpoint.chunk:08d}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(place, content.getbuffer())
    except OSError as fault:
        raise PotluckError(
            f"{place}: checkpoint not written ({(fault.strerror or str(fault)).lower()}); the one before is kept, "
            "make room and resume"
        ) from None
    for old in _all(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def latest(folder: Path, like: Any, metrics: float = math.inf) -> Checkpoint | None:
    """The newest checkpoint that is whole, shaped as `like`, none of whose metrics are lost; None without one.

    `metrics` is how many bytes of them there are; whoever does not go on needs none.
    """
    for place in reversed(_all(folder)):
        try:
            found = _read(place, like)
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


def _read(place: Path, like: Any) -> Checkpoint:
    payload = read_whole(place)
    arrays, rest = eqx.partition(like, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    expected, shape = jax.tree.flatten(arrays)
    with np.load(io.BytesIO(payload), allow_pickle=False) as file:
        if len(file.files) != len(expected) + 1:
            raise ValueError(f"it holds {len(file.files) - 1} arrays where {len(expected)} go")
        leaves = [file[f"leaf{n}"] for n in range(len(expected))]
        chunk, metrics = (int(number) for number in file["numbers"])
    for leaf, wanted in zip(leaves, expected, strict=True):
        if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype:
            raise ValueError(f"it holds {leaf.dtype}{list(leaf.shape)} where {wanted.dtype}{list(wanted.shape)} goes")
    return Checkpoint(eqx.combine(jax.tree.unflatten(shape, leaves), rest), chunk, metrics)
