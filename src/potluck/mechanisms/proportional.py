"""A pot shared in proportion to samples and financed in equal parts: what consortia do today."""

from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from pydantic import Field

from potluck.mechanisms.basis import Memoryless
from potluck.scenario.fields import NonNegative
from potluck.scenario.mechanism import Declared, Facts, Kind, MechanismConfig, Need


class Proportional(Memoryless):
    """r_n = pot·(x_n/Σ_j x_j − 1/N); nothing moves where nobody contributes. The game has no potential."""

    pot: Float[Array, ""]

    needs = frozenset[Need]({"samples"})

    def settle(self, state: None, facts: Facts) -> tuple[None, Float[Array, " silos"], Float[Array, ""]]:
        """The signal is what was in the pot."""
        del state
        assert facts.samples is not None, "it is told them"
        total = facts.samples.sum()
        pot = jnp.where(total > 0, self.pot, 0.0)
        shares = facts.samples / jnp.where(total > 0, total, 1.0)
        return None, pot * (shares - 1 / len(shares)), pot

    def signal_bounds(self) -> tuple[float, float]:
        return 0.0, float(self.pot)

    def split(self, owners: Int[Array, " identities"]) -> "Proportional":
        del owners
        return self


class ProportionalConfig(MechanismConfig):
    """A pot in every slot, financed in equal parts and shared in proportion to the samples trained on."""

    kind: Kind = "proportional"
    pot: Annotated[NonNegative, Field(description="money that is shared in a slot")] = 20.0

    def build(self, declared: Declared) -> Proportional:
        del declared
        return Proportional(jnp.asarray(self.pot, dtype=float))
