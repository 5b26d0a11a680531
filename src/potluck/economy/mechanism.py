"""Payoff redistribution: who brings less compensates who brings more."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from potluck.scenario import Scenario

__all__ = ["Redistribution", "leverage", "redistribution", "transfers"]


class Redistribution(eqx.Module):
    """The rule that sets transfers. Intensity zero is no redistribution (WPR)."""

    intensity: Float[Array, ""] | Float[Array, "silos silos"]
    """α: one number for all, or α_nj for each pair (symmetric, or the budget does not balance)."""
    unit: Float[Array, ""] | None = None
    """Samples per unit of contribution under basis `samples`; None is basis `fraction`."""

    def at(self, intensity: Float[Array, ""] | Float[Array, "silos silos"]) -> "Redistribution":
        """Keep the basis, change the intensity."""
        return Redistribution(intensity, self.unit)


def redistribution(scenario: Scenario) -> Redistribution:
    """Build the mechanism that a scenario describes, at its initial intensity α0."""
    described = scenario.mechanism
    return Redistribution(
        intensity=jnp.asarray(described.intensity if described.kind == "redistribution" else 0.0, dtype=float),
        unit=jnp.asarray(described.unit, dtype=float) if described.basis == "samples" else None,
    )


def transfers(
    rule: Redistribution, contributions: Float[Array, " silos"], samples: Float[Array, " silos"]
) -> Float[Array, " silos"]:
    """What each silo receives, r_n = Σ_j α_nj (b_n − b_j), where b = d, or b = d·|D|/unit on basis `samples`.

    Pairs are exact opposites, so the sum over silos is zero, and equal contributions move no money at all.
    """
    brought = contributions * leverage(rule, samples)
    return jnp.sum(rule.intensity * (brought[:, None] - brought[None, :]), axis=1)


def leverage(rule: Redistribution, samples: Float[Array, " silos"]) -> Float[Array, " silos"]:
    """How much a silo's whole data weighs in the transfers, ∂b_n/∂d_n: 1, or |D_n|/unit on basis `samples`."""
    return jnp.ones_like(samples) if rule.unit is None else samples / rule.unit
