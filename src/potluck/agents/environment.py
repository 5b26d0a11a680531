"""What a learner may know of the world: players who observe, act in a box and are paid."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

State = TypeVar("State")
Report = TypeVar("Report", covariant=True)


@runtime_checkable
class Sizes(Protocol):
    """What a learner is built from."""

    @property
    def players(self) -> int:
        """How many decide."""

    @property
    def observation_size(self) -> int:
        """Numbers that one player sees."""

    @property
    def action_size(self) -> int:
        """Numbers that one player decides."""

    @property
    def horizon(self) -> int:
        """Slots until the game ends; nothing is earned afterwards."""


@runtime_checkable
class Environment(Sizes, Protocol[State, Report]):
    """A game of `horizon` slots as pure functions, unbatched; actions are in [0, 1]."""

    def reset(self, key: PRNGKeyArray) -> State:
        """A game before its first slot."""

    def observe(self, state: State) -> Float[Array, "players observation"]:
        """What each player sees, and nothing that it may not."""

    def step(
        self, state: State, actions: Float[Array, "players action"], key: PRNGKeyArray
    ) -> tuple[State, Float[Array, " players"], Report]:
        """One slot: the new state, what each player earned, and what there is to report."""


class Wrapper(eqx.Module):
    """An environment around another, of the same sizes but for how many play."""

    environment: Environment[Any, Any]

    @property
    def observation_size(self) -> int:
        return self.environment.observation_size

    @property
    def action_size(self) -> int:
        return self.environment.action_size

    @property
    def horizon(self) -> int:
        return self.environment.horizon
