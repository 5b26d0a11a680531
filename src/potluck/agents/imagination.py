"""Improving a policy in imagined play: back-propagation through a learnt model, with a critic for what lies beyond."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from potluck.agents.actors import SlotActor
from potluck.agents.networks import Network
from potluck.agents.world_model import Record, Scale, World, drawn

OUT = 0.75
"""A raw action at which the box is left, about: beyond, it is pulled back."""
PULL = 0.1
SLOW = 0.02
"""Share of the way to the critic that the slow one goes in a step."""


class Learning(eqx.Module):
    """What a step in imagination changes."""

    actor: SlotActor
    critic: Network
    slow_critic: Network
    """Follows the critic; what it says after the last imagined slot stands for all that come then."""
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState

    @staticmethod
    def begin(actor: SlotActor, critic: Network) -> "Learning":
        optimiser = optax.scale_by_adam()
        return Learning(actor, critic, critic, optimiser.init(actor), optimiser.init(critic))


class Imagined(eqx.Module):
    """Slots that one member imagined in a row."""

    payoff: Float[Array, " ahead"]
    """In deviations from its mean, over Σγ^k; nothing once the game is over."""
    value: Float[Array, " ahead"]
    """What the critic thought before each slot."""
    out: Float[Array, " ahead"]
    """How far the raw action was beyond the box."""
    alive: Bool[Array, " ahead"]
    later: Float[Array, ""]
    """What the slow critic thinks of all that comes after."""


class Imagination(eqx.Module):
    """Where a player imagines: its models, and where on record it begins."""

    worlds: World
    scale: Scale
    record: Record
    weights: Float[Array, " room"]
    discount: Float[Array, ""]
    doubt: float
    wobble: float
    """Deviation of the imagined actions' noise."""
    slots: int = eqx.field(static=True)
    """Of a game."""
    ahead: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)

    def play(self, learning: Learning, world: World, place: Int[Array, ""], luck: PRNGKeyArray) -> Imagined:
        """From a slot on record, as one member thinks that it would go on."""
        noise = jax.random.normal(jax.random.fold_in(luck, place), (self.ahead, self.record.slots.action.shape[-1]))
        whole = jnp.sum(self.discount ** jnp.arange(self.ahead))

        def value(critic: Network, observation: Array, slot: Array) -> Float[Array, ""]:
            x = learning.actor.inputs(slot, observation)
            return jnp.where(slot < self.slots, critic(None, x)[1][0], 0.0)

        def step(carry: tuple[Array, Array], wobble: Array) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
            observation, slot = carry
            raw = learning.actor.raw(slot, observation)
            wish = learning.actor.wish(raw) + wobble
            action = wish + jax.lax.stop_gradient(jnp.clip(wish, 0, 1) - wish)  # at a corner its gradient goes on
            after, paid = world(self.scale, observation, action, slot / self.slots)
            alive = slot < self.slots
            thought = value(learning.critic, jax.lax.stop_gradient(observation), slot)
            out = jnp.sum(jnp.maximum(jnp.abs(raw) - OUT, 0.0) ** 2)
            return (after, slot + 1), (jnp.where(alive, paid, 0.0) / whole, thought, out, alive)

        first = jnp.round(self.record.slots.time[place] * self.slots).astype(int)
        begun = self.record.slots.observation[place], first
        (last, end), (payoff, thought, out, alive) = jax.lax.scan(step, begun, self.wobble * noise)
        return Imagined(payoff, thought, out, alive, value(learning.slow_critic, last, end))

    def loss(
        self, moving: tuple[SlotActor, Network], learning: Learning, place: Int[Array, ""], luck: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Doubted return, lowered, and the critic's error, both from one slot on record; beside it the mean payoff.

        The return is mean − doubt · deviation of the members' opinions.
        """
        learning = eqx.tree_at(lambda at: (at.actor, at.critic), learning, moving)
        seen = jax.vmap(lambda world: self.play(learning, world, place, luck))(self.worlds)
        returns = jax.vmap(self.returns)(seen)
        missed = jnp.where(seen.alive, seen.value - jax.lax.stop_gradient(returns), 0.0)
        doubted = returns[:, 0].mean() - self.doubt * jnp.sqrt(returns[:, 0].var() + 1e-8)
        earned = jnp.sum(self.discount ** jnp.arange(self.ahead) * seen.payoff.mean(0))
        return jnp.mean(missed**2) + PULL * jnp.mean(seen.alive * seen.out) - doubted, earned

    def returns(self, seen: Imagined) -> Float[Array, " ahead"]:
        """Y_t = u_t + γ Y_{t+1}, what comes after the last slot by the slow critic."""

        def back(after: Float[Array, ""], paid: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
            now = paid + self.discount * after
            return now, now

        return jax.lax.scan(back, seen.later, seen.payoff, reverse=True)[1]

    def climb(
        self, learning: Learning, key: PRNGKeyArray, steps: int, stride: Float[Array, ""]
    ) -> tuple[Learning, Float[Array, ""]]:
        """So many steps of actor and critic; what is earned in imagination at the end, in deviations from the mean."""
        optimiser = optax.scale_by_adam()

        def step(learning: Learning, at: Int[Array, ""]) -> tuple[Learning, Float[Array, ""]]:
            luck = jax.random.fold_in(key, at)
            places = drawn(self.weights, luck, self.batch)
            moving = learning.actor, learning.critic
            (of_actor, of_critic), earned = jax.vmap(jax.grad(self.loss, has_aux=True), in_axes=(None, None, 0, None))(
                moving, learning, places, luck
            )
            slopes = jax.tree.map(lambda leaf: leaf.mean(0), (jax.vmap(bounded)(of_actor), of_critic))
            by_actor, actor_optimiser = optimiser.update(slopes[0], learning.actor_optimiser)
            by_critic, critic_optimiser = optimiser.update(slopes[1], learning.critic_optimiser)
            actor, critic = jax.tree.map(lambda leaf, by: leaf - stride * by, moving, (by_actor, by_critic))
            slow = jax.tree.map(lambda old, new: old + SLOW * (new - old), learning.slow_critic, critic)
            return Learning(actor, critic, slow, actor_optimiser, critic_optimiser), earned.mean()

        learning, earned = jax.lax.scan(step, learning, jnp.arange(steps))
        return learning, earned[-1]


def bounded(slope: SlotActor) -> SlotActor:
    """Of length 1 at most: through many imagined slots the gradient from one start can outweigh all others."""
    length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope)))
    short: SlotActor = jax.tree.map(lambda leaf: leaf / jnp.maximum(length, 1.0), slope)
    return short
