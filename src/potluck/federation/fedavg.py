"""FedAvg as pure functions: draw weights, update one silo, train one slot of one game.

Everything here is unbatched over games; `vmap` over (state, contributions, key) runs games side by side, and
`potluck.federation.runs` divides silos or games among the devices.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from potluck.errors import PotluckError
from potluck.federation.aggregations import AGGREGATIONS
from potluck.federation.dynamics import Dynamics, Static, Window
from potluck.federation.measuring import count_right
from potluck.federation.models import Architecture, Model
from potluck.federation.optimisers import OPTIMISERS, PLAIN
from potluck.federation.source import Measurement
from potluck.federation.workers import Corpus, Worker, work
from potluck.scenario.federation import PartialBatches

Tree = TypeVar("Tree")
NOBODY = 2**32 - 1
"""An identity that no silo has, for the draws of a round that are not a silo's own."""


class Silo(eqx.Module):
    """The pool of one silo, and which stretch of it is the current local set. Stacked, the pools of all silos."""

    features: UInt8[Array, "..."]
    labels: Int[Array, "*silos pool"]
    pool: Int[Array, "*silos"]
    identity: Int[Array, "*silos"]


class TestSet(eqx.Module):
    """The server's held-out data; label −1 pads it to a round size and is never right."""

    features: UInt8[Array, "tests ..."]
    labels: Int[Array, " tests"]
    size: int = eqx.field(static=True)


class Global(eqx.Module):
    """What the server keeps: the weights, and the state of its own optimiser."""

    weights: Model
    server: optax.OptState


class State(eqx.Module):
    """One game's federation between two slots. `window.size` is the |D_n[t]| that the next contributions refer to."""

    model: Global
    window: Window


def samples_of(contributions: Float[Array, " silos"], sizes: Int[Array, " silos"]) -> Int[Array, " silos"]:
    """x_n = d_n·|D_n| to the nearest sample; whoever contributes at all brings at least one."""
    nearest = jnp.round(contributions * sizes).astype(sizes.dtype)
    return jnp.clip(nearest, (contributions > 0).astype(sizes.dtype), sizes)


def check_length(contributions: Float[Array, " silos"], silos: Array) -> None:
    """Refuse contributions that are not one per silo; one number for all would otherwise pass unnoticed."""
    if contributions.shape != silos.shape:
        raise PotluckError(
            f": {len(silos)} silos need {len(silos)} numbers, got shape {contributions.shape}", field="contributions"
        )


def shuffled(key: PRNGKeyArray, count: Int[Array, ""], capacity: int) -> Int[Array, " capacity"]:
    """0 … count − 1 in random order, then the rest up to `capacity`.

    Place and random bits share one word, so one sort of plain integers does it: on a CPU four times faster than
    sorting pairs. With 2,000 places 20 random bits remain; a tie, about one per shuffle, keeps its two in order.
    """
    place = jnp.arange(capacity, dtype=jnp.uint32)
    width = max(capacity - 1, 1).bit_length()
    bits = jax.random.bits(key, (capacity,), jnp.uint32) >> 1
    late = (place >= count).astype(jnp.uint32) << 31
    if width > 12:
        return jnp.argsort(bits | late).astype(jnp.int32)
    return (jnp.sort((bits >> width << width) | late | place) & ((1 << width) - 1)).astype(jnp.int32)


def where(condition: Bool[Array, ""], new: Tree, old: Tree) -> Tree:
    """One tree or the other; where they have no leaves, nothing is selected."""
    chosen: Tree = jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
    return chosen


