"""Agents that hardly learn: Greedy, a fixed contribution, a random one."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents.actors import ConstantActor
from potluck.agents.learner import Act, Diagnostics, Window
from potluck.devices import gathered


class Best(eqx.Module):
    """The action that earned most in a single slot so far, and what that was."""

    action: Float[Array, "*players action"]
    payoff: Float[Array, "*players"]


class Greedy(eqx.Module):
    """One slot in ten at random, else the action that has earned most in any slot so far."""

    action_size: int
    exploration: float = 0.1
    central: bool = False

    def init(self, key: PRNGKeyArray) -> Best:
        """Start anywhere."""
        return Best(jax.random.uniform(key, (self.action_size,)), jnp.array(-jnp.inf))

    def initial_memory(self, state: Best) -> None:
        """It has none."""
        del state

    def act(
        self, state: Best, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """Explore or repeat."""
        del memory, observation
        whether, what = jax.random.split(key)
        anything = jax.random.uniform(what, (self.action_size,))
        action = jnp.where(jax.random.uniform(whether) < self.exploration, anything, state.action)
        return None, Act(action, action, jnp.zeros_like(action))

    def play(
        self, state: Best, memory: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
        """Repeat."""
        del memory, observation
        return None, state.action

    def update(self, state: Best, window: Window[None]) -> tuple[Best, None, Diagnostics]:
        """Keep the best slot of the window if it beats all before."""
        top = jnp.argmax(window.payoff)
        actions, payoffs = gathered((window.act.action.reshape(-1, self.action_size)[top], window.payoff.ravel()[top]))
        action, payoff = actions[jnp.argmax(payoffs)], payoffs.max()
        better = payoff > state.payoff
        best = Best(jnp.where(better, action, state.action), jnp.where(better, payoff, state.payoff))
        return best, None, {"best_payoff": best.payoff}

    def export(self, state: Best) -> ConstantActor:
        """The best action so far."""
        return ConstantActor(state.action)


class Fixed(eqx.Module):
    """The same action in every slot."""

    action_size: int
    action: float | Float[Array, " action"]
    central: bool = False

    def init(self, key: PRNGKeyArray) -> None:
        """Nothing to know."""
        del key

    def initial_memory(self, state: None) -> None:
        """It has none."""
        del state

    def act(
        self, state: None, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """The action."""
        del key
        action = self.play(state, memory, observation)[1]
        return None, Act(action, action, jnp.zeros_like(action))

    def play(
        self, state: None, memory: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
        """The action."""
        del state, memory, observation
        return None, jnp.broadcast_to(jnp.asarray(self.action, jnp.float32), (self.action_size,))

    def update(self, state: None, window: Window[None]) -> tuple[None, None, Diagnostics]:
        """Nothing to learn."""
        del state, window
        return None, None, {}

    def export(self, state: None) -> ConstantActor:
        """The action."""
        del state
        return ConstantActor(jnp.broadcast_to(jnp.asarray(self.action, jnp.float32), (self.action_size,)))


class Random(Fixed):
    """Anything, each slot; without exploration the middle."""

    def act(
        self, state: None, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """Uniform on the box."""
        del state, memory, observation
        action = jax.random.uniform(key, (self.action_size,))
        return None, Act(action, action, jnp.zeros_like(action))
