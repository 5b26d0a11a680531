"""The tasks a federation can train on, and where their data lives on this machine.

A data set is kept as uint8 images and integer labels; its held-out split belongs to the server alone.
What is read from disk is checked against the SHA-256 of the decoded arrays before anybody trains on it.
"""

import hashlib
import os
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
        # In blocks, since counting widens what it counts to 64 bits.
        blocks = (self.images[at : at + 1000] for at in range(0, len(self.images), 1000))
        counts = sum(np.bincount(block.reshape(-1), minlength=256) for block in blocks) / self.images.size
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
    game_rate: float = 0.05
    """SGD rate in the long-term game, at which thirty slots are enough to learn the task."""


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
            0.2,
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
        for key, array in arrays.items():
            # The digest is over bytes: a wider type could hold other values with the same low byte.
            if array.dtype != np.uint8:
                raise CorruptError(f"{path}: {key} of {name} must be uint8, got {array.dtype}")
        return verified(assemble(name, arrays), str(path))
    except (FileNotFoundError, NotADirectoryError, PotluckError):
        raise
    except Exception as fault:
        # One flipped bit in a header makes zipfile and NumPy raise nearly anything.
        raise CorruptError(f"{path}: not a readable copy of {name} ({in_one_line(fault)})") from fault


def in_one_line(fault: Exception) -> str:
    """Return what a library said went wrong, fit for a message of one line."""
    return " ".join(str(fault).split()) or type(fault).__name__


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

    One sample in five is held out for the server. Values that are not uint8 are mapped linearly to 0 … 255 from the
    range they have in the training part: each column's own where X is a table, the common one where X is images.
    """
    arrays = _read_arrays(path)
    values, count = _numbers(arrays["X"], path), len(arrays["X"])
    for name in ("y", "silo"):
        if name in arrays and arrays[name].shape != (count,):
            raise PotluckError(f"folder: {path}: {name} must have shape ({count},), got {arrays[name].shape}")
    if count < 10:
        raise PotluckError(f"folder: {path} has {count} samples; 10 or more are needed to hold some out")
    classes, labels = _numbered(arrays["y"], "y", path)
    if classes < 2:
        raise PotluckError(f"folder: {path}: y has one class only; there is nothing to tell apart")
    silo = _numbered(arrays["silo"], "silo", path)[1] if "silo" in arrays else None
    order = np.random.default_rng(0).permutation(count)
    test, train = np.split(order, [round(count * held_out)])
    images, test_images = _as_images(values[train], values[test], path)
    return Dataset(
        "folder",
        images,
        labels[train],
        test_images,
        labels[test],
        classes,
        None if silo is None else silo[train],
    )


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except FileNotFoundError:
        raise PotluckError(
            f"folder: {path} does not exist; give folder:PATH.npz with X, y and optionally silo"
        ) from None
    except Exception as fault:
        # As in read_npz: a damaged file makes the readers raise nearly anything.
        raise PotluckError(
            f"folder: {path} is not a readable .npz ({in_one_line(fault)}); write it with numpy.savez"
        ) from fault
    if missing := {"X", "y"} - arrays.keys():
        raise PotluckError(f"folder: {path} has no {' and no '.join(sorted(missing))}; it has {', '.join(arrays)}")
    return arrays


def _numbers(values: np.ndarray, path: Path) -> np.ndarray:
    """Return X as it can be scaled without overflow, uint8 or float64."""
    if not 2 <= values.ndim <= 4 or values.dtype.kind not in "iuf":
        raise PotluckError(
            f"folder: {path}: X must hold numbers of shape (samples, features), (samples, height, width) or "
            f"(samples, height, width, channels), got {values.dtype} {values.shape}"
        )
    if values.size == 0:
        raise PotluckError(f"folder: {path}: X is empty, its shape is {values.shape}")
    if values.dtype == np.uint8:
        return values
    with np.errstate(over="ignore"):  # a longer float that overflows is refused below, as infinite
        values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise PotluckError(f"folder: {path}: X has NaN or infinite values; clean them first")
    return values


def _numbered(values: np.ndarray, name: str, path: Path) -> tuple[int, Int[np.ndarray, " samples"]]:
    """Return how many different classes or organisations there are, and each sample's number among them."""
    if values.dtype.kind not in "biufUS":
        raise PotluckError(f"folder: {path}: {name} must hold whole numbers or text, got {values.dtype}")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise PotluckError(f"folder: {path}: {name} has NaN or infinite values; clean them first")
        if (values != np.trunc(values)).any():
            raise PotluckError(
                f"folder: {path}: {name} must hold whole numbers or text, got {values[values != np.trunc(values)][0]}"
            )
    names, numbers = np.unique(values, return_inverse=True)
    return len(names), numbers.astype(np.int32)


def _as_images(train: np.ndarray, test: np.ndarray, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Map both parts to uint8 images by the range of the training part alone: the other is the server's secret."""
    if train.dtype != np.uint8:
        axes = 0 if train.ndim == 2 else None
        low, high = train.min(axis=axes), train.max(axis=axes)
        with np.errstate(over="ignore"):
            span = high - low
        if not np.isfinite(span).all():
            raise PotluckError(f"folder: {path}: X ranges too widely for float64; scale it first")
        span = np.where(span > 0, span, 1.0)
        train, test = (
            np.round((np.clip(part, low, high) - low) / span * 255).astype(np.uint8) for part in (train, test)
        )
    shape = {2: (1, train.shape[-1], 1), 3: (*train.shape[1:], 1), 4: train.shape[1:]}[train.ndim]
    return train.reshape(-1, *shape), test.reshape(-1, *shape)
