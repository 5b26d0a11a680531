"""The devices that work is spread over: every core of a CPU, or accelerators.

XLA's CPU backend keeps small batched products on one core, so `use_cores` makes every core a device, and games (or the
silos of a single game) are split over the devices. Code inside that needs all games asks `everywhere` or
`gathered`; it knows neither the mesh nor its axes, and runs the same where there is no mesh.
"""

import contextlib
import math
import os
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from potluck.errors import PotluckError

GAMES = "games"
"""The mesh axis that games are split over."""
FORCED = "xla_force_host_platform_device_count"
Tree = TypeVar("Tree")


def use_cores(count: int | None = None) -> int:
    """Make every core of the CPU a device of its own; only possible before JAX has started. Returns the devices.

    Who has set XLA_FLAGS to a number of devices gets that number.
    """
    if FORCED in os.environ.get("XLA_FLAGS", ""):
        return len(jax.devices())
    with contextlib.suppress(RuntimeError):  # JAX has started: what it has is what there is
        jax.config.update("jax_num_cpu_devices", count or cores())
    return len(jax.devices())


def cores() -> int:
    """How many cores this process may use, which a container or `taskset` can make fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mesh_over(work: int, axis: str = GAMES) -> Mesh:
    """As many devices as divide the work evenly."""
    devices = jax.devices()
    count = max(n for n in range(1, min(len(devices), work) + 1) if work % n == 0)
    return Mesh(np.array(devices[:count]), (axis,))


def free_memory() -> float:
    """Bytes that a program may still take: of the accelerator, or of the machine."""
    told = jax.devices()[0].memory_stats()
    if told and "bytes_limit" in told:
        return float(told["bytes_limit"] - told.get("bytes_in_use", 0))
    free = math.inf
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024.0 * int(line.split()[1])
    with contextlib.suppress(OSError, ValueError):  # a container's own limit, where it has one
        limit, used = (float((Path("/sys/fs/cgroup") / file).read_text()) for file in ("memory.max", "memory.current"))
        free = min(free, limit - used)
    return free


def check_memory(needed: float, field: str) -> None:
    """Refuse what the memory cannot hold before it is begun: a machine that swaps answers nobody."""
    free = free_memory()
    if needed > free:
        raise PotluckError(
            f": about {needed / 2**30:,.1f} GiB of memory would be needed, and {free / 2**30:,.1f} GiB are free; "
            "lower it",
            field=field,
        )


def bytes_of(tree: object) -> float:
    """How much the arrays of a tree take, or would."""
    return float(sum(math.prod(leaf.shape) * _width(leaf) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "shape")))


def _width(leaf: Any) -> int:
    return 8 if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype.itemsize


def device_count() -> int:
    """How many devices share the games of the program that is being traced; 1 outside of any mesh."""
    try:
        return int(jax.lax.axis_size(GAMES))
    except NameError:
        return 1


def device_index() -> Array | int:
    """Which of them this one is."""
    return jax.lax.axis_index(GAMES) if device_count() > 1 else 0


def everywhere(value: Float[Array, "..."]) -> Float[Array, "..."]:
    """The mean over all devices that share the games."""
    return jax.lax.pmean(value, GAMES) if device_count() > 1 else value


def gathered(tree: Tree) -> Tree:
    """Every device's values side by side, on a new leading axis."""
    if device_count() == 1:
        alone: Tree = jax.tree.map(lambda leaf: leaf[None], tree)
        return alone
    everyone: Tree = jax.lax.all_gather(tree, GAMES)
    return everyone
