"""A model of any game, learnt by one player from its own record: what it saw, what it did, what it was paid.

The observation is taken for the state: where the past matters, it must be in sight. An ensemble of members that weigh
the record differently disagrees where little was seen.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from potluck.agents.linear import inverse
from potluck.agents.networks import Network

MOST_PRODUCTS = 160
"""Products of inputs, at most; beyond, a member has only their squares."""
RIDGE, REFINEMENTS = 1e-4, 2
MARGIN = 0.1
"""How far beyond what was seen an imagined observation may go, as a share of its range."""


class Slots(eqx.Module):
    """Slots that one player has played, with room for those to come; where there is none left, the oldest give way."""

    observation: Float[Array, "*room observation"]
    action: Float[Array, "*room action"]
    time: Float[Array, "*room"]
    """The slot as a share of the horizon."""
    payoff: Float[Array, "*room"]
    after: Float[Array, "*room observation"]
    """What was seen next; of another game where this one is over."""
    goes_on: Bool[Array, "*room"]
    follows: Bool[Array, "*room"]
    """Whether the next place holds the slot that came next."""

    @staticmethod
    def blank(room: int, observation_size: int, action_size: int) -> "Slots":
        seen, nothing, never = jnp.zeros((room, observation_size)), jnp.zeros(room), jnp.zeros(room, bool)
        return Slots(seen, jnp.zeros((room, action_size)), nothing, nothing, seen, never, never)


class Record(eqx.Module):
    """The slots on record, and how many there ever were."""

    slots: Slots
    count: Int[Array, ""]

    def after(self, more: Slots) -> "Record":
        room, new = len(self.slots.payoff), len(more.payoff)
        places = (self.count + jnp.arange(new)[-room:]) % room
        slots = jax.tree.map(lambda old, leaf: old.at[places].set(leaf[-room:]), self.slots, more)
        return Record(slots, self.count + new)

    def weights(self, forgetting: float) -> Float[Array, " room"]:
        """(i/n)^forgetting of slot i of n that were played: 0 forgets nothing, 3 counts the last fifth for half."""
        room = len(self.slots.payoff)
        number = self.count - 1 - (self.count - 1 - jnp.arange(room)) % room
        return jnp.where(number >= 0, ((number + 1) / jnp.maximum(self.count, 1)) ** forgetting, 0.0)


class Scale(eqx.Module):
    """Units of the record, and how far observations went."""

    middle: Float[Array, " inputs"]
    spread: Float[Array, " inputs"]
    change: Float[Array, " observation"]
    """Deviation of o' − o."""
    payoff: Float[Array, ""]
    payoff_spread: Float[Array, ""]
    low: Float[Array, " observation"]
    high: Float[Array, " observation"]

    @staticmethod
    def blank(observation_size: int, action_size: int) -> "Scale":
        size = observation_size + action_size + 1
        nowhere, one = jnp.zeros(observation_size), jnp.ones(())
        return Scale(jnp.zeros(size), jnp.ones(size), nowhere + 1, 0 * one, one, nowhere, nowhere)

    def with_inputs(self, other: "Scale", if_so: Bool[Array, ""]) -> "Scale":
        """The other's units of inputs, if so: they must not move under networks that have learnt in them."""
        mixed: Scale = eqx.tree_at(
            lambda scale: (scale.middle, scale.spread),
            self,
            (jnp.where(if_so, other.middle, self.middle), jnp.where(if_so, other.spread, self.spread)),
        )
        return mixed

    def of_observations(self, size: int) -> tuple[Float[Array, " observation"], Float[Array, " observation"]]:
        return self.middle[:size], self.spread[:size]

    def standard(self, inputs: Float[Array, " inputs"]) -> Float[Array, " inputs"]:
        return jnp.clip((inputs - self.middle) / self.spread, -10.0, 10.0)


