"""What decides for a silo outside of training: a network, or the same contribution every time."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from potluck.agents.dnc import DNCSize
from potluck.agents.moments import Moments
from potluck.agents.networks import Network
from potluck.agents.policies import POLICIES
from potluck.registry import Registry


@runtime_checkable
class Actor(Protocol):
    """A deterministic policy with a memory. A file of it holds its arrays, its `kind` and its `settings`."""

    @property
    def kind(self) -> str:
        """The name in `ACTORS` of what makes an empty one from `settings`."""

    @property
    def settings(self) -> dict[str, Any]:
        """Sizes and names that JSON can carry."""

    def initial_memory(self) -> Any:
        """Memory state before a game's first slot."""

    def __call__(self, memory: Any, observation: Float[Array, " observation"]) -> tuple[Any, Float[Array, " action"]]:
        """The action of one slot."""


class NetworkActor(eqx.Module):
    """The centre of a policy: a network, and the scale of what it observes."""

    network: Network
    scale: Moments
    policy: str = eqx.field(static=True)
    hidden: tuple[int, int] = eqx.field(static=True)
    dnc: DNCSize | None = eqx.field(static=True)

    kind = "network"

    @classmethod
    def empty(
        cls, observation_size: int, action_size: int, policy: str, hidden: Sequence[int], dnc: Sequence[int] | None
    ) -> "NetworkActor":
        """An actor of these sizes, to be filled from a file."""
        size, (first, second) = None if dnc is None else DNCSize(*dnc), hidden
        network = Network.create(observation_size, 2 * action_size, (first, second), size, jax.random.key(0))
        return cls(network, Moments.none(observation_size), policy, (first, second), size)

    @property
    def settings(self) -> dict[str, Any]:
        """As `empty` takes them."""
        return {
            "observation_size": self.scale.mean.shape[-1],
            "action_size": self.network.head.weight.shape[-2] // 2,
            "policy": self.policy,
            "hidden": self.hidden,
            "dnc": None if self.dnc is None else dataclasses.astuple(self.dnc),
        }

    def initial_memory(self) -> Any:
        return self.network.initial_memory()

    def __call__(self, memory: Any, observation: Float[Array, " observation"]) -> tuple[Any, Float[Array, " action"]]:
        """The policy's centre."""
        memory, raw = self.network(memory, self.scale.standard(observation))
        return memory, POLICIES[self.policy].centre(raw.reshape(2, -1))


class ConstantActor(eqx.Module):
    """The same action in every slot."""

    action: Float[Array, " action"]

    kind = "constant"

    @classmethod
    def empty(cls, action_size: int) -> "ConstantActor":
        return cls(jnp.zeros(action_size))

    @property
    def settings(self) -> dict[str, Any]:
        """As `empty` takes them."""
        return {"action_size": self.action.shape[-1]}

    def initial_memory(self) -> None:
        """It has none."""

    def __call__(self, memory: Any, observation: Float[Array, " observation"]) -> tuple[Any, Float[Array, " action"]]:
        del observation
        return memory, self.action


ACTORS: Registry[Any] = Registry("actor", {"network": NetworkActor.empty, "constant": ConstantActor.empty})
"""What makes an empty actor from its settings."""
