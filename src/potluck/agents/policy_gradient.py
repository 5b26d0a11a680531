"""Actor and critic of one player, learning by policy gradient: MPGD, and its relatives MAA2C and MAPPO."""

from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents.dnc import State
from potluck.agents.estimators import ESTIMATORS, targets
from potluck.agents.learner import Act, Window
from potluck.agents.moments import Moments, everywhere
from potluck.agents.networks import MemorySize, Network
from potluck.agents.policies import POLICIES

__all__ = ["Learned", "PolicyGradient", "Recall"]

ENOUGH_GAMES = 8
"""From which on the games of one slot are standardised by themselves."""

Placement: TypeAlias = Literal["critic", "actor", "both", "none"]


class Recall(eqx.Module):
    """What the memories of actor and critic hold during a game; None without a memory."""

    actor: State | None
    critic: State | None


class Learned(eqx.Module):
    """All that one player knows."""

    actor: Network
    critic: Network
    actor_steps: optax.OptState
    critic_steps: optax.OptState
    observations: Moments
    sights: Moments
    payoffs: Moments


class PolicyGradient(eqx.Module):
    """How one player learns. Everything here is fixed before it starts."""

    observation_size: int
    action_size: int
    sight_size: int
    updates: int | Int[Array, ""]
    """Windows to learn from in all: learning rates fall linearly to a tenth. An array is not compiled in."""
    discount: float = 0.95
    estimator: Literal["paper", "ppo", "a2c"] = "ppo"
    policy: Literal["gaussian", "beta"] = "gaussian"
    memory: Placement = "critic"
    memory_size: MemorySize = MemorySize()
    hidden: tuple[int, int] = (210, 50)
    passes: int = 4
    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    clip: float = 0.2
    gradient_norm: float = 5.0
    trace: float = 0.9
    """λ of the targets; 1 is the paper's."""
    leash: float = 0.003
    """Pull of the actor's raw outputs towards zero: beyond a corner nothing else keeps them from drifting away."""
    central: bool = False
    axis: str | None = None
    """Devices over which games are spread."""

    def init(self, key: PRNGKeyArray) -> Learned:
        """Fresh networks."""
        for_actor, for_critic = jax.random.split(key)
        remembers = {"actor": self.memory in ("actor", "both"), "critic": self.memory in ("critic", "both")}
        sizes = {who: self.memory_size if has else None for who, has in remembers.items()}
        actor = Network.create(self.observation_size, 2 * self.action_size, self.hidden, sizes["actor"], for_actor)
        critic = Network.create(self.sight_size, 1, self.hidden, sizes["critic"], for_critic)
        return Learned(
            actor=actor,
            critic=critic,
            actor_steps=self._optimiser(self.actor_rate).init(eqx.filter(actor, eqx.is_array)),
            critic_steps=self._optimiser(self.critic_rate).init(eqx.filter(critic, eqx.is_array)),
            observations=Moments.none(self.observation_size),
            sights=Moments.none(self.sight_size),
            payoffs=Moments.none(),
        )

    def rest(self, learned: Learned) -> Recall:
        """Nothing remembered."""
        return Recall(learned.actor.rest(), learned.critic.rest())

    def act(
        self, learned: Learned, recall: Recall, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[Recall, Act]:
        """Draw from the policy. The critic's memory moves when the window is learnt from."""
        kept, raw = self._decide(learned, recall, observation)
        policy = POLICIES[self.policy]
        drawn = policy.sample(raw, key)
        return Recall(kept, recall.critic), Act(policy.action(drawn), drawn, policy.log_density(raw, drawn))

    def play(
        self, learned: Learned, recall: Recall, observation: Float[Array, " observation"]
    ) -> tuple[Recall, Float[Array, " action"]]:
        """Take the policy's centre."""
        kept, raw = self._decide(learned, recall, observation)
        return Recall(kept, recall.critic), POLICIES[self.policy].centre(raw)

    def update(self, learned: Learned, window: Window) -> tuple[Learned, Recall]:
        """`passes` steps of actor and critic on the whole window, from targets and advantages computed once."""
        seen = learned.observations.standard(window.observation)
        sight = learned.sights.standard(window.sight)
        payoffs = learned.payoffs.after(window.payoff, self.axis)
        kept, values = self._values(learned.critic, window, sight)
        _, after = jax.vmap(learned.critic)(kept, learned.sights.standard(window.sight_after))
        target = jax.vmap(targets, in_axes=(0, 0, 0, None, None, None))(
            payoffs.standard(window.payoff), values, after[:, 0], window.last, self.discount, self.trace
        )
        advantage = self._standard(target - values)
        actors, critics = self._optimiser(self.actor_rate), self._optimiser(self.critic_rate)

        def actor_loss(actor: Network) -> Float[Array, ""]:
            raw, density = self._log_density(actor, window, seen)
            push = ESTIMATORS[self.estimator](density, window.act.log_density, advantage[..., None], self.clip)
            return self.leash * jnp.mean(raw**2) - push.mean()

        def critic_loss(critic: Network) -> Float[Array, ""]:
            return 0.5 * jnp.mean((self._values(critic, window, sight)[1] - target) ** 2)

        def step(carry: Learned, _: None) -> tuple[Learned, None]:
            actor, actor_steps = self._descend(actor_loss, carry.actor, carry.actor_steps, actors)
            critic, critic_steps = self._descend(critic_loss, carry.critic, carry.critic_steps, critics)
            where = lambda k: (k.actor, k.critic, k.actor_steps, k.critic_steps)  # noqa: E731
            return eqx.tree_at(where, carry, (actor, critic, actor_steps, critic_steps)), None

        learned = jax.lax.scan(step, learned, None, self.passes)[0]
        statistics = (
            learned.observations.after(window.observation, self.axis),
            learned.sights.after(window.sight, self.axis),
            payoffs,
        )
        learned = eqx.tree_at(lambda k: (k.observations, k.sights, k.payoffs), learned, statistics)
        return learned, Recall(window.recall_after.actor, kept)

    def _decide(
        self, learned: Learned, recall: Recall, observation: Float[Array, " observation"]
    ) -> tuple[State | None, Float[Array, "2 action"]]:
        kept, raw = learned.actor(recall.actor, learned.observations.standard(observation))
        return kept, raw.reshape(2, self.action_size)

    def _log_density(
        self, actor: Network, window: Window, seen: Float[Array, "games slots observation"]
    ) -> tuple[Float[Array, "games slots 2 action"], Float[Array, "games slots action"]]:
        _, raw = jax.vmap(actor.unroll, in_axes=(0, 0, None))(window.recall.actor, seen, window.first)
        raw = raw.reshape(*raw.shape[:2], 2, self.action_size)
        return raw, jax.vmap(jax.vmap(POLICIES[self.policy].log_density))(raw, window.act.raw)

    def _values(
        self, critic: Network, window: Window, sight: Float[Array, "games slots sight"]
    ) -> tuple[State | None, Float[Array, "games slots"]]:
        kept, values = jax.vmap(critic.unroll, in_axes=(0, 0, None))(window.recall.critic, sight, window.first)
        return kept, values[..., 0]

    def _standard(self, advantage: Float[Array, "games slots"]) -> Float[Array, "games slots"]:
        """Mean 0 and deviation 1 over the games, for every slot of the window by itself.

        Games go in step, so those of one slot are alike: their mean is a baseline beside the critic's, and late slots,
        where little is at stake, count as much as early ones. With few games all slots are taken together.
        """
        games = advantage.shape[0] * (1 if self.axis is None else jax.lax.psum(1, self.axis))
        over = 0 if games >= ENOUGH_GAMES else None
        centred = advantage - everywhere(advantage.mean(over), self.axis)
        return centred / jnp.sqrt(everywhere((centred**2).mean(over), self.axis) + 1e-8)

    def _descend(
        self, loss: object, network: Network, steps: optax.OptState, optimiser: optax.GradientTransformation
    ) -> tuple[Network, optax.OptState]:
        gradient = jax.tree.map(lambda g: everywhere(g, self.axis), jax.grad(loss)(network))  # type: ignore[arg-type]
        change, steps = optimiser.update(gradient, steps)
        moved: Network = eqx.apply_updates(network, change)
        return moved, steps

    def _optimiser(self, rate: float) -> optax.GradientTransformation:
        def schedule(step: Int[Array, ""]) -> Float[Array, ""]:
            return rate * (1 - 0.9 * jnp.minimum(step / (self.updates * self.passes), 1.0))

        return optax.chain(optax.clip_by_global_norm(self.gradient_norm), optax.adam(schedule))