def scale_of(record: Record, weights: Float[Array, " room"]) -> Scale:
    """Of what is on record."""
    slots, there = record.slots, weights > 0
    share = weights / weights.sum()
    known = jax.vmap(inputs)(slots.observation, slots.action, slots.time)
    middle, paid = share @ known, share @ slots.payoff
    on = jnp.where(slots.goes_on, share, 0.0)
    change = jnp.sqrt(on @ (slots.after - slots.observation) ** 2 / jnp.maximum(on.sum(), 1e-9))
    low = jnp.where(there[:, None], slots.observation, jnp.inf).min(0)
    high = jnp.where(there[:, None], slots.observation, -jnp.inf).max(0)
    return Scale(
        middle=middle,
        spread=_positive(jnp.sqrt(share @ (known - middle) ** 2)),
        change=_positive(change),
        payoff=paid,
        payoff_spread=_positive(jnp.sqrt(share @ (slots.payoff - paid) ** 2)),
        low=low - MARGIN * (high - low),
        high=high + MARGIN * (high - low),
    )


def _positive(spread: Float[Array, "*size"]) -> Float[Array, "*size"]:
    """What never varied stays where it is."""
    return jnp.where(spread > 1e-6, spread, 1.0)


def inputs(
    observation: Float[Array, " observation"], action: Float[Array, " action"], time: Float[Array, ""]
) -> Float[Array, " inputs"]:
    return jnp.concatenate([observation, action, time[None]])


def features(x: Float[Array, " inputs"]) -> Float[Array, " features"]:
    """x and x_i·x_j; of many inputs, only their squares."""
    size = len(x)
    if size * (size + 1) // 2 > MOST_PRODUCTS:
        return jnp.concatenate([x, x**2])
    rows, columns = jnp.triu_indices(size)
    return jnp.concatenate([x, x[rows] * x[columns]])


class World(eqx.Module):
    """y = W·(φ(x) − m) + b + network(x): y is (o' − o) / its deviation, and the payoff in deviations from its mean.

    Least squares finds the quadratic form, to which a linear-quadratic game is nothing new; the network adds what is
    left.
    """

    weights: Float[Array, "features outputs"]
    middle: Float[Array, " features"]
    rest: Float[Array, " outputs"]
    network: Network

    @staticmethod
    def blank(observation_size: int, action_size: int, units: int, key: PRNGKeyArray) -> "World":
        size, outputs = observation_size + action_size + 1, observation_size + 1
        network = Network.create(size, outputs, (units, units), None, key)
        network = eqx.tree_at(lambda n: n.head.weight, network, jnp.zeros((outputs, units)))
        known = len(features(jnp.zeros(size)))
        return World(jnp.zeros((known, outputs)), jnp.zeros(known), jnp.zeros(outputs), network)

    def __call__(
        self,
        scale: Scale,
        observation: Float[Array, " observation"],
        action: Float[Array, " action"],
        time: Float[Array, ""],
    ) -> tuple[Float[Array, " observation"], Float[Array, ""]]:
        """The next observation, and the payoff in deviations from its mean."""
        x = scale.standard(inputs(observation, action, time))
        y = (features(x) - self.middle) @ self.weights + self.rest + self.network(None, x)[1]
        return jnp.clip(observation + scale.change * y[:-1], scale.low, scale.high), y[-1]


def formed(world: World, record: Record, scale: Scale, weights: Float[Array, " room"]) -> World:
    """With the quadratic form that suits the record best; refinements undo the ridge's pull where much was seen."""
    slots = record.slots
    known = jax.vmap(lambda o, a, t: features(scale.standard(inputs(o, a, t))))(
        slots.observation, slots.action, slots.time
    )
    changes = (slots.after - slots.observation) / scale.change
    paid = (slots.payoff - scale.payoff) / scale.payoff_spread
    share = weights / weights.sum()
    middle = share @ known
    centred = known - middle

    def solved(
        share: Float[Array, " room"], wanted: Float[Array, "room targets"]
    ) -> tuple[Float[Array, "features targets"], Float[Array, " targets"]]:
        """wanted ≈ centred · found + rest."""
        share = share / jnp.maximum(share.sum(), 1e-9)
        offset = share @ centred
        here, rest = centred - offset, share @ wanted
        solve = inverse(here.T @ (share[:, None] * here) + RIDGE * jnp.eye(here.shape[1]))

        def refine(found: Array, _: None) -> tuple[Array, None]:
            left = wanted - rest - here @ found
            return found + solve @ (here.T @ (share[:, None] * left)), None

        begun = jnp.zeros((here.shape[1], wanted.shape[1]))
        found, _ = jax.lax.scan(refine, begun, None, REFINEMENTS + 1)
        return found, rest - offset @ found

    of_change, at_rest = solved(jnp.where(slots.goes_on, share, 0.0), changes)
    of_payoff, paid_at_rest = solved(share, paid[:, None])
    return World(
        jnp.concatenate([of_change, of_payoff], axis=1),
        middle,
        jnp.concatenate([at_rest, paid_at_rest]),
        world.network,
    )


