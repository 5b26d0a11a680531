"""What a mechanism is: what it is told of a slot, what it answers, and how a scenario describes it."""

from abc import abstractmethod
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Float
from pydantic import Field

from potluck.scenario.fields import Described

State = TypeVar("State")
Seen = TypeVar("Seen", contravariant=True)
Need: TypeAlias = Literal["samples", "marginal"]
Kind: TypeAlias = Annotated[str, Field(description="which mechanism", json_schema_extra={"family": "mechanism"})]


class Facts(eqx.Module):
    """What the coordinator may know of a slot when it settles it; what nobody needs is not there."""

    contributions: Float[Array, "*slots silos"]
    """d_n."""
    precision: Float[Array, "*slots"]
    """P."""
    samples: Float[Array, "*slots silos"] | None = None
    """x_n = d_n·|D_n|, the samples trained on; for mechanisms that need `samples`."""
    marginal: Float[Array, "*slots silos"] | None = None
    """P − P without silo n's update of this slot (leave-one-out); for mechanisms that need `marginal`."""


@runtime_checkable
class Mechanism(Protocol[State]):
    """The rule that sets transfers; a module of arrays, unbatched, pure."""

    @property
    def needs(self) -> frozenset[Need]:
        """What it must be told beyond contributions and precision."""

    @property
    def balanced(self) -> bool:
        """Whether transfers sum to zero; if not, their sum is money from outside."""

    def init(self, precision: Float[Array, ""]) -> State:
        """What it remembers before the first slot, given the untrained model's precision."""

    def settle(self, state: State, facts: Facts) -> tuple[State, Float[Array, " silos"], Float[Array, ""]]:
        """One slot: what it remembers afterwards, what each silo receives, and the signal that all may see."""

    def signal_bounds(self) -> tuple[float, float]:
        """The least and the most that the signal can be; infinite where no bound is known."""


@runtime_checkable
class Separable(Protocol[Seen]):
    """A mechanism whose game has a weighted potential: r_n(d) = g_n(d_n) + h_n(d_−n).

    Then Φ(d) = P(d) + Σ_n [g_n(d_n) − κ v_n d_n|D_n| − C_n] / p_n moves with every unilateral deviation, weights p_n.
    """

    def own(self, state: Seen, facts: Facts) -> Float[Array, " silos"]:
        """g_n(d_n), the part of r_n that silo n's own contribution moves, up to a constant."""


class Declared(eqx.Module):
    """What silos have told the coordinator of themselves, true or not."""

    profit: Float[Array, " silos"]
    """p_n."""
    cost: Float[Array, " silos"]
    """c_n = κ v_n|D_n|: what a silo's whole data costs it."""


class MechanismConfig(Described):
    """How a scenario describes a mechanism: one subclass for each kind, registered under the kind's name."""

    kind: Kind

    @abstractmethod
    def build(self, declared: Declared) -> Mechanism[Any]:
        """The mechanism, its numbers as arrays; only those that live on declarations look at them."""

    def scaled(self, share: float) -> "MechanismConfig":
        """The same mechanism where silos hold `share` times as many samples as before."""
        del share
        return self

    def misfit(self, silos: int) -> str | None:
        """What is wrong with it for so many silos, beginning with the field; None where it fits."""
        del silos
        return None