class FedAvg(eqx.Module):
    """A federation that really trains.

    Kinds and shapes are static. Numbers that a person might sweep are arrays: they change without recompiling.
    """

    silos: Silo
    test: TestSet
    learning_rate: Float[Array, ""]
    architecture: Architecture = eqx.field(static=True)
    proximal: Float[Array, ""] | None = None
    """FedProx: each step is pulled by μ(w − w_global); None for no pull."""
    server_learning_rate: Float[Array, ""] | None = None
    server_momentum: Float[Array, ""] | None = None
    """Of aggregations that have one; None for the aggregation's own."""
    optimiser: str = eqx.field(static=True, default="sgd")
    aggregation: str = eqx.field(static=True, default="fedavg")
    dynamics: Dynamics = eqx.field(static=True, default=Static())
    centre: float = eqx.field(static=True, default=0.0)
    deviation: float = eqx.field(static=True, default=255.0)
    batch_size: int = eqx.field(static=True, default=50)
    epochs: int = eqx.field(static=True, default=1)
    partial_batches: PartialBatches = eqx.field(static=True, default="proportional")
    """Whether a batch that is not full takes a step in proportion to its samples, or a full one.

    Full steps are the custom, but after one on a few samples precision is lower than without them; in a game of how
    much to contribute, more data should not mean less precision.
    """
    dtype: str = eqx.field(static=True, default="float32")
    axis: str | None = eqx.field(static=True, default=None)

    def init(self, key: PRNGKeyArray) -> State:
        """Fresh weights and the first local sets."""
        model, window = jax.random.split(key)
        return State(model=self.init_model(model), window=self.dynamics.init(self.silos.pool, window))

    def init_model(self, key: PRNGKeyArray) -> Global:
        """Fresh weights, the server at rest."""
        weights = self.architecture.init(key)
        return Global(weights=weights, server=self.server().init(weights))

    def server(self) -> optax.GradientTransformation:
        given = {"server_learning_rate": self.server_learning_rate, "server_momentum": self.server_momentum}
        return AGGREGATIONS[self.aggregation](**{name: value for name, value in given.items() if value is not None})

    def samples(self, state: State) -> Float[Array, " silos"]:
        return state.window.size.astype(jnp.float32)

    def measure(self, state: State) -> Float[Array, ""]:
        return self.precision(state.model.weights)

    def train(
        self, state: State, contributions: Float[Array, " silos"], key: PRNGKeyArray, *, marginal: bool = False
    ) -> tuple[State, Measurement]:
        """One slot of the game: train on the current local sets, measure, then let the local sets change."""
        training, change = jax.random.split(key)
        model, measured = self.round(state.model, contributions, training, state.window, marginal=marginal)
        window = self.dynamics.step(state.window, self.silos.pool, change)
        return State(model=model, window=window), measured

    def round(
        self,
        model: Global,
        contributions: Float[Array, " silos"],
        key: PRNGKeyArray,
        window: Window | None = None,
        *,
        marginal: bool = False,
    ) -> tuple[Global, Measurement]:
        """One round: w_n from local epochs on silo n's x_n samples, then `aggregate`.

        Without a window, the local sets are a first draw of the dynamics.
        """
        check_length(contributions, self.silos.pool)
        if window is None:
            window = self.dynamics.init(self.silos.pool, jax.random.fold_in(key, NOBODY))
        samples = samples_of(contributions, window.size)
        keys = jax.vmap(lambda silo: jax.random.fold_in(key, silo))(self.silos.identity)
        locals_ = jax.vmap(self.local_update, in_axes=(None, 0, 0, 0, 0))(
            model.weights, self.silos, samples, keys, window
        )
        if self.axis is not None:
            locals_, samples = jax.lax.all_gather((locals_, samples), self.axis, tiled=True)
        after = self.aggregate(model, locals_, samples)
        precision = self.precision(after.weights)
        return after, Measurement(
            precision, precision - self.leave_one_out(model, locals_, samples, precision) if marginal else None
        )

    def leave_one_out(
        self, model: Global, locals_: Model, samples: Int[Array, " silos"], precision: Float[Array, ""]
    ) -> Float[Array, " silos"]:
        """P without silo n: the same local models aggregated again as if n had contributed nothing."""

        def without(others: Int[Array, " silos"]) -> Float[Array, ""]:
            return self.precision(self.aggregate(model, locals_, others).weights)

        reached = jax.vmap(without)(jnp.where(jnp.eye(len(samples), dtype=bool), 0, samples))
        return jnp.where(samples > 0, reached, precision)

    def local_update(
        self, weights: Model, silo: Silo, samples: Int[Array, ""], key: PRNGKeyArray, window: Window | None = None
    ) -> Model:
        """Mini-batch descent over `samples` random members of the current local set, `epochs` times.

        A small contribution costs little (`potluck.federation.workers`). Without a window, the local set is the longest
        stretch from the pool's first sample that the dynamics allow.
        """
        if window is None:
            size = jnp.minimum(silo.pool, self.dynamics.bound(silo.labels.shape[0]))
            window = Window(start=jnp.zeros_like(silo.pool), size=size)
            samples = jnp.minimum(samples, size)
        orders, steps = self.draw(silo, samples, key, window), -(-samples // self.batch_size)
        worker = Worker(weights, orders, samples, steps, (self.learning_rate, self.proximal))
        return work(self.descend, Corpus(silo.features, silo.labels), worker, self.batch_size)

    def descend(self, corpus: Corpus, worker: Worker, steps: Int[Array, ""]) -> Model:
        """One worker's epochs of `steps` steps each, of which those past its own samples do nothing.

        Plain descent takes −η into the loss: the product that makes a gradient can then add to the weights in place.
        """
        learning_rate, proximal = worker.numbers
        plain = self.optimiser == PLAIN and proximal is None
        optimiser = optax.identity() if plain else OPTIMISERS[self.optimiser](learning_rate)
        scale = -learning_rate if plain else jnp.float32(1)
        within = jnp.arange(self.batch_size, dtype=jnp.int32)

        def step(at: Int[Array, ""], carry: tuple[Model, optax.OptState]) -> tuple[Model, optax.OptState]:
            local, state = carry
            epoch, first = at // steps, (at % steps) * self.batch_size
            rows = jax.lax.dynamic_slice(worker.rows, (epoch, first), (1, self.batch_size))[0]
            taken = first + within < worker.samples
            features, labels = (a.at[rows].get(mode="promise_in_bounds") for a in (corpus.features, corpus.labels))
            gradient = self.gradient(local, features, labels, taken, scale)
            active = taken[0]
            if proximal is not None:
                pull = proximal * active.astype(jnp.float32)
                gradient = jax.tree.map(lambda g, w, w0: g + pull * (w - w0), gradient, local, worker.weights)
            change, after = optimiser.update(gradient, state, local)
            moved = optax.apply_updates(local, change), after
            # An idle step has no gradient: it moves nothing unless the optimiser remembers others.
            return where(active, moved, carry) if jax.tree.leaves(state) else moved

        carry = (worker.weights, optimiser.init(worker.weights))
        trained: Model = jax.lax.fori_loop(jnp.int32(0), steps * self.epochs, step, carry)[0]
        return trained

    def draw(
        self, silo: Silo, samples: Int[Array, ""], key: PRNGKeyArray, window: Window
    ) -> Int[Array, "epochs padded"]:
        """The order in which each epoch visits the contributed samples; what is past `samples` is padding.

        Sorting random bits draws without replacement; later epochs shuffle what the first one drew.
        """
        capacity = self.dynamics.bound(silo.labels.shape[0])
        keys = jax.random.split(key, self.epochs)
        chosen = shuffled(keys[0], window.size, capacity)
        orders = [chosen, *(chosen[shuffled(k, samples, capacity)] for k in keys[1:])]
        rows = (jnp.stack(orders) + window.start) % silo.pool
        return jnp.pad(rows, ((0, 0), (0, -capacity % self.batch_size)))

    def gradient(
        self,
        weights: Model,
        features: UInt8[Array, "batch ..."],
        labels: Int[Array, " batch"],
        taken: Bool[Array, " batch"],
        scale: Float[Array, ""] | float = 1.0,
    ) -> Model:
        """∇ of `scale` times the mean cross-entropy over the samples taken (if proportional, times their share of a
        batch).
        """
        proportional = self.partial_batches == "proportional"
        count = self.batch_size if proportional else jnp.maximum(taken.sum(), 1).astype(jnp.float32)
        weight = scale * taken.astype(jnp.float32) / count

        def loss(model: Model) -> Float[Array, ""]:
            logits = self.logits(model, features)
            right = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
            return jnp.sum(weight * (jax.nn.logsumexp(logits, axis=1) - right))

        slope: Model = jax.grad(loss)(weights)
        return slope

    def logits(self, weights: Model, features: UInt8[Array, "batch ..."]) -> Float[Array, "batch classes"]:
        """Logits of a batch; uint8 becomes floating point here, on the device, as (pixel − centre) / deviation."""
        standard = (features.astype(jnp.float32) - self.centre) * (1 / self.deviation)
        return jax.vmap(weights)(standard.astype(self.dtype)).astype(jnp.float32)

    def aggregate(self, model: Global, locals_: Model, samples: Int[Array, " silos"]) -> Global:
        """w̄ + (u − Δ), where w̄ = Σ_n (x_n / Σ_j x_j) w_n, Δ = w̄ − w, and the server's optimiser makes a step u of Δ.

        So FedAvg, where u = Δ, ends at w̄ to the bit. Nothing moves if nobody contributed.
        """
        total = samples.sum()
        share = samples.astype(jnp.float32) / jnp.maximum(total, 1).astype(jnp.float32)
        # Summed, not multiplied as matrices: an accelerator would round the weights to TF32 in a product.
        mean = jax.tree.map(lambda w: jnp.sum(share.reshape(-1, *[1] * (w.ndim - 1)) * w, axis=0), locals_)
        descent = jax.tree.map(jnp.subtract, model.weights, mean)
        step, server = self.server().update(descent, model.server, model.weights)
        weights = jax.tree.map(lambda w, u, g: w + (u + g), mean, step, descent)
        return where(total > 0, Global(weights, server), model)

    def precision(self, weights: Model) -> Float[Array, ""]:
        """P: the share of the held-out samples that the model gets right."""
        right = count_right(self.logits, weights, self.test.features, self.test.labels)
        if self.axis is not None:
            right = jax.lax.psum(right, self.axis)
        return right.astype(jnp.float32) / self.test.size
