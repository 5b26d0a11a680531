"""A mechanism of your own: a bonus for what precision would lose without a silo's update.

    python examples/own_mechanism.py scenario init my.toml    # then write under [mechanism]: kind = "leave-one-out"
    python examples/own_mechanism.py game my.toml
    python examples/own_mechanism.py train my.toml --out runs/x

A package of its own can register it without a script, by an entry point of the group `potluck.mechanism`.
"""

from typing import Annotated

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from potluck.cli import main
from potluck.mechanisms import MECHANISMS, Declared, Facts, Kind, MechanismConfig, Need, NonNegative


class LeaveOneOut(eqx.Module):
    """r_n = rate·(m_n − mean_j m_j), where m_n = P − P without silo n's update of this slot."""

    rate: Float[Array, ""]

    needs = frozenset[Need]({"marginal"})  # measured by the coordinator, which trains nothing twice for it
    balanced = True  # transfers sum to zero

    def init(self, precision: Float[Array, ""]) -> None:
        """Nothing to remember from slot to slot."""

    def settle(self, state: None, facts: Facts) -> tuple[None, Float[Array, " silos"], Float[Array, ""]]:
        """One slot: what is remembered, what each silo receives, and the signal that all may see."""
        worth = facts.marginal
        assert worth is not None
        return state, self.rate * (worth - jnp.mean(worth)), jnp.mean(worth)

    def signal_bounds(self) -> tuple[float, float]:
        """Precision can lose or gain all of it."""
        return -1.0, 1.0


class LeaveOneOutConfig(MechanismConfig):
    """A bonus for what precision would lose without a silo's update, paid for by those who are missed less."""

    kind: Kind = "leave-one-out"
    rate: Annotated[NonNegative, Field(description="money per unit of marginal precision")] = 500.0

    def build(self, declared: Declared) -> LeaveOneOut:
        """Nothing that silos declare is believed."""
        del declared
        return LeaveOneOut(jnp.asarray(self.rate, dtype=float))


MECHANISMS.register("leave-one-out", LeaveOneOutConfig)

if __name__ == "__main__":
    main()
