"""From a few words (task, model, partition, dynamics) to a federation that is ready to train."""

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from potluck.errors import PotluckError
from potluck.federation.data import TASKS, Dataset, Task
from potluck.federation.dynamics import Dynamics, Static, dynamics
from potluck.federation.fedavg import FedAvg, Silo, TestSet
from potluck.federation.fetching import load
from potluck.federation.models import architecture
from potluck.federation.optimisers import optimiser
from potluck.federation.partition import check_sizes, partition

__all__ = ["build", "check_contributions"]

DTYPES = ("float32", "bfloat16")


def build(
    task: str | Dataset = "digits",
    *,
    silos: int = 4,
    samples: SupportsIndex | Sequence[SupportsIndex] | np.ndarray | None = None,
    model: str = "mlp",
    hidden: int | None = None,
    channels: tuple[int, int] = (8, 16),
    partition_by: str = "iid",
    concentration: float = 0.5,
    changing: str | Dynamics = "static",
    optimise: str = "sgd",
    learning_rate: float = 0.05,
    batch: int | None = None,
    epochs: int = 1,
    smooth: bool = False,
    proximal: float = 0.0,
    server_momentum: float = 0.0,
    tests: int | None = None,
    dtype: str = "float32",
    capacity: int = 0,
    seed: int = 0,
) -> FedAvg:
    """Partition the task's data by `seed` and put it on the device.

    `samples` is |D_n|, one number or one per silo; `tests` limits the held-out samples that precision is measured
    on (all of them by default). What is left out takes the task's default; where local sets change, a silo holds by
    default no more than half of what it could own. Pools are padded to `capacity` where they are smaller, so that
    federations of different sizes have one shape.
    """
    data = load(task) if isinstance(task, str) else task
    check_data(data)
    defaults = defaults_of(data)
    silos, seed, epochs = whole("silos", silos), whole("seed", seed, 0), whole("epochs", epochs)
    batch = whole("batch", defaults.batch if batch is None else batch)
    hidden = whole("hidden", defaults.hidden if hidden is None else hidden)
    first, second = pair("channels", channels)
    tests = None if tests is None else whole("tests", tests)
    check_engine(proximal, server_momentum, dtype, tests, len(data.test_labels))
    still = changing == "static" or isinstance(changing, Static)
    sizes = local_sizes(data, silos, samples, partition_by, spare=not still)
    check_sizes(sizes)
    changes = _dynamics(changing, sizes) if isinstance(changing, str) else changing
    most = ownable(data, sizes, partition_by)
    pools = [changes.pool(size, available) for size, available in zip(sizes, most, strict=True)]
    shares = partition(partition_by, data.labels, pools, concentration=concentration, silo=data.silo, seed=seed)
    check_pools(changes, pools)
    shape = architecture(model, data.shape, data.classes, hidden, (first, second))
    centre, spread = data.standard()
    held_out = slice(None) if tests is None else slice(tests)
    return FedAvg(
        silos=stack(shape.features(data.images[np.concatenate(shares)]), data.labels, shares, capacity),
        test=TestSet(
            features=jnp.asarray(shape.features(data.test_images[held_out])),
            labels=jnp.asarray(data.test_labels[held_out], jnp.int32),
            size=len(data.test_labels[held_out]),
        ),
        architecture=shape,
        optimiser=optimiser(optimise, learning_rate),
        dynamics=changes,
        centre=centre,
        spread=spread,
        batch=batch,
        epochs=epochs,
        smooth=smooth,
        proximal=proximal,
        server_momentum=server_momentum,
        dtype=dtype,
    )


