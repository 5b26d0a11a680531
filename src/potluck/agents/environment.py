"""What a learner may know of the world: players who observe, act in a box and are paid."""

from typing import Any, Protocol

from jaxtyping import Array, Float, PRNGKeyArray

__all__ = ["Environment"]


class Environment(Protocol):
    """A game of `horizon` slots as pure functions, unbatched; actions are in [0, 1]."""

    @property
    def players(self) -> int:
        """How many decide."""
        ...

    @property
    def observation_size(self) -> int:
        """Numbers that one player sees."""
        ...

    @property
    def action_size(self) -> int:
        """Numbers that one player decides."""
        ...

    @property
    def horizon(self) -> int:
        """Slots until the game ends; nothing is earned afterwards."""
        ...

    def reset(self, key: PRNGKeyArray) -> Any:
        """A game before its first slot."""
        ...

    def observe(self, state: Any) -> Float[Array, "players observation"]:
        """What each player sees, and nothing that it may not."""
        ...

    def step(
        self, state: Any, actions: Float[Array, "players action"], key: PRNGKeyArray
    ) -> tuple[Any, Float[Array, " players"], Any]:
        """One slot: the new state, what each player earned, and what there is to report."""
        ...
