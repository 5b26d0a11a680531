"""What members have in common: those that remember nothing, and those that compare shares or samples."""

from typing import Annotated, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from potluck.mechanisms.schedules import Gains, Schedule, ScheduleName, first_gains
from potluck.scenario.fields import LARGEST
from potluck.scenario.mechanism import Facts, MechanismConfig, Need


class Memoryless(eqx.Module):
    """A balanced mechanism that settles every slot by itself, from contributions alone, and signals 0."""

    needs = frozenset[Need]()
    balanced = True

    def init(self, precision: Float[Array, ""]) -> None:
        """Nothing to remember."""

    def signal_bounds(self) -> tuple[float, float]:
        """No signal but 0."""
        return 0.0, 0.0


class ComparingConfig(MechanismConfig):
    """Options of every mechanism that compares what silos bring, at an intensity that follows a schedule."""

    basis: Annotated[
        Literal["fraction", "samples"],
        Field(description="what transfers compare: shares d of one's data (paper), or absolute samples x"),
    ] = "fraction"
    unit: Annotated[
        float,
        Field(
            strict=True,
            ge=1e-6,
            le=LARGEST,
            description="samples that count as one unit of contribution, under basis samples",
        ),
    ] = 2000.0
    schedule: Annotated[
        ScheduleName,
        Field(description="of α: constant, gain (lagged, smoothed, clamped to [0, α0]), or the paper's printed rule"),
    ] = "constant"
    smoothing: Annotated[
        float, Field(strict=True, ge=0, lt=1, description="weight of the past in the gain schedule's moving average")
    ] = 0.5

    def scaled(self, share: float) -> "ComparingConfig":
        """A unit of contribution stays the same part of a silo's data."""
        return self.model_copy(update={"unit": self.unit * share})

    def compared(self) -> tuple[Float[Array, ""] | None, Schedule]:
        """Samples per unit of contribution, None where shares are compared, and the schedule of α."""
        unit = jnp.asarray(self.unit, dtype=float) if self.basis == "samples" else None
        return unit, Schedule(self.schedule, jnp.asarray(self.smoothing, dtype=float))


class Comparing(eqx.Module):
    """What mechanisms that compare contributions have in common: α0, what it is money for, and how it moves."""

    intensity: Float[Array, "..."]
    """α0."""
    unit: Float[Array, ""] | None = None
    """Samples per unit of contribution under basis `samples`; None is basis `fraction`."""
    schedule: Schedule = eqx.field(default_factory=Schedule)

    balanced = True

    @property
    def needs(self) -> frozenset[Need]:
        """Samples, where they are compared."""
        return frozenset() if self.unit is None else frozenset({"samples"})

    def init(self, precision: Float[Array, ""]) -> Gains:
        return first_gains(precision)

    def at_work(self, state: Gains, facts: Facts) -> tuple[Gains, Float[Array, "..."], Float[Array, " silos"]]:
        """The schedule's next state, this slot's α, and b_n: d_n on basis `fraction`, x_n/unit on basis `samples`."""
        state, factor = self.schedule.step(state, facts.precision)
        if self.unit is None:
            return state, factor * self.intensity, facts.contributions
        assert facts.samples is not None, "basis samples is told them"
        return state, factor * self.intensity, facts.samples / self.unit
