"""From a description to a federation that is ready to train."""

import operator
from collections.abc import Sequence
from typing import SupportsIndex, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from pydantic import ValidationError

from potluck.devices import bytes_of, check_memory
from potluck.errors import PotluckError
from potluck.federation.data import Dataset, check_data
from potluck.federation.dynamics import Dynamics, Static, dynamics_named
from potluck.federation.fedavg import FedAvg, Silo, TestSet
from potluck.federation.fetching import load
from potluck.federation.models import MODELS, Architecture
from potluck.federation.partition import check_sizes, partition
from potluck.federation.task import Task
from potluck.federation.tasks import TASKS
from potluck.scenario import FederationConfig
from potluck.scenario.explain import first_fault

DEFAULT = FederationConfig()
Sizes: TypeAlias = float | SupportsIndex | Sequence[float | SupportsIndex] | np.ndarray
"""One number for all silos, or one for each."""


def federation_config(like: FederationConfig | None = None, /, **options: object) -> FederationConfig:
    """A description of a federation, `like` another but for what is named; a fault is one PotluckError that knows the
    field.
    """
    try:
        return FederationConfig.model_validate({**(like.model_dump() if like else {}), **options})
    except ValidationError as fault:
        field, _, message = first_fault(fault, FederationConfig).partition(" ")
        if field.endswith(":"):
            field, message = field[:-1], f": {message}"
        raise PotluckError(message, field=field) from None


def build(
    config: FederationConfig = DEFAULT,
    *,
    silos: int = 4,
    samples: Sizes | None = None,
    data: Dataset | None = None,
    dynamics: Dynamics | None = None,
    capacity: int = 0,
    seed: int = 0,
) -> FedAvg:
    """Partition the data by `seed` and put it on the device.

    `samples` is |D_n|, one number or one per silo; `data` and `dynamics` take the place of what the config names. What
    is left out takes the task's default; where local sets change, a silo holds by default no more than half of what it
    could own. Pools are padded to `capacity` where they are smaller, so that federations of different sizes have one
    shape.
    """
    data = load(config.task) if data is None else data
    check_data(data)
    task = defaults_of(data)
    silos, seed = integer("silos", silos), integer("seed", seed, 0)
    still = config.dynamics == "static" if dynamics is None else isinstance(dynamics, Static)
    sizes = local_sizes(data, silos, samples, config.partition, spare=not still)
    check_sizes(sizes)
    changes = dynamics or dynamics_named(config.dynamics, sizes)
    most = ownable(data, sizes, config.partition)
    pools = [changes.pool(size, available) for size, available in zip(sizes, most, strict=True)]
    shares = partition(
        config.partition, data.labels, pools, concentration=config.concentration, silo=data.silo, seed=seed
    )
    check_pools(changes, pools)
    fitted = config.model_copy(update={"hidden": config.hidden or task.hidden})
    shape = MODELS[config.model or task.model](data.shape, data.classes, fitted)
    check_room(shape, silos, "model")
    centre, deviation = data.standard()
    held_out = slice(config.held_out)
    return FedAvg(
        silos=stack(shape.features(data.images[np.concatenate(shares)]), data.labels, shares, capacity),
        test=TestSet(
            features=jnp.asarray(shape.features(data.test_images[held_out])),
            labels=jnp.asarray(data.test_labels[held_out], jnp.int32),
            size=len(data.test_labels[held_out]),
        ),
        learning_rate=jnp.float32(config.learning_rate),
        architecture=shape,
        proximal=jnp.float32(config.proximal) if config.proximal else None,
        server_learning_rate=None if config.server_learning_rate is None else jnp.float32(config.server_learning_rate),
        server_momentum=None if config.server_momentum is None else jnp.float32(config.server_momentum),
        optimiser=config.optimiser,
        aggregation=config.aggregation,
        dynamics=changes,
        centre=centre,
        deviation=deviation,
        batch_size=config.batch_size or task.batch_size,
        epochs=config.epochs,
        partial_batches=config.partial_batches,
        dtype=config.dtype,
    )


