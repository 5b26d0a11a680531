"""Model-based policy gradient in any game: a player learns a model of what it sees, and improves a policy inside it.

Where what is seen has names, `ModelBased` knows more of the game; this learner knows nothing but numbers.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from potluck.agents.actors import SlotActor
from potluck.agents.imagination import Imagination, Learning
from potluck.agents.learner import Act, Diagnostics, Window
from potluck.agents.networks import Network
from potluck.agents.world_model import Record, Scale, Slots, World, fit, optimiser_of, scale_of
from potluck.devices import gathered

RECENT = 3.0
"""Others change: (i/n)³ is the weight of slot i of n then, and the last fifth counts for half."""
PRESENT = 1.0
"""The same of where imagination begins for a player that is alone."""


class AgentState(eqx.Module):
    """All that one player knows."""

    learning: Learning
    record: Record
    scale: Scale
    worlds: World
    fitting: optax.OptState
    windows: Int[Array, ""]
    luck: UInt32[Array, " key"]


class MemoryState(eqx.Module):
    """How far a game is, and how it is explored."""

    slot: Int[Array, ""]
    size: Float[Array, ""]
    """Of the noise in this game."""
    persistence: Float[Array, ""]
    noise: Float[Array, " action"]


class ImaginedPlay(eqx.Module):
    """How one player learns in a game of which it knows only the sizes."""

    observation_size: int
    action_size: int
    slots: int
    """Of a game."""
    players: int
    """How many decide."""
    updates: Int[Array, ""] = eqx.field(converter=jnp.asarray)
    """Windows to learn from in all: strides fall linearly to a tenth."""
    discount: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.95)
    room: int = 8192
    """Slots on record."""
    survey: int = 256
    """Slots of random play before the policy is followed."""
    members: int = 4
    units: int = 32
    fit_steps: int = 64
    """Of the model, in a window."""
    fit_batch: int = 64
    fit_ahead: int = 5
    fit_stride: float = 3e-3
    fit_decay: float = 1e-3
    ascent_steps: int = 64
    """Of the policy, in a window."""
    ascent_batch: int = 32
    ahead: int = 16
    """Slots that are imagined in a row, at most."""
    stride: float = 3e-3
    hidden: tuple[int, int] = (32, 32)
    doubt: float = 1.0
    """Deviations of the members' opinions that imagined play is lowered by."""
    wobble: float = 0.1
    """Deviation of the imagined actions' noise."""
    near: float = 0.03
    far: float = 0.3
    """Least and largest deviation of exploration; each game has its own."""

    central = False

    def init(self, key: PRNGKeyArray) -> AgentState:
        acting, judging, knowing, luck = jax.random.split(key, 4)
        sizes = self.observation_size, self.action_size
        actor = SlotActor.create(*sizes, self.slots, self.hidden, acting)
        critic = Network.create(self.observation_size + 1, 1, self.hidden, None, judging)
        worlds: World = jax.vmap(lambda key: World.blank(*sizes, self.units, key))(
            jax.random.split(knowing, self.members)
        )
        return AgentState(
            learning=Learning.begin(actor, critic),
            record=Record(Slots.blank(self.room, *sizes), jnp.asarray(0)),
            scale=Scale.blank(*sizes),
            worlds=worlds,
            fitting=optimiser_of(self.fit_decay).init(worlds.network),
            windows=jnp.asarray(0),
            luck=jax.random.key_data(luck),
        )

    def initial_memory(self, state: AgentState) -> MemoryState:
        del state
        return MemoryState(jnp.asarray(0), jnp.zeros(()), jnp.zeros(()), jnp.zeros(self.action_size))

    def act(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[MemoryState, Act]:
        """Play near the policy, by as much as is drawn when a game begins; anything while surveying.

        Noise that lasts goes further. Where others play it does not last: they would learn to answer it.
        """
        of_size, of_kind, of_noise = jax.random.split(key, 3)
        begins = memory.slot == 0
        size = jnp.where(begins, self.near * (self.far / self.near) ** jax.random.uniform(of_size), memory.size)
        lasts = (jax.random.uniform(of_kind) < 0.5) & (self.players == 1)
        persistence = jnp.where(begins, 0.9 * lasts, memory.persistence)
        fresh = jax.random.normal(of_noise, (self.action_size,))
        noise = jnp.where(begins, fresh, persistence * memory.noise + jnp.sqrt(1 - persistence**2) * fresh)
        memory, action = self.play(state, MemoryState(memory.slot, size, persistence, noise), observation)
        anything = jax.scipy.stats.norm.cdf(noise)
        action = jnp.where(state.record.count < self.survey, anything, jnp.clip(action + size * noise, 0, 1))
        return memory, Act(action, action, jnp.zeros_like(action))

    def play(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"]
    ) -> tuple[MemoryState, Float[Array, " action"]]:
        """Follow the policy."""
        slot, action = state.learning.actor(memory.slot, observation)
        return MemoryState(slot, memory.size, memory.persistence, memory.noise), action

    def update(self, state: AgentState, window: Window[MemoryState]) -> tuple[AgentState, MemoryState, Diagnostics]:
        """Record the slots, fit the model to all on record, improve the policy. Errors are those before learning.

        All players move at once, each as if the others stayed: who goes 1/N of the way meets them. Every device has all
        games, and does the same.
        """
        new = self._slots(window)
        errors = self._errors(state, new)
        record = state.record.after(new)
        alone = self.players == 1
        weights, starts = (record.weights(power if alone else RECENT) for power in (0.0, PRESENT))
        scale = scale_of(record, weights)
        if_surveyed = state.record.count >= self.survey
        scale = scale.with_inputs(state.scale, if_surveyed)
        slowing = 1 - 0.9 * jnp.minimum(state.windows / self.updates, 1.0)
        fitting, climbing = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(state.luck), record.count))
        worlds, moments = fit(
            state.worlds, state.fitting, record, scale, weights, fitting,
            steps=self.fit_steps, batch=self.fit_batch, ahead=min(self.fit_ahead, self.slots),
            stride=self.fit_stride * slowing, decay=self.fit_decay,
        )  # fmt: skip
        imagination = Imagination(
            worlds, scale, record, starts, self.discount, self.doubt, self.wobble,
            slots=self.slots, ahead=min(self.ahead, self.slots), batch=self.ascent_batch,
        )  # fmt: skip
        begun = eqx.tree_at(
            lambda at: (at.actor.middle, at.actor.spread), state.learning, scale.of_observations(self.observation_size)
        )
        learning, earned = imagination.climb(begun, climbing, self.ascent_steps, self.stride * slowing)
        part = jax.tree.map(lambda old, new: old + (new - old) / self.players, begun.actor, learning.actor)
        learning = eqx.tree_at(lambda at: at.actor, learning, part)
        state = AgentState(learning, record, scale, worlds, moments, state.windows + 1, state.luck)
        return state, window.memory_after, {**errors, "imagined_payoff": scale.payoff + scale.payoff_spread * earned}

    def export(self, state: AgentState) -> SlotActor:
        """The policy, and how it scales what its player sees."""
        return state.learning.actor

    def _slots(self, window: Window[MemoryState]) -> Slots:
        """Of the window's games on all devices, one game after the other."""
        games, length = window.payoff.shape
        after = jnp.concatenate([window.observation[:, 1:], window.critic_observation_after[:, None]], axis=1)
        order = jnp.arange(length)
        begun = jax.lax.cummax(jnp.where(window.first, order, -1))
        slot = jnp.where(begun >= 0, order - begun, window.memory.slot[:, None] + order)
        goes_on = jnp.broadcast_to(~window.last, (games, length))
        here = Slots(
            observation=window.observation,
            action=window.act.action,
            time=slot / self.slots,
            payoff=window.payoff,
            after=after,
            goes_on=goes_on,
            follows=goes_on & (order < length - 1),
        )
        everyone: Slots = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), gathered(here))
        return everyone

    def _errors(self, state: AgentState, new: Slots) -> Diagnostics:
        """Of what the model would have said of these slots."""
        scale = state.scale
        after, paid = jax.vmap(
            lambda world: jax.vmap(lambda o, a, t: world(scale, o, a, t))(new.observation, new.action, new.time)
        )(state.worlds)
        missed = jnp.where(new.goes_on[:, None], (after.mean(0) - new.after) / scale.change, 0.0)
        paid = scale.payoff + scale.payoff_spread * paid
        return {
            "observation_error": jnp.sqrt(jnp.mean(missed**2)),
            "payoff_error": jnp.sqrt(jnp.mean((paid.mean(0) - new.payoff) ** 2)),
            "disagreement": jnp.sqrt(paid.var(0).mean()),
        }
