"""A silo's private economics, and how they are drawn."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, PRNGKeyArray

from potluck.scenario.fields import Normal

if TYPE_CHECKING:
    from potluck.scenario.description import Scenario


class Terms(eqx.Module):
    """What each silo earns and pays. Entry n belongs to silo n alone and never reaches another silo."""

    profit: Float[Array, "*silos"]
    """p_n: money per unit of precision, precision being a fraction."""
    energy: Float[Array, "*silos"]
    """v_n: energy per sample."""
    communication: Float[Array, "*silos"]
    """C_n: money per slot."""
    samples: Float[Array, "*silos"]
    """|D_n|: local samples."""


class Drawn(eqx.Module):
    """One number per silo: as written where the deviation is 0, else from N(mean, deviation²) truncated to (0, ∞).

    Drawn in single precision whatever the rest is computed in, so that a seed means the same silos everywhere.
    """

    mean: Float[Array, " silos"]
    deviation: Float[Array, " silos"]
    lowest: Float32[Array, " silos"]
    """−mean/deviation, where the standard normal is cut off."""

    @classmethod
    def of(cls, numbers: float | tuple[float, ...] | Normal, count: int) -> "Drawn":
        """As a scenario writes it: a constant, one number per silo, or a distribution."""
        normal = numbers if isinstance(numbers, Normal) else None
        mean, deviation = (numbers, 0.0) if normal is None else (normal.mean, normal.deviation)
        lowest = -normal.mean / normal.deviation if normal and normal.deviation else -1.0
        return cls(
            mean=jnp.broadcast_to(jnp.asarray(mean, dtype=float), (count,)),
            deviation=jnp.full(count, deviation, dtype=float),
            lowest=jnp.full(count, lowest, jnp.float32),
        )

    def draw(self, key: PRNGKeyArray | Array) -> Float[Array, " silos"]:
        mean, deviation = self.mean.astype(jnp.float32), self.deviation.astype(jnp.float32)
        standard = jax.random.truncated_normal(key, self.lowest, jnp.inf, self.mean.shape, jnp.float32)
        number = jnp.maximum(mean + deviation * standard, np.float32(1e-6) * mean)
        return jnp.where(self.deviation > 0, number.astype(self.mean.dtype), self.mean)


def counts(drawn: Drawn, key: PRNGKeyArray | Array) -> Float[Array, " silos"]:
    """Samples come whole, and every silo has at least one."""
    return jnp.maximum(jnp.round(drawn.draw(key)), 1.0)


class TermsDraw(eqx.Module):
    """How p, v, C and |D| are drawn, once for a run or a game; those that `redraw` names, anew in every slot."""

    profit: Drawn
    energy: Drawn
    communication: Drawn
    samples: Drawn
    points: Float[Array, ""]
    """100 where profit is paid per percentage point: from here on precision is a fraction."""
    redraw: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def from_scenario(cls, scenario: "Scenario") -> "TermsDraw":
        silos = scenario.silos
        return cls(
            profit=Drawn.of(silos.profit, silos.count),
            energy=Drawn.of(silos.energy, silos.count),
            communication=Drawn.of(silos.communication, silos.count),
            samples=Drawn.of(silos.samples, silos.count),
            points=jnp.asarray(100.0 if scenario.precision_unit == "percent" else 1.0),
            redraw=silos.redraw,
        )

    def draw(self, key: PRNGKeyArray | Array) -> Terms:
        """Draw p, v, C and |D| for every silo."""
        profit, energy, communication, samples = jax.random.split(key, 4)
        return Terms(
            profit=self.points * self.profit.draw(profit),
            energy=self.energy.draw(energy),
            communication=self.communication.draw(communication),
            samples=counts(self.samples, samples),
        )

    def next(self, terms: Terms, key: PRNGKeyArray | Array) -> Terms:
        """The same silos in the next slot."""
        communication, samples = jax.random.split(key)
        if "communication" in self.redraw:
            terms = eqx.tree_at(lambda t: t.communication, terms, self.communication.draw(communication))
        if "samples" in self.redraw:
            terms = eqx.tree_at(lambda t: t.samples, terms, counts(self.samples, samples))
        return terms
