"""Agents that hardly learn: Greedy, a fixed contribution, a random one."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.agents.learner import Act, Window

__all__ = ["Best", "Fixed", "Greedy", "Random"]


class Best(eqx.Module):
    """The action that earned most in a single slot so far, and what that was."""

    action: Float[Array, " action"]
    payoff: Float[Array, ""]


class Greedy(eqx.Module):
    """One slot in ten at random, else the action that has earned most in any slot so far."""

    action_size: int
    exploration: float = 0.1
    central: bool = False
    axis: str | None = None

    def init(self, key: PRNGKeyArray) -> Best:
        """Start anywhere."""
        return Best(jax.random.uniform(key, (self.action_size,)), jnp.array(-jnp.inf))

    def rest(self, learned: Best) -> None:
        """Nothing to remember."""
        del learned

    def act(
        self, learned: Best, recall: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """Explore or repeat."""
        del recall, observation
        whether, what = jax.random.split(key)
        anything = jax.random.uniform(what, (self.action_size,))
        action = jnp.where(jax.random.uniform(whether) < self.exploration, anything, learned.action)
        return None, Act(action, action, jnp.zeros_like(action))

    def play(
        self, learned: Best, recall: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
        """Repeat."""
        del recall, observation
        return None, learned.action

    def update(self, learned: Best, window: Window) -> tuple[Best, None]:
        """Keep the best slot of the window if it beats all before."""
        top = jnp.argmax(window.payoff)
        action = window.act.action.reshape(-1, self.action_size)[top]
        payoff = window.payoff.ravel()[top]
        if self.axis is not None:
            actions, payoffs = jax.lax.all_gather((action, payoff), self.axis)
            action, payoff = actions[jnp.argmax(payoffs)], payoffs.max()
        better = payoff > learned.payoff
        return Best(jnp.where(better, action, learned.action), jnp.where(better, payoff, learned.payoff)), None


class Fixed(eqx.Module):
    """The same action in every slot."""

    action_size: int
    action: float | Float[Array, " action"]
    central: bool = False

    def init(self, key: PRNGKeyArray) -> None:
        """Nothing to know."""
        del key

    def rest(self, learned: None) -> None:
        """Nothing to remember."""
        del learned

    def act(
        self, learned: None, recall: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """The action."""
        del key
        action = self.play(learned, recall, observation)[1]
        return None, Act(action, action, jnp.zeros_like(action))

    def play(
        self, learned: None, recall: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
        """The action."""
        del learned, recall, observation
        return None, jnp.broadcast_to(jnp.asarray(self.action, jnp.float32), (self.action_size,))

    def update(self, learned: None, window: Window) -> tuple[None, None]:
        """Nothing to learn."""
        del learned, window
        return None, None


class Random(Fixed):
    """Anything, each slot; in earnest the middle."""

    def act(
        self, learned: None, recall: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """Uniform on the box."""
        del learned, recall, observation
        action = jax.random.uniform(key, (self.action_size,))
        return None, Act(action, action, jnp.zeros_like(action))
