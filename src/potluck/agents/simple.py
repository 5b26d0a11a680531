"""Agents that hardly learn: Greedy, a fixed contribution, a random one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from potluck.agents.actors import ConstantActor
from potluck.agents.learner import Act, Diagnostics, Window
from potluck.devices import gathered


class Best(eqx.Module):
    """The action that earned most in a single slot so far, and what that was."""

    action: Float[Array, "*players action"]
    payoff: Float[Array, "*players"]


class Memoryless(eqx.Module):
    """An agent that decides by what it knows alone, whatever it observes."""

    action_size: int

    central = False

    def initial_memory(self, state: Any) -> None:
        """It has none."""


def _played(action: Float[Array, " action"]) -> tuple[None, Act]:
    return None, Act(action, action, jnp.zeros_like(action))


class Greedy(Memoryless):
    """One slot in ten at random, else the action that has earned most in any slot so far."""

    exploration: float = 0.1

    def init(self, key: PRNGKeyArray) -> Best:
        """Start anywhere."""
        return Best(jax.random.uniform(key, (self.action_size,)), jnp.array(-jnp.inf))

    def act(
        self, state: Best, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """Explore or repeat."""
        del memory, observation
        whether, what = jax.random.split(key)
        anything = jax.random.uniform(what, (self.action_size,))
        return _played(jnp.where(jax.random.uniform(whether) < self.exploration, anything, state.action))

    def play(
        self, state: Best, memory: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
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


class Fixed(Memoryless):
    """The same action in every slot."""

    action: float | Float[Array, " action"]

    def init(self, key: PRNGKeyArray) -> None:
        """Nothing to know."""

    def act(
        self, state: None, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """There is nothing to explore."""
        del state, memory, observation, key
        return _played(self._action())

    def play(
        self, state: None, memory: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
        del state, memory, observation
        return None, self._action()

    def update(self, state: None, window: Window[None]) -> tuple[None, None, Diagnostics]:
        del state, window
        return None, None, {}

    def export(self, state: None) -> ConstantActor:
        del state
        return ConstantActor(self._action())

    def _action(self) -> Float[Array, " action"]:
        return jnp.broadcast_to(jnp.asarray(self.action, jnp.float32), (self.action_size,))


class Solved(Memoryless):
    """Every player its own action, in every slot."""

    actions: Float[Array, "players action"]

    def init(self, key: PRNGKeyArray) -> Float[Array, " action"]:
        """Nobody's, before `seated` says whose."""
        del key
        return jnp.zeros(self.action_size)

    def seated(self, state: Float[Array, " action"], player: Int[Array, ""]) -> Float[Array, " action"]:
        del state
        return self.actions[player]

    def act(
        self, state: Array, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """There is nothing to explore."""
        del memory, observation, key
        return _played(state)

    def play(
        self, state: Array, memory: None, observation: Float[Array, " observation"]
    ) -> tuple[None, Float[Array, " action"]]:
        del memory, observation
        return None, state

    def update(self, state: Array, window: Window[None]) -> tuple[Array, None, Diagnostics]:
        del window
        return state, None, {}

    def export(self, state: Array) -> ConstantActor:
        return ConstantActor(state)


class Random(Fixed):
    """Anything, each slot; without exploration the middle."""

    def act(
        self, state: None, memory: None, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[None, Act]:
        """Uniform on the box."""
        del state, memory, observation
        return _played(jax.random.uniform(key, (self.action_size,)))
