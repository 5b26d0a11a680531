"""Actor and critic of one player, learning by policy gradient: MPGD, and its relatives MAA2C and MAPPO."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents.actors import NetworkActor
from potluck.agents.dnc import DNCSize, State
from potluck.agents.estimators import ESTIMATORS, TARGETS
from potluck.agents.learner import Act, Diagnostics, Window
from potluck.agents.moments import Moments
from potluck.agents.networks import Network
from potluck.agents.policies import POLICIES, Policy
from potluck.devices import device_count, everywhere

ENOUGH_GAMES = 8
"""From which on the mean over the games of one slot is a baseline."""

Placement: TypeAlias = Literal["critic", "actor", "both", "none"]


class MemoryState(eqx.Module):
    """What the differentiable neural computers of actor and critic hold during a game; None without one."""

    actor: State | None
    critic: State | None


class Learning(eqx.Module):
    """What an epoch changes."""

    actor: Network
    critic: Network
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState


class AgentState(Learning):
    """All that one player knows."""

    observations: Moments
    critic_observations: Moments
    payoffs: Moments


class PolicyGradient(eqx.Module):
    """How one player learns. Everything here is fixed before it starts; an array may vary without recompiling."""

    observation_size: int
    action_size: int
    critic_observation_size: int
    updates: Int[Array, ""] = eqx.field(converter=jnp.asarray)
    """Windows to learn from in all: learning rates fall linearly to a tenth."""
    discount: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=0.95)
    estimator: str = "ppo"
    target: str = "td-lambda"
    policy: str = "gaussian"
    dnc: Placement = "critic"
    dnc_size: DNCSize = DNCSize()
    hidden: tuple[int, int] = (210, 50)
    epochs: int = 4
    actor_rate: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1e-3)
    critic_rate: Float[Array, ""] = eqx.field(converter=jnp.asarray, default=1e-3)
    clip: float = 0.2
    gradient_norm: float = 5.0
    td_lambda: float = 0.9
    """λ of the critic's targets; 1 is the paper's."""
    logit_penalty: float = 0.003
    """Pull of the actor's raw outputs towards zero: beyond a corner nothing else keeps them from drifting away."""
    central: bool = False

    def init(self, key: PRNGKeyArray) -> AgentState:
        for_actor, for_critic = jax.random.split(key)
        outputs, seen = 2 * self.action_size, self.critic_observation_size
        actor = Network.create(self.observation_size, outputs, self.hidden, self._dnc_of("actor"), for_actor)
        critic = Network.create(seen, 1, self.hidden, self._dnc_of("critic"), for_critic)
        return AgentState(
            actor=actor,
            critic=critic,
            actor_optimiser=self._optimiser(self.actor_rate).init(eqx.filter(actor, eqx.is_array)),
            critic_optimiser=self._optimiser(self.critic_rate).init(eqx.filter(critic, eqx.is_array)),
            observations=Moments.none(self.observation_size),
            critic_observations=Moments.none(seen),
            payoffs=Moments.none(),
        )

    def initial_memory(self, state: AgentState) -> MemoryState:
        return MemoryState(state.actor.initial_memory(), state.critic.initial_memory())

    def act(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[MemoryState, Act]:
        """Draw from the policy. The critic's memory moves when the window is learnt from."""
        kept, raw = self._decide(state, memory, observation)
        drawn = self._policy.sample(raw, key)
        act = Act(self._policy.action(drawn), drawn, self._policy.log_density(raw, drawn))
        return MemoryState(kept, memory.critic), act

    def play(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"]
    ) -> tuple[MemoryState, Float[Array, " action"]]:
        """Take the policy's centre."""
        kept, raw = self._decide(state, memory, observation)
        return MemoryState(kept, memory.critic), self._policy.centre(raw)

    def update(self, state: AgentState, window: Window[MemoryState]) -> tuple[AgentState, MemoryState, Diagnostics]:
        """`epochs` steps of actor and critic on the whole window, from targets and advantages computed once.

        Diagnostics are of the last epoch, before its step; explained variance is of the values before the update.
        """
        seen = state.observations.standard(window.observation)
        critic_seen = state.critic_observations.standard(window.critic_observation)
        payoffs = state.payoffs.after(window.payoff)
        kept, values = self._values(state.critic, window, critic_seen)
        standard = state.critic_observations.standard(window.critic_observation_after)
        _, after = jax.vmap(state.critic)(kept, standard)
        target = jax.vmap(TARGETS[self.target], in_axes=(0, 0, 0, None, None, None))(
            payoffs.standard(window.payoff), values, after[:, 0], window.last, self.discount, self.td_lambda
        )
        advantage = self._standard(target - values)
        actors, critics = self._optimiser(self.actor_rate), self._optimiser(self.critic_rate)

        def actor_loss(actor: Network) -> tuple[Float[Array, ""], Diagnostics]:
            raw, density = self._log_density(actor, window, seen)
            push = ESTIMATORS[self.estimator](density, window.act.log_density, advantage[..., None], self.clip)
            log_ratio = density - window.act.log_density
            ratio = jnp.exp(log_ratio)
            return self.logit_penalty * jnp.mean(raw**2) - push.mean(), {
                "policy_loss": -push.mean(),
                "entropy": jax.vmap(jax.vmap(self._policy.entropy))(raw).mean(),
                "approximate_kl": jnp.mean(ratio - 1 - log_ratio),
                "clipped_share": jnp.mean(jnp.abs(ratio - 1) > self.clip),
            }

        def critic_loss(critic: Network) -> tuple[Float[Array, ""], Diagnostics]:
            loss = 0.5 * jnp.mean((self._values(critic, window, critic_seen)[1] - target) ** 2)
            return loss, {"value_loss": loss}

        def epoch(at: Learning, _: None) -> tuple[Learning, Diagnostics]:
            actor, actor_optimiser, of_actor = self._descend(actor_loss, at.actor, at.actor_optimiser, actors)
            critic, critic_optimiser, of_critic = self._descend(critic_loss, at.critic, at.critic_optimiser, critics)
            return Learning(actor, critic, actor_optimiser, critic_optimiser), {**of_actor, **of_critic}

        begun = Learning(state.actor, state.critic, state.actor_optimiser, state.critic_optimiser)
        learnt, by_epoch = jax.lax.scan(epoch, begun, None, self.epochs)
        state = AgentState(
            **vars(learnt),
            observations=state.observations.after(window.observation),
            critic_observations=state.critic_observations.after(window.critic_observation),
            payoffs=payoffs,
        )
        unexplained = _variance(target - values) / jnp.maximum(_variance(target), 1e-12)
        diagnostics = {name: numbers[-1] for name, numbers in by_epoch.items()} | {
            "explained_variance": 1 - unexplained
        }
        return state, MemoryState(window.memory_after.actor, kept), diagnostics

    def export(self, state: AgentState) -> NetworkActor:
        """The actor, and how it scales what the silo itself sees."""
        return NetworkActor(state.actor, state.observations, self.policy, self.hidden, self._dnc_of("actor"))

    @property
    def _policy(self) -> Policy:
        return POLICIES[self.policy]

    def _dnc_of(self, part: Literal["actor", "critic"]) -> DNCSize | None:
        return self.dnc_size if self.dnc in (part, "both") else None

    def _decide(
        self, state: AgentState, memory: MemoryState, observation: Float[Array, " observation"]
    ) -> tuple[State | None, Float[Array, "2 action"]]:
        kept, raw = state.actor(memory.actor, state.observations.standard(observation))
        return kept, raw.reshape(2, self.action_size)

    def _log_density(
        self, actor: Network, window: Window[MemoryState], seen: Float[Array, "games slots observation"]
    ) -> tuple[Float[Array, "games slots 2 action"], Float[Array, "games slots action"]]:
        _, raw = jax.vmap(actor.unroll, in_axes=(0, 0, None))(window.memory.actor, seen, window.first)
        raw = raw.reshape(*raw.shape[:2], 2, self.action_size)
        return raw, jax.vmap(jax.vmap(self._policy.log_density))(raw, window.act.raw)

    def _values(
        self, critic: Network, window: Window[MemoryState], seen: Float[Array, "games slots critic_observation"]
    ) -> tuple[State | None, Float[Array, "games slots"]]:
        kept, values = jax.vmap(critic.unroll, in_axes=(0, 0, None))(window.memory.critic, seen, window.first)
        return kept, values[..., 0]

    def _standard(self, advantage: Float[Array, "games slots"]) -> Float[Array, "games slots"]:
        """Mean 0 over the games of every slot, deviation 1 over the whole window.

        Games go in step, so those of one slot are alike: their mean is a baseline beside the critic's. A single game
        has none, and is centred over its slots. The scale must be one for all slots: each slot by its own deviation
        would weigh late slots, where little is at stake, a hundred times as much as early ones, and slots share the
        actor's weights.
        """
        over = 0 if advantage.shape[0] * device_count() > 1 else None
        centred = advantage - everywhere(advantage.mean(over))
        return centred / jnp.sqrt(everywhere((centred**2).mean()) + 1e-8)

    def _descend(
        self,
        loss: Callable[[Network], tuple[Float[Array, ""], Diagnostics]],
        network: Network,
        steps: optax.OptState,
        optimiser: optax.GradientTransformation,
    ) -> tuple[Network, optax.OptState, Diagnostics]:
        gradient, diagnostics = jax.grad(loss, has_aux=True)(network)
        change, steps = optimiser.update(jax.tree.map(everywhere, gradient), steps)
        moved: Network = eqx.apply_updates(network, change)
        return moved, steps, diagnostics

    def _optimiser(self, rate: Float[Array, ""]) -> optax.GradientTransformation:
        def schedule(step: Int[Array, ""]) -> Float[Array, ""]:
            return rate * (1 - 0.9 * jnp.minimum(step / (self.updates * self.epochs), 1.0))

        return optax.chain(optax.clip_by_global_norm(self.gradient_norm), optax.adam(schedule))


def _variance(values: Float[Array, "games slots"]) -> Float[Array, ""]:
    """Over all games, wherever they are played."""
    centred = values - everywhere(values.mean())
    return everywhere((centred**2).mean())
