"""Whole runs as one compiled program on all devices: a single game divides its silos among them, many go one by one."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Key, PRNGKeyArray

from potluck.devices import GAMES, mesh_over
from potluck.errors import PotluckError
from potluck.federation.build import check_contributions, integer
from potluck.federation.dynamics import Window
from potluck.federation.fedavg import FedAvg, Global, Silo, State, TestSet, check_length, samples_of
from potluck.federation.source import Measurement

Inputs = ParamSpec("Inputs")
Output = TypeVar("Output")
SILOS = "silos"
"""The mesh axis that one game's silos are divided along."""
CACHE_BYTES = 8 << 20
LARGE_PRODUCT = 1 << 20
LIBRARY_PRODUCTS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}


class Trace(eqx.Module):
    """Precision before the first slot and after each; with a leading axis, of many games."""

    initial: Float[Array, "*games"]
    precision: Float[Array, "*games slots"]


class ShardedFedAvg(eqx.Module):
    """One game whose silos are divided among devices; a precision source like the federation it wraps.

    The silos' models are gathered before they are averaged, so the order of the sum does not depend on the devices.
    (Their local steps may round differently when a device holds a single silo: same bits means same machine.)
    """

    fed: FedAvg
    mesh: Mesh = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> State:
        return self.fed.init(key)

    def samples(self, state: State) -> Float[Array, " silos"]:
        return self.fed.samples(state)

    def measure(self, state: State) -> Float[Array, ""]:
        return self.fed.measure(state)

    def train(
        self, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray, *, marginal: bool = False
    ) -> tuple[State, Measurement]:
        """One slot; every device trains its own silos and measures its part of the held-out data."""
        fed = self.fed
        check_length(contributions, fed.silos.pool)

        def round_(
            silos: Silo,
            test: TestSet,
            window: Window,
            contributions: Float[Array, " silos"],
            everywhere: tuple[Global, PRNGKeyArray],
        ) -> tuple[Global, Measurement]:
            here, (model, key) = dataclasses.replace(fed, silos=silos, test=test, axis=SILOS), everywhere
            return here.round(model, contributions, key, window, marginal=marginal)

        training, change = jax.random.split(key)
        split = P(SILOS)
        model, measured = jax.shard_map(
            round_, mesh=self.mesh, in_specs=(split, split, split, split, P()), out_specs=P(), check_vma=False
        )(fed.silos, fed.test, state.window, contributions, (state.model, training))
        window = fed.dynamics.step(state.window, fed.silos.pool, change)
        return State(model=model, window=window), measured


def shard(fed: FedAvg) -> FedAvg | ShardedFedAvg:
    """Divide one game's silos among the devices, where there is more than one."""
    mesh = mesh_over(fed.silos.labels.shape[0], SILOS)
    if mesh.size == 1:
        return fed
    padding = -len(fed.test.labels) % mesh.size
    test = TestSet(
        features=jnp.pad(fed.test.features, ((0, padding), *((0, 0),) * (fed.test.features.ndim - 1))),
        labels=jnp.pad(fed.test.labels, (0, padding), constant_values=-1),
        size=fed.test.size,
    )
    silos, test = jax.device_put((fed.silos, test), NamedSharding(mesh, P(SILOS)))
    return ShardedFedAvg(fed=dataclasses.replace(fed, silos=silos, test=test), mesh=mesh)


def run(
    fed: FedAvg | ShardedFedAvg,
    contributions: Float[np.ndarray, "*slots silos"],
    key: PRNGKeyArray,
    slots: int | None = None,
) -> Trace:
    """One game over all its slots: contributions per slot, or one set of them for `slots` slots.

    Who plays many games one after the other shards the federation once, and passes that.
    """
    source, inner = (shard(fed), fed) if isinstance(fed, FedAvg) else (fed, fed.fed)
    return compiled(trace, inner)(source, jnp.asarray(plan_of(inner, contributions, slots)), key)