def _dynamics(name: str, sizes: list[int]) -> Dynamics:
    """Redraw and stream keep the paper's proportions, N(2000, 50) and one sample in twenty, at any silo's size."""
    return dynamics(
        name,
        mean=tuple(sizes),
        deviation=tuple(size / 40 for size in sizes),
        window=tuple(sizes),
        arrivals=tuple(max(size // 20, 1) for size in sizes),
    )


def local_sizes(
    data: Dataset,
    silos: int,
    samples: SupportsIndex | Sequence[SupportsIndex] | np.ndarray | None,
    partition_by: str,
    *,
    spare: bool = False,
) -> list[int]:
    """|D_n| for every silo: as given, else the task's default, else all that there is.

    With `spare`, a size that was not given leaves at least as much again for the local set to change to.
    """
    if samples is None:
        if partition_by == "natural" and data.silo is not None:
            own = [int(count) for count in np.bincount(data.silo)]
            if len(own) != silos:
                raise PotluckError(
                    f"partition: the silo column names {len(own)} silos with samples to train on "
                    f"and the run has {silos}"
                )
            return [max(count // 2, 1) for count in own] if spare else own
        share = len(data.labels) // silos
        size = defaults_of(data).samples or share
        return [max(min(size, share // 2), 1) if spare else size] * silos
    given = samples.tolist() if isinstance(samples, np.ndarray) else samples
    sizes = (
        [whole("samples", size) for size in given] if isinstance(given, Sequence) else [whole("samples", given)] * silos
    )
    if len(sizes) != silos:
        raise PotluckError(f"samples: {len(sizes)} sizes for {silos} silos; give one number or one per silo")
    return sizes


def ownable(data: Dataset, sizes: list[int], partition_by: str) -> list[int]:
    """The most that each silo can own: its own samples, or its size and a share in proportion of what nobody holds."""
    if partition_by == "natural" and data.silo is not None:
        return [int(np.sum(data.silo == n)) for n in range(len(sizes))]
    spare = len(data.labels) - sum(sizes)
    return [size + spare * size // sum(sizes) for size in sizes]


def check_pools(changes: Dynamics, pools: list[int]) -> None:
    """Refuse dynamics that the silos have too few samples for: they would be static in disguise."""
    least = changes.least()
    if least.ndim and least.shape != (len(pools),):
        raise PotluckError(f"dynamics: {len(least)} sizes for {len(pools)} silos; give one number or one per silo")
    for n, needed in enumerate(np.broadcast_to(least, len(pools))):
        if pools[n] < needed:
            name = type(changes).__name__.lower()
            raise PotluckError(
                f"dynamics: {name} needs {needed} samples to choose from in silo {n}, which would own {pools[n]}; "
                "lower samples, silos or its size"
            )


def stack(features: np.ndarray, labels: np.ndarray, shares: list[np.ndarray], capacity: int = 0) -> Silo:
    """Put the silos' pools into one array, the smaller ones padded at the end with samples that are never drawn."""
    sizes = [len(share) for share in shares]
    longest = max(capacity, *sizes)
    pools = np.split(features, np.cumsum(sizes)[:-1])
    stacked = np.zeros((len(shares), longest, *features.shape[1:]), np.uint8)
    classes = np.zeros((len(shares), longest), np.int32)
    for n, (pool, share) in enumerate(zip(pools, shares, strict=True)):
        stacked[n, : len(share)] = pool
        classes[n, : len(share)] = labels[share]
    return Silo(
        features=jnp.asarray(stacked),
        labels=jnp.asarray(classes),
        pool=jnp.asarray(sizes, jnp.int32),
        identity=jnp.arange(len(shares), dtype=jnp.int32),
    )


def whole(name: str, value: object, least: int = 1) -> int:
    """Return the value as an int, refused unless it is a whole number of any type, `least` or more."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise PotluckError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise PotluckError(f"{name} must be {least} or more, got {number}")
    return number


def pair(name: str, values: object) -> tuple[int, int]:
    """Return two whole numbers, refused unless they are two."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 2:
        raise PotluckError(f"{name} must be two whole numbers, got {values!r}")
    return whole(name, values[0]), whole(name, values[1])


def defaults_of(data: Dataset) -> Task:
    """The settings of the task that the data is called after; one's own data has those of `folder`."""
    return TASKS.get(data.name, TASKS["folder"])


def check_data(data: Dataset) -> None:
    """Refuse arrays that would be cut off, cast or trained on as something else."""
    for part, images, labels in (
        ("", data.images, data.labels),
        ("test_", data.test_images, data.test_labels),
    ):
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


def check_engine(proximal: float, server_momentum: float, dtype: str, tests: int | None, available: int) -> None:
    """Refuse settings that make no sense, before anything is loaded onto the device."""
    if not (proximal >= 0 and math.isfinite(proximal)):
        raise PotluckError(f"proximal must be 0 or more and finite, got {proximal} (0 is FedAvg)")
    if not 0 <= server_momentum < 1:
        raise PotluckError(f"server_momentum must be in [0, 1), got {server_momentum}")
    if dtype not in DTYPES:
        raise PotluckError(f"dtype: {dtype!r} is not one of {', '.join(DTYPES)}")
    if tests is not None and not 1 <= tests <= available:
        raise PotluckError(f"tests must be between 1 and the task's {available} held-out samples, got {tests}")


def check_contributions(values: ArrayLike, silos: int) -> Float[np.ndarray, "... silos"]:
    """Contributions as float32, refused unless there is one per silo and each is in [0, 1]."""
    try:
        contributions = np.asarray(values, float)
    except (TypeError, ValueError):
        raise PotluckError(f"contributions must be numbers in [0, 1], got {values!r}") from None
    if contributions.ndim < 1 or contributions.shape[-1] != silos:
        got = contributions.shape[-1] if contributions.ndim else "a single number"
        raise PotluckError(f"contributions: {silos} silos need {silos} numbers, got {got}")
    wrong = np.argwhere(~((contributions >= 0) & (contributions <= 1)))  # NaN is neither
    if len(wrong):
        at = tuple(wrong[0])
        raise PotluckError(f"contributions: silo {at[-1]} gives {contributions[at]}; a share of its data is in [0, 1]")
    return contributions.astype(np.float32)
