"""What every agent can do: start, act, learn from a window of play. One player; `vmap` gives every player its own."""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from potluck.agents.actors import Actor

AgentState = TypeVar("AgentState")
Memory = TypeVar("Memory")

Diagnostics: TypeAlias = Mapping[str, Float[Array, ""]]
"""How an update went, by name: columns of metrics.csv, curves in TensorBoard, numbers of the live display."""


class Act(eqx.Module):
    """A decision: what is played, and what the learner needs to know of it later."""

    action: Float[Array, "*batch action"]
    raw: Float[Array, "*batch action"]
    """As drawn, before it is squeezed into the box."""
    log_density: Float[Array, "*batch action"]


class Window(eqx.Module, Generic[Memory]):
    """The replay buffer of one player: D slots of play in several games, as it saw them.

    The critic observes what its player does; only a central critic observes what all players do.
    """

    observation: Float[Array, "*players games slots observation"]
    critic_observation: Float[Array, "*players games slots critic_observation"]
    act: Act
    payoff: Float[Array, "*players games slots"]
    first: Bool[Array, " slots"]
    """Whether a game begins with the slot."""
    last: Bool[Array, " slots"]
    """Whether a game ends with it."""
    critic_observation_after: Float[Array, "*players games critic_observation"]
    memory: Memory
    """Memory state before the window, per game."""
    memory_after: Memory


@runtime_checkable
class Learner(Protocol[AgentState, Memory]):
    """One player's way to decide and to learn. It knows nothing of what is played."""

    @property
    def central(self) -> bool:
        """Whether its critic must see all observations, which breaks privacy."""

    def init(self, key: PRNGKeyArray) -> AgentState:
        """What is known before any play: parameters, optimiser, statistics."""

    def initial_memory(self, state: AgentState) -> Memory:
        """Memory state before a game's first slot."""

    def act(
        self, state: AgentState, memory: Memory, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[Memory, Act]:
        """Decide with exploration."""

    def play(
        self, state: AgentState, memory: Memory, observation: Float[Array, " observation"]
    ) -> tuple[Memory, Float[Array, " action"]]:
        """Decide without exploration."""

    def update(self, state: AgentState, window: Window[Memory]) -> tuple[AgentState, Memory, Diagnostics]:
        """Learn from a window; the memory states of its games afterwards, and how it went.

        Its games are those of one device: a mean over games is taken with `everywhere`, so that all learn the same.
        """

    def export(self, state: AgentState) -> Actor:
        """The part that decides, for use outside of training: nothing of payoffs, critics or optimisers."""


@runtime_checkable
class Seated(Protocol):
    """A learner that must know which player it is; others are all alike when they begin."""

    def seated(self, state: Any, player: Int[Array, ""]) -> Any:
        """A fresh state, as that player's."""


@runtime_checkable
class Public(Protocol):
    """A learner part of whose learning rests on nothing but what all players see.

    `update(state, window)` is `updated(state, window, public(state, window))`. All players come to the same `public`,
    so a simulation computes it once, and never calls `update`.
    """

    def public(self, state: Any, window: Window[Any]) -> Any:
        """What any player learns from what all see."""

    def updated(self, state: Any, window: Window[Any], known: Any) -> tuple[Any, Any, Diagnostics]:
        """`update`, where `public` is known."""


def window_length(horizon: int) -> int:
    """D: a whole game, 5 slots of games below 8, 32 of games above 64."""
    return horizon if 8 <= horizon <= 64 else 5 if horizon < 8 else 32
