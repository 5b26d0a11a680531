"""What every agent can do: start, act, learn from a window of play. One player; `vmap` gives every player its own."""

from typing import Any, Protocol

import equinox as eqx
from jaxtyping import Array, Bool, Float, PRNGKeyArray

__all__ = ["Act", "Learner", "Window"]


class Act(eqx.Module):
    """A decision: what is played, and what the learner needs to know of it later."""

    action: Float[Array, " action"]
    raw: Float[Array, " action"]
    """As drawn, before it is squeezed into the box."""
    log_density: Float[Array, " action"]


class Window(eqx.Module):
    """The store of past game records: D slots of play in several games, as one player saw them.

    `sight` is what its critic sees: its own observation, and only for a central critic those of all players.
    """

    observation: Float[Array, "games slots observation"]
    sight: Float[Array, "games slots sight"]
    act: Act
    payoff: Float[Array, "games slots"]
    first: Bool[Array, " slots"]
    """Whether a game begins with the slot."""
    last: Bool[Array, " slots"]
    """Whether a game ends with it."""
    sight_after: Float[Array, "games sight"]
    recall: Any
    """What was remembered before the window, per game."""
    recall_after: Any


class Learner(Protocol):
    """One player's way to decide and to learn. It knows nothing of what is played."""

    @property
    def central(self) -> bool:
        """Whether its critic must see all observations, which breaks privacy."""
        ...

    def init(self, key: PRNGKeyArray) -> Any:
        """What is known before any play: parameters, optimiser, statistics."""
        ...

    def rest(self, learned: Any) -> Any:
        """What is remembered before a game's first slot."""
        ...

    def act(
        self, learned: Any, recall: Any, observation: Float[Array, " observation"], key: PRNGKeyArray
    ) -> tuple[Any, Act]:
        """Decide while learning, exploring as it does; what is remembered afterwards."""
        ...

    def play(
        self, learned: Any, recall: Any, observation: Float[Array, " observation"]
    ) -> tuple[Any, Float[Array, " action"]]:
        """Decide in earnest, without exploring."""
        ...

    def update(self, learned: Any, window: Window) -> tuple[Any, Any]:
        """Learn from a window; what is known and, per game, what is remembered afterwards."""
        ...