def drawn(weights: Float[Array, " room"], key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
    """Places, as likely as they weigh."""
    upto = jnp.cumsum(weights)
    return jnp.minimum(jnp.searchsorted(upto, upto[-1] * jax.random.uniform(key, (count,))), len(weights) - 1)


def fit(
    worlds: World,
    moments: optax.OptState,
    record: Record,
    scale: Scale,
    weights: Float[Array, " room"],
    key: PRNGKeyArray,
    *,
    steps: int,
    batch: int,
    ahead: int,
    stride: Float[Array, ""],
    decay: float,
) -> tuple[World, optax.OptState]:
    """Solve the quadratic forms, then let the networks descend the error of `ahead` slots that are imagined in a row.

    Only the first of them is told what was seen. Members weigh slots differently (a Bayesian bootstrap).
    """
    slots, room = record.slots, len(record.slots.payoff)
    members = len(worlds.rest)
    own = weights * jax.vmap(lambda member: jax.random.exponential(jax.random.key(member), (room,)))(
        jnp.arange(members)
    )
    worlds = jax.vmap(lambda world, own: formed(world, record, scale, own))(worlds, own)
    optimiser = optimiser_of(decay)

    def loss(network: Network, world: World, places: Int[Array, " batch"]) -> Float[Array, ""]:
        world = eqx.tree_at(lambda w: w.network, world, network)

        def one(place: Int[Array, ""]) -> Float[Array, ""]:
            def slot(carry: tuple[Array, Array], further: Int[Array, ""]) -> tuple[tuple[Array, Array], Array]:
                observation, counts = carry
                now = jax.tree.map(lambda leaf: leaf[(place + further) % room], slots)
                after, paid = world(scale, observation, now.action, now.time)
                missed = (after - now.after) / scale.change / (further + 1)
                wrong = (paid - (now.payoff - scale.payoff) / scale.payoff_spread) ** 2
                wrong += jnp.where(now.goes_on, jnp.mean(missed**2), 0.0)
                return (after, counts & now.follows & now.goes_on), jnp.where(counts, wrong, 0.0)

            begun = slots.observation[place], jnp.asarray(True)
            return jax.lax.scan(slot, begun, jnp.arange(ahead))[1].sum() / ahead

        return jnp.mean(jax.vmap(one)(places))

    def step(carry: tuple[Network, optax.OptState], at: Int[Array, ""]) -> tuple[tuple[Network, optax.OptState], None]:
        networks, moments = carry
        keys = jax.random.split(jax.random.fold_in(key, at), members)
        places = jax.vmap(lambda own, key: drawn(own, key, batch))(own, keys)
        gradient = jax.vmap(jax.grad(loss))(networks, worlds, places)
        change, moments = optimiser.update(gradient, moments, networks)
        return (jax.tree.map(lambda leaf, by: leaf - stride * by, networks, change), moments), None

    (networks, moments), _ = jax.lax.scan(step, (worlds.network, moments), jnp.arange(steps))
    return eqx.tree_at(lambda w: w.network, worlds, networks), moments


def optimiser_of(decay: float) -> optax.GradientTransformation:
    """Adam with decoupled weight decay, up to its stride."""
    return optax.chain(optax.clip_by_global_norm(10.0), optax.scale_by_adam(), optax.add_decayed_weights(decay))
