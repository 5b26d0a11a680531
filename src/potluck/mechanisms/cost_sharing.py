"""Costs shared in proportion to profits: in every slot all silos want the same, if they declare the truth."""

from typing import Annotated

import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from pydantic import Field

from potluck.mechanisms.basis import Memoryless
from potluck.scenario.fields import NonNegative, Positive, one_per_silo
from potluck.scenario.mechanism import Declared, Facts, Kind, MechanismConfig


class CostSharing(Memoryless):
    """r_n = c_n d_n − (p_n/Σp)·Σ_j c_j d_j, from declared c and p. Where they are true, u_n = (p_n/Σp)·W up to C.

    Silos declare once, before the run. Where |D_n| changes later, or every game draws its terms anew, what they
    declared is no longer the truth.
    """

    declared: Declared

    def settle(self, state: None, facts: Facts) -> tuple[None, Float[Array, " silos"], Float[Array, ""]]:
        """Every silo's declared cost is paid back, and all pay their share of the bill. The signal is 0.

        To publish the bill would publish every silo's cost: contributions are public.
        """
        del state
        costs = self.declared.cost * facts.contributions
        return None, costs - self.shares * costs.sum(), jnp.zeros_like(facts.precision)

    def own(self, state: None, facts: Facts) -> Float[Array, " silos"]:
        """g_n = (1 − p_n/Σp)·c_n d_n."""
        del state
        return (1 - self.shares) * self.declared.cost * facts.contributions

    def split(self, owners: Int[Array, " identities"]) -> "CostSharing":
        """A silo with several identities declares for each its part of its cost and profit."""
        taken = jnp.sum(owners[:, None] == owners[None, :], axis=1)
        return CostSharing(Declared(self.declared.profit[owners] / taken, self.declared.cost[owners] / taken))

    def declaring(self, silo: Int[Array, ""] | int, factor: Float[Array, ""] | float) -> "CostSharing":
        """The same where a silo declares `factor` times the cost that it declares now."""
        return CostSharing(Declared(self.declared.profit, self.declared.cost.at[silo].mul(factor)))

    @property
    def shares(self) -> Float[Array, " silos"]:
        """p_n/Σp."""
        return self.declared.profit / self.declared.profit.sum()


class CostSharingConfig(MechanismConfig):
    """Every silo's declared cost is paid back, and all share the bill in proportion to their declared profits."""

    kind: Kind = "cost-sharing"
    costs: Annotated[
        tuple[NonNegative, ...] | None,
        Field(description="c, declared costs of all one's data in a slot, one per silo; the true ones if left out"),
    ] = None
    profits: Annotated[
        tuple[Positive, ...] | None,
        Field(description="p, declared profits per unit of precision, one per silo; the true ones if left out"),
    ] = None

    def misfit(self, silos: int) -> str | None:
        return one_per_silo("costs", self.costs, silos) or one_per_silo("profits", self.profits, silos)

    def build(self, declared: Declared) -> CostSharing:
        """On what the scenario says that silos declare, or on what they do."""
        profit, cost = declared.profit, declared.cost
        return CostSharing(
            Declared(
                profit if self.profits is None else jnp.asarray(self.profits, profit.dtype),
                cost if self.costs is None else jnp.asarray(self.costs, cost.dtype),
            )
        )
