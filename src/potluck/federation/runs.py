"""Whole runs as one compiled program, spread over the cores or devices there are.

XLA's CPU backend keeps small batched products on one core. A single game therefore splits its silos over the
devices, many games are split game by game, and `use_cores` makes every core a device.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.errors import PotluckError
from potluck.federation.build import check_contributions, whole
from potluck.federation.fedavg import FedAvg, Global, Silo, State, TestSet, check_length

__all__ = ["Spread", "Trace", "compiled", "mesh_over", "run", "run_games", "spread", "use_cores"]

AXIS = "silos"
CACHE_BYTES = 8 << 20
LARGE_PRODUCT = 1 << 20
LIBRARY_PRODUCTS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}


class Trace(eqx.Module):
    """Precision before the first slot and after each; with a leading axis, of many games."""

    initial: Float[Array, "*games"]
    precision: Float[Array, "*games slots"]


def use_cores(count: int | None = None) -> int:
    """Make every core of the CPU a device of its own; only possible before JAX has started. Returns the devices."""
    with contextlib.suppress(RuntimeError):  # JAX has started: what it has is what there is
        jax.config.update("jax_num_cpu_devices", count or cores())
    return len(jax.devices())


def cores() -> int:
    """How many cores this process may use, which a container or `taskset` can make fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mesh_over(work: int, axis: str) -> Mesh:
    """Return as many devices as divide the work evenly."""
    devices = jax.devices()
    count = max(n for n in range(1, min(len(devices), work) + 1) if work % n == 0)
    return Mesh(np.array(devices[:count]), (axis,))


class Spread(eqx.Module):
    """One game whose silos are spread over devices; a precision source like the federation it wraps.

    The silos' models are gathered before they are averaged, so the order of the sum does not depend on the devices.
    (Their local steps may round differently when a device holds a single silo: same bits means same machine.)
    """

    fed: FedAvg
    mesh: Mesh = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> State:
        """Fresh weights and the first local sets."""
        return self.fed.init(key)

    def samples(self, state: State) -> Float[Array, " silos"]:
        """|D_n[t]| of the coming slot."""
        return self.fed.samples(state)

    def measure(self, state: State) -> Float[Array, ""]:
        """P of the global model, outside any slot."""
        return self.fed.measure(state)

    def train(
        self, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray
    ) -> tuple[State, Float[Array, ""]]:
        """One slot; every device trains its own silos and measures its part of the held-out data."""
        fed = self.fed
        check_length(contributions, fed.silos.pool)

        def round_(
            silos: Silo, test: TestSet, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray
        ) -> tuple[Global, Float[Array, ""]]:
            here = dataclasses.replace(fed, silos=silos, test=test, axis=AXIS)
            return here.round(state.model, contributions, key, state.window)

        training, change = jax.random.split(key)
        split, whole = P(AXIS), P()
        state_spec = State(model=whole, window=split)  # type: ignore[arg-type]
        model, precision = jax.shard_map(
            round_,
            mesh=self.mesh,
            in_specs=(split, split, state_spec, split, whole),
            out_specs=(whole, whole),
            check_vma=False,
        )(fed.silos, fed.test, state, contributions, training)
        window = fed.dynamics.step(state.window, fed.silos.pool, change)
        return State(model=model, window=window), precision


def spread(fed: FedAvg) -> FedAvg | Spread:
    """Spread one game's silos over the devices, where there is more than one to spread them over."""
    mesh = mesh_over(fed.silos.labels.shape[0], AXIS)
    if mesh.size == 1:
        return fed
    place = NamedSharding(mesh, P(AXIS))
    padding = -len(fed.test.labels) % mesh.size
    test = TestSet(
        features=jnp.pad(fed.test.features, ((0, padding), *((0, 0),) * (fed.test.features.ndim - 1))),
        labels=jnp.pad(fed.test.labels, (0, padding), constant_values=-1),
        size=fed.test.size,
    )
    arrays = jax.device_put((fed.silos, test), place)
    return Spread(fed=dataclasses.replace(fed, silos=arrays[0], test=arrays[1]), mesh=mesh)


def run(
    fed: FedAvg | Spread, contributions: Float[np.ndarray, "*slots silos"], key: PRNGKeyArray, slots: int | None = None
) -> Trace:
    """One game over all its slots: contributions per slot, or one set of them for `slots` slots.

    Who plays many games one after the other spreads the federation once, and passes that.
    """
    source, whole_fed = (spread(fed), fed) if isinstance(fed, FedAvg) else (fed, fed.fed)
    played: Trace = compiled(trace, whole_fed)(source, jnp.asarray(_plan(whole_fed, contributions, slots)), key)
    return played


