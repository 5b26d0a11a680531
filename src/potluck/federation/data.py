"""The data sets a federation can train on, and where they lie on this machine.

A data set is kept as uint8 images and integer labels; its held-out split belongs to the server alone.
What is read from disk is checked against the SHA-256 of the decoded arrays before anybody trains on it.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Integer, UInt8

from potluck.errors import PotluckError

ARRAYS = ("images", "labels", "test_images", "test_labels")


@dataclass(frozen=True)
class Dataset:
    """Images (samples, height, width, channels) with labels 0 … classes − 1, and the server's held-out split."""

    name: str
    images: UInt8[np.ndarray, "samples height width channels"]
    labels: Integer[np.ndarray, " samples"]
    test_images: UInt8[np.ndarray, "tests height width channels"]
    test_labels: Integer[np.ndarray, " tests"]
    classes: int
    silo: Integer[np.ndarray, " samples"] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        height, width, channels = self.images.shape[1:]
        return height, width, channels

    def standard(self) -> tuple[float, float]:
        """Mean and deviation of the training pixels, from their histogram: exact, and no float copy of the data."""
        # In blocks, since counting widens what it counts to 64 bits.
        blocks = (self.images[at : at + 1000] for at in range(0, len(self.images), 1000))
        counts = sum(np.bincount(block.reshape(-1), minlength=256) for block in blocks) / self.images.size
        values = np.arange(256)
        mean = float(counts @ values)
        return mean, max(float(counts @ (values - mean) ** 2) ** 0.5, 1e-6)


class CorruptError(PotluckError):
    """A file that is not what it should be; it is named, and never trained on."""


def cache_dir() -> Path:
    """Where fetched data is kept: $POTLUCK_CACHE, or potluck/ in the user's cache folder."""
    if chosen := os.environ.get("POTLUCK_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "potluck"


def cached_path(name: str) -> Path:
    """Where the task's arrays are, or would be, in the cache."""
    return cache_dir() / f"{name}.npz"


def digest(data: Dataset) -> str:
    """SHA-256 over shape and bytes of the four arrays, so that every way to fetch a task must yield the same data."""
    total = hashlib.sha256()
    for name in ARRAYS:
        array = np.ascontiguousarray(getattr(data, name), dtype=np.uint8)
        total.update(f"{name}{array.shape}".encode())
        total.update(array.data)
    return total.hexdigest()


def verified(data: Dataset, sha256: str | None, origin: str) -> Dataset:
    """Return the data set if it is bit for bit the one that the task's figures were measured on."""
    if sha256 is not None and digest(data) != sha256:
        raise CorruptError(f"{origin}: the arrays are not those of {data.name} (SHA-256 differs)")
    return data


def assemble(name: str, arrays: Mapping[str, np.ndarray]) -> Dataset:
    """Build a data set from its four arrays."""
    images, labels, test_images, test_labels = (arrays[key] for key in ARRAYS)
    classes = int(max(labels.max(), test_labels.max())) + 1
    return Dataset(name, images, labels.astype(np.int32), test_images, test_labels.astype(np.int32), classes)


def read_npz(name: str, path: Path, sha256: str | None) -> Dataset:
    """Read the task's arrays as the cache keeps them; a truncated or altered file is named."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in ARRAYS}
        for key, array in arrays.items():
            # The digest is over bytes: a wider type could hold other values with the same low byte.
            if array.dtype != np.uint8:
                raise CorruptError(f"{path}: {key} of {name} must be uint8, got {array.dtype}")
        return verified(assemble(name, arrays), sha256, str(path))
    except (FileNotFoundError, NotADirectoryError, PotluckError):
        raise
    except Exception as fault:
        # One flipped bit in a header makes zipfile and NumPy raise nearly anything.
        raise CorruptError(f"{path}: not a readable copy of {name} ({in_one_line(fault)})") from fault


def in_one_line(fault: Exception) -> str:
    """Return what a library said went wrong, fit for a message of one line."""
    return " ".join(str(fault).split()) or type(fault).__name__


def check_data(data: Dataset) -> None:
    """Refuse arrays that would be cut off, cast or trained on as something else."""
    for part, images, labels in (("", data.images, data.labels), ("test_", data.test_images, data.test_labels)):
        if images.dtype != np.uint8 or images.ndim != 4:
            raise PotluckError(
                f"{data.name}: {part}images must be uint8 (samples, height, width, channels), got {images.dtype} "
                f"{images.shape}"
            )
        if labels.shape != (len(images),) or not len(images):
            raise PotluckError(f"{data.name}: {len(images)} {part}images need one label each, got {labels.shape}")
        if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= data.classes:
            raise PotluckError(f"{data.name}: {part}labels must be whole numbers from 0 to {data.classes - 1}")
    if data.silo is None:
        return
    if data.silo.shape != data.labels.shape:
        raise PotluckError(f"{data.name}: {len(data.labels)} samples need one silo each, got {data.silo.shape}")
    if data.silo.dtype.kind not in "iu" or data.silo.min() < 0:
        raise PotluckError(f"{data.name}: silo must hold whole numbers from 0")
