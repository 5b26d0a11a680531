"""Payoff redistribution, the paper's mechanism: who brings less compensates who brings more."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from pydantic import Discriminator, Field, Tag, field_validator

from potluck.mechanisms.basis import Comparing, ComparingConfig
from potluck.mechanisms.schedules import Gains
from potluck.scenario.fields import NonNegative
from potluck.scenario.mechanism import Declared, Facts, Kind


class Redistribution(Comparing):
    """r_n = Σ_j α_nj (b_n − b_j), α one number for all or one for each pair. Equal contributions move no money.

    Sums to zero for any symmetric α.
    """

    def settle(self, state: Gains, facts: Facts) -> tuple[Gains, Float[Array, " silos"], Float[Array, ""]]:
        """Transfers at this slot's α, which is the signal (for a matrix, its mean over pairs).

        Pairs are exact opposites, so the sum over silos is zero.
        """
        state, intensity, brought = self.at_work(state, facts)
        transfers = jnp.sum(intensity * (brought[:, None] - brought[None, :]), axis=1)
        return state, transfers, mean_over_pairs(intensity)

    def own(self, state: Gains, facts: Facts) -> Float[Array, " silos"]:
        """g_n = Σ_{j≠n} α_nj·b_n. (The printed schedule moves α with this slot's own P from the third slot on.)"""
        _, intensity, brought = self.at_work(state, facts)
        return others(intensity, len(brought)).sum(axis=1) * brought

    def signal_bounds(self) -> tuple[float, float]:
        """α stays in [0, α0], but for the printed schedule."""
        most = float(np.max(self.intensity))
        # A mean over pairs may round to more than its largest entry.
        return self.schedule.bounds(most * (1 + 1e-6) if self.intensity.ndim else most)

    def split(self, owners: Int[Array, " identities"]) -> "Redistribution":
        """The same among identities, of which a silo may have several."""
        pairs = self.intensity[owners][:, owners] if self.intensity.ndim else self.intensity
        return Redistribution(pairs, self.unit, self.schedule)


def others(intensity: Float[Array, ""] | Float[Array, "silos silos"], silos: int) -> Float[Array, "silos silos"]:
    """α_nj for each pair; 0 for a silo with itself, where it moves no money."""
    return jnp.broadcast_to(intensity, (silos, silos)) * (1 - jnp.eye(silos, dtype=intensity.dtype))


def mean_over_pairs(intensity: Float[Array, ""] | Float[Array, "silos silos"]) -> Float[Array, ""]:
    """α as all may see it: the one for all, or the mean over pairs; what a silo's with itself is moves no money."""
    if intensity.ndim == 0:
        return intensity
    silos = len(intensity)
    return jnp.sum(jnp.where(jnp.eye(silos, dtype=bool), 0.0, intensity)) / (silos * (silos - 1))


Matrix = tuple[tuple[NonNegative, ...], ...]


class RedistributionConfig(ComparingConfig):
    """Payoff is redistributed from those who bring less to those who bring more (the paper's mechanism)."""

    kind: Kind = "redistribution"
    intensity: Annotated[
        Annotated[NonNegative, Tag("uniform")] | Annotated[Matrix, Tag("matrix")],
        Discriminator(lambda value: "matrix" if isinstance(value, list | tuple) else "uniform"),
        Field(description="α0, money per unit of difference: one number, or a symmetric matrix with one per pair"),
    ] = 5.0

    @field_validator("intensity")
    @classmethod
    def _symmetric(cls, intensity: float | Matrix) -> float | Matrix:
        if isinstance(intensity, tuple):
            size = len(intensity)
            if any(len(row) != size for row in intensity):
                raise ValueError(f"must be a square matrix, one row and one column per silo, got {size} rows")
            for n in range(size):
                for j in range(n):
                    if intensity[n][j] != intensity[j][n]:
                        raise ValueError(
                            f"must be symmetric so that the budget balances: entry [{n}][{j}] is {intensity[n][j]:g} "
                            f"but [{j}][{n}] is {intensity[j][n]:g}"
                        )
        return intensity

    def misfit(self, silos: int) -> str | None:
        if not isinstance(self.intensity, tuple) or len(self.intensity) == silos:
            return None
        return f"intensity must have one row per silo: {silos} needed, got {len(self.intensity)}"

    def build(self, declared: Declared) -> Redistribution:
        del declared
        return Redistribution(jnp.asarray(self.intensity, dtype=float), *self.compared())
