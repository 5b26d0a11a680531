"""Redistribution with an intensity for each silo: balanced for any of them, and still a potential game."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from pydantic import Discriminator, Field, Tag

from potluck.mechanisms.basis import Comparing, ComparingConfig
from potluck.mechanisms.schedules import Gains
from potluck.scenario.fields import NonNegative, one_per_silo
from potluck.scenario.mechanism import Declared, Facts, Kind


class PerSilo(Comparing):
    """r_n = Σ_j (α_n b_n − α_j b_j), α_n one for each silo or one for all.

    Sums to zero for any α; the paper's where all α_n are the same.
    """

    def settle(self, state: Gains, facts: Facts) -> tuple[Gains, Float[Array, " silos"], Float[Array, ""]]:
        """Transfers at this slot's α_n; the signal is their mean."""
        state, intensity, brought = self.at_work(state, facts)
        weighed = intensity * brought
        return state, jnp.sum(weighed[:, None] - weighed[None, :], axis=1), jnp.mean(intensity)

    def own(self, state: Gains, facts: Facts) -> Float[Array, " silos"]:
        """g_n = (N − 1)·α_n b_n."""
        _, intensity, brought = self.at_work(state, facts)
        return (len(brought) - 1) * intensity * brought

    def signal_bounds(self) -> tuple[float, float]:
        """The mean of α stays in [0, max α0], but for the printed schedule."""
        return self.schedule.bounds(float(np.max(self.intensity)) * (1 + 1e-6))

    def split(self, owners: Int[Array, " identities"]) -> "PerSilo":
        """The same among identities, of which a silo may have several."""
        return PerSilo(self.intensity[owners] if self.intensity.ndim else self.intensity, self.unit, self.schedule)


class PerSiloConfig(ComparingConfig):
    """Payoff is redistributed to those who bring more, each silo's data paid for at an intensity of its own."""

    kind: Kind = "per-silo"
    intensity: Annotated[
        Annotated[NonNegative, Tag("uniform")] | Annotated[tuple[NonNegative, ...], Tag("vector")],
        Discriminator(lambda value: "vector" if isinstance(value, list | tuple) else "uniform"),
        Field(description="α0, money per unit of difference: one number, or a list with one per silo"),
    ] = 5.0

    def misfit(self, silos: int) -> str | None:
        return one_per_silo("intensity", self.intensity, silos)

    def build(self, declared: Declared) -> PerSilo:
        del declared
        return PerSilo(jnp.asarray(self.intensity, dtype=float), *self.compared())
