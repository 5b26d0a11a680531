"""No transfers: every silo keeps what it earns (the paper's baseline WPR)."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from potluck.mechanisms.basis import Memoryless
from potluck.scenario.mechanism import Declared, Facts, Kind, MechanismConfig


class NoTransfers(Memoryless):
    """r_n = 0, and the signal is 0."""

    def settle(self, state: None, facts: Facts) -> tuple[None, Float[Array, " silos"], Float[Array, ""]]:
        return None, self.own(state, facts), jnp.zeros_like(facts.precision)

    def own(self, state: None, facts: Facts) -> Float[Array, " silos"]:
        """g_n = 0."""
        del state
        return jnp.zeros_like(facts.contributions)

    def split(self, owners: Int[Array, " identities"]) -> "NoTransfers":
        del owners
        return self


class NoTransfersConfig(MechanismConfig):
    """No transfers: every silo keeps what it earns (WPR)."""

    kind: Kind = "none"

    def build(self, declared: Declared) -> NoTransfers:
        del declared
        return NoTransfers()