def check_room(shape: Architecture, silos: int, field: str, games: int = 1) -> None:
    """Refuse models that the memory cannot hold: every silo's own three times while it learns, the server's twice."""
    weights = bytes_of(jax.eval_shape(shape.init, jax.random.key(0)))
    check_memory(games * (3 * silos + 2) * weights, field)


def local_sizes(data: Dataset, silos: int, samples: Sizes | None, kind: str, *, spare: bool = False) -> list[int]:
    """|D_n| for every silo: as given, else the task's default, else all that there is.

    With `spare`, a size that was not given leaves at least as much again for the local set to change to.
    """
    if samples is None:
        if kind == "natural" and data.silo is not None:
            own = [int(count) for count in np.bincount(data.silo)]
            if len(own) != silos:
                raise PotluckError(
                    f": the silo column names {len(own)} silos with samples to train on and the run has {silos}",
                    field="partition",
                )
            return [max(count // 2, 1) for count in own] if spare else own
        share = len(data.labels) // silos
        size = defaults_of(data).samples or share
        return [max(min(size, share // 2), 1) if spare else size] * silos
    given = samples.tolist() if isinstance(samples, np.ndarray) else samples
    sizes = (
        [integer("samples", size) for size in given]
        if isinstance(given, Sequence)
        else [integer("samples", given)] * silos
    )
    if len(sizes) != silos:
        raise PotluckError(f": {len(sizes)} sizes for {silos} silos; give one number or one per silo", field="samples")
    return sizes


def ownable(data: Dataset, sizes: list[int], kind: str) -> list[int]:
    """The most that each silo can own: its own samples, or its size and a share in proportion of what nobody holds."""
    if kind == "natural" and data.silo is not None:
        return [int(np.sum(data.silo == n)) for n in range(len(sizes))]
    spare = len(data.labels) - sum(sizes)
    return [size + spare * size // sum(sizes) for size in sizes]


def check_pools(changes: Dynamics, pools: list[int]) -> None:
    """Refuse dynamics that the silos have too few samples for: they would be static in disguise."""
    least = changes.least()
    if least.ndim and least.shape != (len(pools),):
        raise PotluckError(
            f": {len(least)} sizes for {len(pools)} silos; give one number or one per silo", field="dynamics"
        )
    for n, needed in enumerate(np.broadcast_to(least, len(pools))):
        if pools[n] < needed:
            name = type(changes).__name__.lower()
            raise PotluckError(
                f": {name} needs {needed} samples to choose from in silo {n}, which would own {pools[n]}; "
                "lower samples, silos or its size",
                field="dynamics",
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


def integer(name: str, value: object, least: int = 1) -> int:
    """Return the value as an int, refused unless it is a whole number of any type, `least` or more."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise PotluckError(f"must be a whole number, got {value!r}", field=name) from None
    if number < least:
        raise PotluckError(f"must be {least} or more, got {number}", field=name)
    return number


def model_of(config: FederationConfig) -> str:
    """What is trained: the model that is named, else the task's own."""
    return config.model or TASKS[config.task.partition(":")[0]].model


def defaults_of(data: Dataset) -> Task:
    """The settings of the task that the data is called after; one's own data has those of `folder`."""
    return TASKS[data.name if data.name in TASKS else "folder"]


def check_contributions(values: ArrayLike, silos: int) -> Float[np.ndarray, "... silos"]:
    """Contributions as float32, refused unless there is one per silo and each is in [0, 1]."""
    try:
        contributions = np.asarray(values, float)
    except (TypeError, ValueError):
        raise PotluckError(f"must be numbers in [0, 1], got {values!r}", field="contributions") from None
    if contributions.ndim < 1 or contributions.shape[-1] != silos:
        got = contributions.shape[-1] if contributions.ndim else "a single number"
        raise PotluckError(f": {silos} silos need {silos} numbers, got {got}", field="contributions")
    wrong = np.argwhere(~((contributions >= 0) & (contributions <= 1)))  # NaN is neither
    if len(wrong):
        at = tuple(wrong[0])
        raise PotluckError(
            f": silo {at[-1]} gives {contributions[at]}; a share of its data is in [0, 1]", field="contributions"
        )
    return contributions.astype(np.float32)
