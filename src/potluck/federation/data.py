"""The tasks a federation can train on, and where their data lives on this machine.

A data set is kept as uint8 images and integer labels; its held-out split belongs to the server alone.
What is read from disk is checked against the SHA-256 of the decoded arrays before anybody trains on it.
"""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from potluck.errors import PotluckError

__all__ = ["TASKS", "CorruptError", "Dataset", "Task", "cache_dir", "cached_path", "digest", "read_npz", "read_user"]

ARRAYS = ("images", "labels", "test_images", "test_labels")


@dataclass(frozen=True)
class Dataset:
    """Images (samples, height, width, channels) with labels 0 … classes − 1, and the server's held-out split."""

    name: str
    images: UInt8[np.ndarray, "samples height width channels"]
    labels: Int[np.ndarray, " samples"]
    test_images: UInt8[np.ndarray, "tests height width channels"]
    test_labels: Int[np.ndarray, " tests"]
    classes: int
    silo: Int[np.ndarray, " samples"] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        height, width, channels = self.images.shape[1:]
        return height, width, channels

    def standard(self) -> tuple[float, float]:
        """Mean and deviation of the training pixels, from their histogram: exact, and no float copy of the data."""
        counts = np.bincount(self.images.reshape(-1), minlength=256) / self.images.size
        values = np.arange(256)
        mean = float(counts @ values)
        return mean, max(float(counts @ (values - mean) ** 2) ** 0.5, 1e-6)


@dataclass(frozen=True)
class Task:
    """What is known about a task before its data is here."""

    name: str
    summary: str
    sha256: str
    samples: int
    """Default size of a silo's local set, four silos."""
    hidden: int
    batch: int


TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task(
            "digits",
            "8 × 8 grey digits, 1,400 + 397, comes with scikit-learn",
            "5db59a17b80f910d07383636a6f10d82aaf89a640ba53f5536a2384d24cbb47a",
            350,
            32,
            25,
        ),
        Task(
            "fmnist",
            "Fashion-MNIST, 28 × 28 grey, 60,000 + 10,000",
            "0a074df034ba52463844f9ca84a9998b589e4850fce83fd89dfdf9bcdb894610",
            2000,
            64,
            50,
        ),
        Task(
            "cifar10",
            "CIFAR-10, 32 × 32 colour, 50,000 + 10,000",
            "324b1bc74fed0504b83e2520d5a05d96793ef4966b09e4d74341ca0d87a996bf",
            2000,
            64,
            50,
        ),
        Task("folder", "your own data: folder:PATH.npz with X, y and optionally silo", "", 0, 64, 50),
    )
}


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


def verified(data: Dataset, origin: str) -> Dataset:
    """Return the data set if it is bit for bit the one that the task's figures were measured on."""
    if digest(data) != TASKS[data.name].sha256:
        raise CorruptError(f"{origin}: the arrays are not those of {data.name} (SHA-256 differs)")
    return data


def assemble(name: str, arrays: Mapping[str, np.ndarray]) -> Dataset:
    """Build a data set of the ten-class tasks from its four arrays."""
    images, labels, test_images, test_labels = (arrays[key] for key in ARRAYS)
    return Dataset(name, images, labels.astype(np.int32), test_images, test_labels.astype(np.int32), classes=10)


def read_npz(name: str, path: Path) -> Dataset:
    """Read the task's arrays as the cache keeps them; a truncated or altered file is named."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in ARRAYS}
        return verified(assemble(name, arrays), str(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as fault:
        raise CorruptError(f"{path}: not a readable copy of {name} ({fault})") from fault


def read_digits() -> Dataset:
    """Read scikit-learn's bundled digits, shuffled once and for all; 1,400 to train on, 397 held out."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    pixels = images[order].astype(np.uint8).reshape(-1, 8, 8, 1)
    classes = labels[order].astype(np.int32)
    return Dataset("digits", pixels[:1400], classes[:1400], pixels[1400:], classes[1400:], classes=10)


def read_user(path: Path, held_out: float = 0.2) -> Dataset:
    """Read a user's `.npz`: X (samples first), y, and optionally silo, the organisation each sample belongs to.

    One sample in five is held out for the server. Values that are not uint8 are mapped linearly from their range
    to 0 … 255.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except FileNotFoundError:
        raise PotluckError(
            f"folder: {path} does not exist; give folder:PATH.npz with X, y and optionally silo"
        ) from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as fault:
        raise PotluckError(f"folder: {path} is not a readable .npz ({fault}); write it with numpy.savez") from fault
    if missing := {"X", "y"} - arrays.keys():
        raise PotluckError(f"folder: {path} has no {' and no '.join(sorted(missing))}; it has {', '.join(arrays)}")
    images, count = _as_images(arrays["X"], path), len(arrays["X"])
    for name in ("y", "silo"):
        if name in arrays and arrays[name].shape != (count,):
            raise PotluckError(f"folder: {path}: {name} must have shape ({count},), got {arrays[name].shape}")
    if count < 10:
        raise PotluckError(f"folder: {path} has {count} samples; 10 or more are needed to hold some out")
    classes, labels = np.unique(arrays["y"], return_inverse=True)
    silo = np.unique(arrays["silo"], return_inverse=True)[1].astype(np.int32) if "silo" in arrays else None
    order = np.random.default_rng(0).permutation(count)
    test, train = np.split(order, [round(count * held_out)])
    labels = labels.astype(np.int32)
    return Dataset(
        "folder",
        images[train],
        labels[train],
        images[test],
        labels[test],
        len(classes),
        None if silo is None else silo[train],
    )


def _as_images(values: np.ndarray, path: Path) -> UInt8[np.ndarray, "samples height width channels"]:
    if not 2 <= values.ndim <= 4 or not np.issubdtype(values.dtype, np.number):
        raise PotluckError(
            f"folder: {path}: X must hold numbers of shape (samples, features), (samples, height, width) or "
            f"(samples, height, width, channels), got {values.dtype} {values.shape}"
        )
    if values.dtype != np.uint8:
        if not np.isfinite(values).all():
            raise PotluckError(f"folder: {path}: X has NaN or infinite values; clean them first")
        low, high = float(values.min()), float(values.max())
        values = np.round((values - low) * (255 / max(high - low, 1e-30))).astype(np.uint8)
    if values.ndim == 2:
        values = values[:, None, :]
    return values if values.ndim == 4 else values[..., None]
