"""What decides for a silo outside of training: a network, a plan, or the same contribution every time."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

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


class PlanActor(eqx.Module):
    """An action for every slot of a game, whatever is observed; the last one again where a game goes on longer."""

    plan: Float[Array, "slots action"]

    kind = "plan"

    @classmethod
    def empty(cls, slots: int, action_size: int) -> "PlanActor":
        return cls(jnp.zeros((slots, action_size)))

    @property
    def settings(self) -> dict[str, Any]:
        """As `empty` takes them."""
        slots, action_size = self.plan.shape[-2:]
        return {"slots": slots, "action_size": action_size}

    def initial_memory(self) -> Int[Array, ""]:
        """Slots that are over."""
        return jnp.asarray(0)

    def __call__(
        self, memory: Int[Array, ""], observation: Float[Array, " observation"]
    ) -> tuple[Int[Array, ""], Float[Array, " action"]]:
        del observation
        return memory + 1, self.plan[jnp.minimum(memory, len(self.plan) - 1)]


class SlotActor(eqx.Module):
    """a = clip(½ + 0.6·tanh(r/0.6), 0, 1), r = L·x + network(x); x: the observation in its deviations, and the slot."""

    linear: eqx.nn.Linear
    network: Network
    middle: Float[Array, " observation"]
    spread: Float[Array, " observation"]
    slots: int = eqx.field(static=True)
    hidden: tuple[int, int] = eqx.field(static=True)

    kind = "slot"

    @classmethod
    def create(
        cls, observation_size: int, action_size: int, slots: int, hidden: Sequence[int], key: PRNGKeyArray
    ) -> "SlotActor":
        """The middle of the box at first, nearly."""
        first, second = hidden
        linear = eqx.nn.Linear(observation_size + 1, action_size, use_bias=False, key=key)
        return cls(
            linear=eqx.tree_at(lambda part: part.weight, linear, 0 * linear.weight),
            network=Network.create(observation_size + 1, action_size, (first, second), None, key),
            middle=jnp.zeros(observation_size),
            spread=jnp.ones(observation_size),
            slots=slots,
            hidden=(first, second),
        )

    @classmethod
    def empty(cls, observation_size: int, action_size: int, slots: int, hidden: Sequence[int]) -> "SlotActor":
        """An actor of these sizes, to be filled from a file."""
        return cls.create(observation_size, action_size, slots, hidden, jax.random.key(0))

    @property
    def settings(self) -> dict[str, Any]:
        """As `empty` takes them."""
        sizes = {"observation_size": self.middle.shape[-1], "action_size": self.linear.weight.shape[-2]}
        return {**sizes, "slots": self.slots, "hidden": self.hidden}

    def initial_memory(self) -> Int[Array, ""]:
        """Slots that are over."""
        return jnp.asarray(0)

    def raw(self, slot: Int[Array, ""], observation: Float[Array, " observation"]) -> Float[Array, " action"]:
        """r."""
        x = self.inputs(slot, observation)
        return self.linear(x) + self.network(None, x)[1]

    def inputs(self, slot: Int[Array, ""], observation: Float[Array, " observation"]) -> Float[Array, " inputs"]:
        """x."""
        middle, spread = jax.lax.stop_gradient((self.middle, self.spread))
        x = jnp.clip((observation - middle) / spread, -10.0, 10.0)
        return jnp.append(x, jnp.minimum(slot / self.slots, 1.0))

    @staticmethod
    def wish(raw: Float[Array, " action"]) -> Float[Array, " action"]:
        """The action before it is cut off at the edges of the box, a little beyond which it can go."""
        return 0.5 + 0.6 * jnp.tanh(raw / 0.6)

    def __call__(
        self, memory: Int[Array, ""], observation: Float[Array, " observation"]
    ) -> tuple[Int[Array, ""], Float[Array, " action"]]:
        return memory + 1, jnp.clip(self.wish(self.raw(memory, observation)), 0, 1)


def _pretrained(**settings: Any) -> Actor:
    from potluck.agents.pretrained import PretrainedActor  # it is a learner too, and learners know actors

    return PretrainedActor.empty(**settings)


ACTORS: Registry[Any] = Registry(
    "actor",
    {
        "network": NetworkActor.empty,
        "constant": ConstantActor.empty,
        "plan": PlanActor.empty,
        "slot": SlotActor.empty,
        "pretrained": _pretrained,
    },
)
"""What makes an empty actor from its settings."""
