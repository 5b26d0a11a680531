"""Checkpoints that are whole or not there: hashed, written beside their place, renamed into it."""

import contextlib
import dataclasses
import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from potluck.errors import PotluckError

__all__ = ["Checkpoint", "latest", "save"]

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
    folder.mkdir(parents=True, exist_ok=True)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(checkpoint.runs, eqx.is_array))]
    content = io.BytesIO()
    numbers = np.array([checkpoint.chunk, checkpoint.metrics])
    np.savez(content, allow_pickle=False, numbers=numbers, **{f"leaf{n}": leaf for n, leaf in enumerate(leaves)})
    payload = content.getbuffer()
    place = folder / f"{checkpoint.chunk:08d}{SUFFIX}"
    beside = place.with_suffix(".part")
    try:
        with beside.open("wb") as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError as fault:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise PotluckError(
            f"{place}: checkpoint not written ({(fault.strerror or str(fault)).lower()}); the one before is kept, "
            "make room and resume"
        ) from None
    for old in _all(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def latest(folder: Path, like: Any) -> Checkpoint | None:
    """The newest checkpoint that is whole, shaped as `like`; None where there is none."""
    for place in reversed(_all(folder)):
        try:
            return _read(place, like)
        except (OSError, ValueError, KeyError) as fault:
            warnings.warn(f"{place}: damaged ({fault}); falling back to the checkpoint before it", stacklevel=2)
    return None


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _read(place: Path, like: Any) -> Checkpoint:
    content = place.read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        raise ValueError("its hash is wrong")
    arrays, rest = eqx.partition(like, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    expected, shape = jax.tree.flatten(arrays)
    with np.load(io.BytesIO(content[32:]), allow_pickle=False) as file:
        leaves = [file[f"leaf{n}"] for n in range(len(expected))]
        chunk, metrics = (int(number) for number in file["numbers"])
    for leaf, wanted in zip(leaves, expected, strict=True):
        if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype:
            raise ValueError(f"it holds {leaf.dtype}{list(leaf.shape)} where {wanted.dtype}{list(wanted.shape)} goes")
    return Checkpoint(eqx.combine(jax.tree.unflatten(shape, leaves), rest), chunk, metrics)
