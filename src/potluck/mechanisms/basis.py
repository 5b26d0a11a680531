"""What redistribution compares, contributions as shares or as samples, and how it is described."""

from typing import Annotated, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from potluck.mechanisms.schedules import Schedule, ScheduleName
from potluck.scenario.fields import Positive
from potluck.scenario.mechanism import Facts, MechanismConfig, Need

__all__ = ["ComparingConfig", "brought", "told"]


class ComparingConfig(MechanismConfig):
    """Options of every mechanism that compares what silos bring, at an intensity that follows a schedule."""

    basis: Annotated[
        Literal["fraction", "samples"],
        Field(description="what transfers compare: shares d of one's data (paper), or absolute samples x"),
    ] = "fraction"
    unit: Annotated[
        Positive, Field(description="samples that count as one unit of contribution, under basis samples")
    ] = 2000.0
    schedule: Annotated[
        ScheduleName,
        Field(description="of α: gain (lagged, smoothed, clamped to [0, α0]), constant, or the paper's printed rule"),
    ] = "gain"
    smoothing: Annotated[
        float, Field(strict=True, ge=0, lt=1, description="weight of the past in the gain schedule's moving average")
    ] = 0.5

    def scaled(self, share: float) -> "ComparingConfig":
        """A unit of contribution stays the same part of a silo's data."""
        return self.model_copy(update={"unit": self.unit * share})

    def unit_of(self) -> Float[Array, ""] | None:
        """Samples per unit of contribution; None where shares are compared."""
        return jnp.asarray(self.unit, dtype=float) if self.basis == "samples" else None

    def schedule_of(self) -> Schedule:
        """The schedule of α."""
        return Schedule(self.schedule, jnp.asarray(self.smoothing, dtype=float))


def told(unit: Float[Array, ""] | None) -> frozenset[Need]:
    """Basis `samples` has to be told them."""
    return frozenset() if unit is None else frozenset({"samples"})


def brought(facts: Facts, unit: Float[Array, ""] | None) -> Float[Array, " silos"]:
    """b_n: d_n on basis `fraction`, x_n/unit on basis `samples`."""
    if unit is None:
        return facts.contributions
    assert facts.samples is not None, "basis samples is told them"
    return facts.samples / unit