def run_games(
    fed: FedAvg, contributions: Float[np.ndarray, "..."], keys: Key[Array, "..."], slots: int | None = None
) -> Trace:
    """Many games side by side on the same data, each with its own model, contributions and key.

    Contributions are (games, silos) for `slots` slots, or (games, slots, silos); keys are (games,).
    """
    values = check_contributions(contributions, fed.silos.labels.shape[0])
    if values.ndim < 2 or not len(values):
        raise PotluckError(f": run_games needs 1 game or more, got shape {values.shape}", field="contributions")
    plans = jnp.asarray(np.stack([plan_of(fed, game, slots) for game in values]))
    if keys.shape != (len(plans),):
        raise PotluckError(f": {len(plans)} games need {len(plans)} keys, got {keys.shape}", field="keys")
    games = len(plans)
    mesh = Mesh(np.array(jax.devices()[:games]), (GAMES,))
    each = -(-games // mesh.size)
    groups = -(-each // abreast(fed, each))
    together = -(-each // groups)
    # Games in which nobody contributes fill up the last groups; what they give is cut off.
    padding = mesh.size * groups * together - games
    plans = jnp.pad(plans, ((0, padding), (0, 0), (0, 0)))
    keys = jnp.concatenate([keys, jnp.repeat(keys[-1:], padding)])
    plans, keys = jax.device_put((plans, keys), NamedSharding(mesh, P(GAMES)))
    padded = compiled(_run_games, fed)(fed, plans, keys, mesh, together)
    return Trace(padded.initial[:games], padded.precision[:games])


class Watched(NamedTuple):
    """A slot that many games have just played; before the first, nobody has brought anything."""

    precision: Float[np.ndarray, " games"]
    held: list[int]
    """|D_n| in the first game."""
    brought: list[int]
    """x_n in the first game."""


def watch_games(
    fed: FedAvg, contributions: Float[np.ndarray, " silos"], key: PRNGKeyArray, slots: int, games: int
) -> Iterator[Watched]:
    """Many games as they are played, slot by slot; the first of them is the one that `run` plays."""
    split = NamedSharding(mesh_over(games), P(GAMES))
    keys = jnp.stack([key, *(jax.random.fold_in(key, game) for game in range(1, games))])
    starts, rests = (jax.device_put(part, split) for part in jax.vmap(jax.random.split, out_axes=1)(keys))
    state, initial = eqx.filter_jit(_begin_games)(fed, starts)
    yield Watched(np.asarray(initial), [], [])
    train, shares = compiled(_train_games, fed), jnp.asarray(contributions)
    by_slot = eqx.filter_jit(jax.vmap(lambda key: jax.random.split(key, slots), out_axes=1))(rests)
    for slot in by_slot:
        held = state.window.size[0]
        state, precision = train(fed, state, shares, slot)
        yield Watched(np.asarray(precision), held.tolist(), samples_of(shares, held).tolist())


def _begin_games(fed: FedAvg, keys: Key[Array, " games"]) -> tuple[State, Float[Array, " games"]]:
    state = jax.vmap(fed.init)(keys)
    return state, jax.vmap(fed.measure)(state)


def _train_games(
    fed: FedAvg, state: State, shares: Float[Array, " silos"], keys: Key[Array, " games"]
) -> tuple[State, Float[Array, " games"]]:
    after, measured = jax.vmap(lambda one, key: fed.train(one, shares, key))(state, keys)
    return after, measured.precision


def plan_of(fed: FedAvg, contributions: Float[np.ndarray, "*slots silos"], slots: int | None) -> np.ndarray:
    """The contributions of every slot, checked."""
    plan = check_contributions(contributions, fed.silos.labels.shape[0])
    slots = None if slots is None else integer("slots", slots)
    if plan.ndim == 1:
        if slots is None:
            raise PotluckError("must be 1 or more, got None", field="slots")
        plan = np.broadcast_to(plan, (slots, *plan.shape))
    elif plan.ndim == 2 and slots not in (None, len(plan)):
        raise PotluckError(f": a plan of {len(plan)} slots was given for {slots}", field="contributions")
    if plan.ndim > 2 or not len(plan):
        raise PotluckError(
            f": a game needs one per silo, or that for 1 slot or more, got shape {plan.shape}", field="contributions"
        )
    return plan


def trace(source: FedAvg | ShardedFedAvg, plan: Float[Array, "slots silos"], key: PRNGKeyArray) -> Trace:
    start, slots = jax.random.split(key)
    state = source.init(start)
    initial = source.measure(state)
    keys = jax.random.split(slots, len(plan))
    _, measured = jax.lax.scan(lambda s, slot: source.train(s, *slot), state, (plan, keys))
    return Trace(initial=initial, precision=measured.precision)


def compiled(function: Callable[Inputs, Output], fed: FedAvg) -> Callable[Inputs, Output]:
    """Compile a function that trains this federation, with the matrix products that suit its size.

    On a CPU the products of XLA's kernel library make a slot of a 784-64-10 perceptron 1.1 to 1.6 times as fast, and
    measuring precision three times; for 64-32-10 they are a quarter slower than XLA's own. Inside a program that is
    itself being compiled the products are that program's to choose: JAX takes the option at the top alone.
    """
    weights = jax.tree.leaves(jax.eval_shape(fed.architecture.init, jax.random.key(0)))
    large = fed.batch_size * max(leaf.size for leaf in weights) >= LARGE_PRODUCT
    outermost = not isinstance(jnp.zeros(()), jax.core.Tracer)
    return _compiled(function, large and outermost and jax.default_backend() == "cpu")


@functools.cache
def _compiled(function: Callable[Inputs, Output], library: bool) -> Callable[Inputs, Output]:
    options: dict[str, Any] = {}
    if library:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # a version of XLA that names the option otherwise
            jax.jit(lambda x: x, compiler_options=LIBRARY_PRODUCTS).lower(0.0).compile()
            options = {"compiler_options": LIBRARY_PRODUCTS}
    program: Callable[Inputs, Output] = eqx.filter_jit(function, **options)
    return program


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
    fed: FedAvg, plans: Float[Array, "games slots silos"], keys: Key[Array, " games"], mesh: Mesh, together: int
) -> Trace:
    def games(fed: FedAvg, plans: Float[Array, "games slots silos"], keys: Key[Array, " games"]) -> Trace:
        groups = jax.tree.map(lambda a: a.reshape(-1, together, *a.shape[1:]), (plans, keys))
        traces = jax.lax.map(lambda group: jax.vmap(lambda plan, key: trace(fed, plan, key))(*group), groups)
        joined: Trace = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), traces)
        return joined

    split = P(GAMES)
    run_ = jax.shard_map(games, mesh=mesh, in_specs=(P(), split, split), out_specs=split, check_vma=False)
    return run_(fed, plans, keys)
