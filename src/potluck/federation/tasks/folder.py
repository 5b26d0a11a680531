"""A user's own data, in a file that numpy.savez wrote."""

from pathlib import Path

import numpy as np
from jaxtyping import Int

from potluck.errors import PotluckError
from potluck.federation.data import Dataset, in_one_line
from potluck.federation.task import Task

USAGE = "folder:PATH.npz"


def read_folder(argument: str, held_out: float = 0.2) -> Dataset:
    """Read a user's `.npz`: X (samples first), y, and optionally silo, the organisation each sample belongs to.

    One sample in five is held out for the server, but never a silo's last. Values that are not uint8 are mapped
    linearly to 0 … 255 from the range they have in the training part: each column's own where X is a table, the common
    one where X is images.
    """
    if not argument:
        raise PotluckError(f": folder needs a file: {USAGE} with X, y and optionally silo", field="task")
    path = Path(argument)
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
    train, test = _split(count, silo, round(count * held_out), path)
    images, test_images = _as_images(values[train], values[test], path)
    return Dataset(
        "folder", images, labels[train], test_images, labels[test], classes, None if silo is None else silo[train]
    )


def _split(
    count: int, silo: Int[np.ndarray, " samples"] | None, held_out: int, path: Path
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """Hold out the first of a shuffled deck, but never the last sample that a silo has left."""
    order = np.random.default_rng(0).permutation(count)
    spare = np.ones(count, bool)
    if silo is not None:
        _, last = np.unique(silo[order][::-1], return_index=True)
        spare[count - 1 - last] = False
    if not spare.any():
        raise PotluckError(f"folder: {path}: every silo has one sample only, and none is left to hold out")
    out = np.flatnonzero(spare)[:held_out]
    return np.delete(order, out), order[out]


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except FileNotFoundError:
        raise PotluckError(f"folder: {path} does not exist; give {USAGE} with X, y and optionally silo") from None
    except Exception as fault:
        # A damaged file makes the readers raise nearly anything.
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


TASK = Task(
    name="folder", summary=f"your own data: {USAGE} with X, y and optionally silo", read=read_folder, usage=USAGE
)
