"""A silo's private economics, and how they are drawn."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.scenario.description import Normal, Scenario

__all__ = ["Terms", "counts", "draw", "redraw"]


class Terms(eqx.Module):
    """What each silo earns and pays. Entry n belongs to silo n alone and never reaches another silo."""

    profit: Float[Array, " silos"]
    """p_n: money per unit of precision, precision being a fraction."""
    energy: Float[Array, " silos"]
    """v_n: energy per sample."""
    communication: Float[Array, " silos"]
    """C_n: money per slot."""
    samples: Float[Array, " silos"]
    """|D_n|: local samples."""


def draw(scenario: Scenario, key: PRNGKeyArray | Array) -> Terms:
    """Draw p, v, C and |D| for every silo of the scenario."""
    silos = scenario.silos
    profit, energy, communication, samples = jax.random.split(key, 4)
    # Profit per percentage point is a hundredth of profit per unit: from here on precision is a fraction.
    points = 100.0 if scenario.precision_unit == "percent" else 1.0
    return Terms(
        profit=points * _numbers(silos.profit, silos.count, profit),
        energy=_numbers(silos.energy, silos.count, energy),
        communication=_numbers(silos.communication, silos.count, communication),
        samples=counts(silos.samples, silos.count, samples),
    )


def redraw(scenario: Scenario, terms: Terms, key: PRNGKeyArray | Array) -> Terms:
    """Draw anew the terms that change from slot to slot; the others stay as they are."""
    silos = scenario.silos
    communication, samples = jax.random.split(key)
    if "communication" in silos.redraw:
        numbers = _numbers(silos.communication, silos.count, communication)
        terms = eqx.tree_at(lambda t: t.communication, terms, numbers)
    if "samples" in silos.redraw:
        terms = eqx.tree_at(lambda t: t.samples, terms, counts(silos.samples, silos.count, samples))
    return terms


def _numbers(
    drawn: float | tuple[float, ...] | Normal, count: int, key: PRNGKeyArray | Array
) -> Float[Array, " silos"]:
    """One number per silo: as written, or from the normal distribution truncated to (0, ∞).

    Drawn in single precision whatever the rest is computed in, so that a seed means the same silos everywhere.
    """
    if not isinstance(drawn, Normal):
        return jnp.broadcast_to(jnp.asarray(drawn, dtype=float), (count,))
    if drawn.deviation == 0:
        return jnp.full((count,), drawn.mean)
    standard = jax.random.truncated_normal(key, -drawn.mean / drawn.deviation, jnp.inf, (count,), jnp.float32)
    number = jnp.float32(drawn.mean) + jnp.float32(drawn.deviation) * standard
    return jnp.maximum(number, jnp.float32(1e-6 * drawn.mean)).astype(float)


def counts(drawn: float | tuple[float, ...] | Normal, count: int, key: PRNGKeyArray | Array) -> Float[Array, " silos"]:
    """Samples come whole, and every silo has at least one."""
    return jnp.maximum(jnp.round(_numbers(drawn, count, key)), 1.0)
