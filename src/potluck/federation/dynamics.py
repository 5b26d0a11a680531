"""How the local data sets change from slot to slot: `static`, `redraw`, `stream`.

Each silo has a *pool* in shuffled order. Its current set D_n[t] is the cyclic window of the pool that starts at
`start` and has `size` samples, so one pair of integers per silo describes any of the three, whatever the data is.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from potluck.errors import PotluckError
from potluck.scenario.federation import DynamicsName

Integer: TypeAlias = int | tuple[int, ...]
Real: TypeAlias = float | tuple[float, ...]
"""One number for all silos, or one for each."""


def _plain(values: Real | Sequence[float] | np.ndarray) -> Real:
    """Sizes as numbers or a tuple of them: what is compiled with a federation must compare and hash."""
    listed = np.asarray(values).tolist()
    return tuple(listed) if isinstance(listed, list) else listed


def _within(values: Real, least: float) -> bool:
    return bool(np.all((np.asarray(values) >= least) & np.isfinite(values)))


class Window(eqx.Module):
    """The current local sets: samples start, start + 1, …, start + size − 1 of the pool, cyclically."""

    start: Int[Array, "*silos"]
    size: Int[Array, "*silos"]


@runtime_checkable
class Dynamics(Protocol):
    """How D_n[t] becomes D_n[t + 1]."""

    def pool(self, size: int, available: int) -> int:
        """How many samples a silo of nominal size `size` should own, when it can own `available` at most."""

    def least(self) -> Int[np.ndarray, "*silos"]:
        """The smallest pool that leaves a silo something to change to: one number for all silos, or one for each."""

    def bound(self, pool: int) -> int:
        """The largest |D_n[t]| there can be, given the largest pool: what the engine must be able to shuffle."""

    def init(self, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        """D_n[0], given the pools' sizes."""

    def step(self, window: Window, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        """D_n[t + 1]."""


class Static(eqx.Module):
    """The whole pool, always."""

    def pool(self, size: int, available: int) -> int:
        """No more than is used."""
        del available
        return size

    def least(self) -> Int[np.ndarray, "*silos"]:
        """Nothing changes, so one sample will do."""
        return np.array(1)

    def bound(self, pool: int) -> int:
        return pool

    def init(self, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        del key
        return Window(start=jnp.zeros_like(pool), size=pool)

    def step(self, window: Window, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        del pool, key
        return window


class Redraw(eqx.Module):
    """A fresh stretch of the shuffled pool every slot, |D_n[t]| ~ N(mean, deviation), at least 1, at most the pool."""

    mean: Real = eqx.field(default=2000.0, converter=_plain)
    deviation: Real = eqx.field(default=50.0, converter=_plain)

    def __check_init__(self) -> None:
        if not (_within(self.mean, 1) and _within(self.deviation, 0)):
            raise PotluckError(
                f": redraw needs mean ≥ 1 and deviation ≥ 0, got {self.mean} and {self.deviation}", field="dynamics"
            )

    def pool(self, size: int, available: int) -> int:
        """Twice the nominal size where there is enough, so that a new draw is mostly new data; more for wide draws."""
        least = self.least()
        return max(size, min(max(2 * size, 0 if least.ndim else int(least)), available))

    def least(self) -> Int[np.ndarray, "*silos"]:
        """Five deviations above the mean; the draw is cut there."""
        return np.asarray(np.ceil(np.asarray(self.mean) + 5 * np.asarray(self.deviation)), int)

    def bound(self, pool: int) -> int:
        """The silo that may draw most decides."""
        return min(pool, int(self.least().max()))

    def init(self, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        sizes, starts = jax.random.split(key)
        mean, deviation = (jnp.asarray(value, jnp.float32) for value in (self.mean, self.deviation))
        drawn = mean + deviation * jax.random.normal(sizes, pool.shape, jnp.float32)
        most = jnp.minimum(pool, jnp.asarray(self.least(), pool.dtype))
        size = jnp.clip(jnp.round(drawn).astype(pool.dtype), 1, most)
        return Window(start=jax.random.randint(starts, pool.shape, 0, pool, pool.dtype), size=size)

    def step(self, window: Window, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        del window
        return self.init(pool, key)


class Stream(eqx.Module):
    """A window of fixed length: each slot `arrivals` new samples enter it and as many old ones leave."""

    window: Integer = eqx.field(converter=_plain)
    arrivals: Integer = eqx.field(converter=_plain)

    def __check_init__(self) -> None:
        if not (_within(self.window, 1) and _within(self.arrivals, 0)):
            raise PotluckError(
                f": stream needs window ≥ 1 and arrivals ≥ 0, got {self.window} and {self.arrivals}", field="dynamics"
            )

    def pool(self, size: int, available: int) -> int:
        """Four windows' worth where there is enough; after that the stream comes round again."""
        return max(size, min(4 * size, available))

    def least(self) -> Int[np.ndarray, "*silos"]:
        """The window and what enters it next."""
        return np.asarray(np.add(self.window, self.arrivals), int)

    def bound(self, pool: int) -> int:
        return min(pool, int(np.max(self.window)))

    def init(self, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        """Start at a random place of the pool."""
        start = jax.random.randint(key, pool.shape, 0, pool, pool.dtype)
        return Window(start=start, size=jnp.minimum(jnp.asarray(self.window, pool.dtype), pool))

    def step(self, window: Window, pool: Int[Array, " silos"], key: PRNGKeyArray) -> Window:
        del key
        arrivals = jnp.asarray(self.arrivals, pool.dtype)
        return Window(start=(window.start + arrivals) % pool, size=window.size)


def dynamics_named(name: DynamicsName, sizes: Sequence[int]) -> Dynamics:
    """Redraw and stream keep the paper's proportions, N(2000, 50) and one sample in twenty, at any silo's size."""
    if name == "static":
        return Static()
    if name == "redraw":
        return Redraw(tuple(map(float, sizes)), tuple(size / 40 for size in sizes))
    return Stream(tuple(sizes), tuple(max(size // 20, 1) for size in sizes))