def run_games(
    fed: FedAvg, contributions: Float[np.ndarray, "games *slots silos"], keys: PRNGKeyArray, slots: int | None = None
) -> Trace:
    """Many games side by side on the same data, each with its own model, contributions and key."""
    values = check_contributions(contributions, fed.silos.labels.shape[0])
    if values.ndim < 2 or not len(values):
        raise PotluckError(f"contributions: run_games needs 1 game or more, got shape {values.shape}")
    plans = jnp.asarray(np.stack([_plan(fed, game, slots) for game in values]))
    if keys.shape != (len(plans),):
        raise PotluckError(f"keys: {len(plans)} games need {len(plans)} keys, got {keys.shape}")
    games = len(plans)
    mesh = Mesh(np.array(jax.devices()[:games]), ("games",))
    each = -(-games // mesh.size)
    groups = -(-each // abreast(fed, each))
    together = -(-each // groups)
    # Games in which nobody contributes fill up the last groups; what they give is cut off.
    padding = mesh.size * groups * together - games
    plans = jnp.pad(plans, ((0, padding), (0, 0), (0, 0)))
    keys = jnp.concatenate([keys, jnp.repeat(keys[-1:], padding)])
    plans, keys = jax.device_put((plans, keys), NamedSharding(mesh, P("games")))
    padded: Trace = compiled(_run_games, fed)(fed, plans, keys, mesh, together)
    return jax.tree.map(lambda a: a[:games], padded)  # type: ignore[no-any-return]


def _plan(fed: FedAvg, contributions: Float[np.ndarray, "*slots silos"], slots: int | None) -> np.ndarray:
    plan = check_contributions(contributions, fed.silos.labels.shape[0])
    slots = None if slots is None else whole("slots", slots)
    if plan.ndim == 1:
        if slots is None:
            raise PotluckError("slots must be 1 or more, got None")
        plan = np.broadcast_to(plan, (slots, *plan.shape))
    elif plan.ndim == 2 and slots not in (None, len(plan)):
        raise PotluckError(f"contributions: a plan of {len(plan)} slots was given for {slots}")
    if plan.ndim > 2 or not len(plan):
        raise PotluckError(
            f"contributions: a game needs one per silo, or that for 1 slot or more, got shape {plan.shape}"
        )
    return plan


def trace(source: FedAvg | Spread, plan: Float[Array, "slots silos"], key: PRNGKeyArray) -> Trace:
    """Scan one game's slots."""
    start, slots = jax.random.split(key)
    state = source.init(start)
    initial = source.measure(state)
    keys = jax.random.split(slots, len(plan))
    _, precision = jax.lax.scan(lambda s, slot: source.train(s, *slot), state, (plan, keys))
    return Trace(initial=initial, precision=precision)


def compiled(function: Callable[..., Any], fed: FedAvg) -> Callable[..., Any]:
    """Compile a function that trains this federation, with the matrix products that suit its size.

    On a CPU the products of XLA's kernel library make a slot of a 784-64-10 perceptron 1.1 to 1.6 times as fast, and
    measuring precision three times; for 64-32-10 they are a quarter slower than XLA's own. Inside a program that is
    itself being compiled the products are that program's to choose: JAX takes the option at the top alone.
    """
    weights = jax.tree.leaves(jax.eval_shape(fed.architecture.init, jax.random.key(0)))
    large = fed.batch * max(leaf.size for leaf in weights) >= LARGE_PRODUCT
    outermost = not isinstance(jnp.zeros(()), jax.core.Tracer)
    return _compiled(function, large and outermost and jax.default_backend() == "cpu")


@functools.cache
def _compiled(function: Callable[..., Any], library: bool) -> Callable[..., Any]:
    if library:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a version of XLA that names the option otherwise
            jax.jit(lambda x: x, compiler_options=LIBRARY_PRODUCTS).lower(0.0).compile()
            options: dict[str, Any] = {"compiler_options": LIBRARY_PRODUCTS}
            return eqx.filter_jit(function, **options)
    return eqx.filter_jit(function)


def abreast(fed: FedAvg, games: int) -> int:
    """How many of a device's games it should at most train in step, and the rest after them.

    A CPU is fastest while the local models of all of them stay in its cache: with 4 silos and a 784-64-10 perceptron
    8 games cost 32 ms each, 16 cost 55. An accelerator takes all it is given.
    """
    if jax.default_backend() != "cpu":
        return games
    weights = jax.eval_shape(fed.architecture.init, jax.random.key(0))
    footprint = fed.silos.labels.shape[0] * sum(leaf.size * 4 for leaf in jax.tree.leaves(weights))
    return min(max(int(CACHE_BYTES // footprint), 1), games)


def _run_games(
    fed: FedAvg, plans: Float[Array, "games slots silos"], keys: PRNGKeyArray, mesh: Mesh, together: int
) -> Trace:
    def games(fed: FedAvg, plans: Float[Array, "games slots silos"], keys: PRNGKeyArray) -> Trace:
        groups = jax.tree.map(lambda a: a.reshape(-1, together, *a.shape[1:]), (plans, keys))
        traces = jax.lax.map(lambda group: jax.vmap(lambda plan, key: trace(fed, plan, key))(*group), groups)
        joined: Trace = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), traces)
        return joined

    split = P("games")
    run_ = jax.shard_map(games, mesh=mesh, in_specs=(P(), split, split), out_specs=split, check_vma=False)
    return run_(fed, plans, keys)
