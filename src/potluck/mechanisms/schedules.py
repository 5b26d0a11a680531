"""How the intensity of redistribution moves from slot to slot, as pure state updates.

A schedule is asked once a slot, when its precision has been measured and before it is settled.
It answers with the factor by which α0 is multiplied in this slot.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

ScheduleName: TypeAlias = Literal["gain", "constant", "printed"]


class Gains(eqx.Module):
    """A schedule's memory: last precision, and the (smoothed) gains of the last slot and the one before."""

    precision: Float[Array, ""]
    gain: Float[Array, ""]
    previous_gain: Float[Array, ""]
    slots: Int[Array, ""]


def first_gains(precision: Float[Array, ""]) -> Gains:
    """Nothing gained yet; `precision` is that of the untrained model."""
    precision = jnp.asarray(precision)
    return Gains(precision, jnp.zeros_like(precision), jnp.zeros_like(precision), jnp.asarray(0))


Rule: TypeAlias = Callable[[Gains, Float[Array, ""], Float[Array, ""]], tuple[Gains, Float[Array, ""]]]


def constant(gains: Gains, precision: Float[Array, ""], smoothing: Float[Array, ""]) -> tuple[Gains, Float[Array, ""]]:
    """α[t] = α0."""
    return _remember(gains, precision, jnp.zeros_like(smoothing)), jnp.ones_like(precision)


def printed(gains: Gains, precision: Float[Array, ""], smoothing: Float[Array, ""]) -> tuple[Gains, Float[Array, ""]]:
    """α[t] = (P[t] − P[t−1]) / (P[t−1] − P[t−2]) · α0, as the paper prints it, raw.

    It depends on this slot's P and so on this slot's contributions, which breaks the potential; it turns negative
    and explodes on noisy precision. The first two slots, and those after a gain of exactly zero, keep α0.
    """
    after = _remember(gains, precision, jnp.zeros_like(smoothing))
    defined = (gains.slots >= 2) & (after.previous_gain != 0)
    factor = jnp.where(defined, after.gain / jnp.where(defined, after.previous_gain, 1.0), 1.0)
    return after, factor


def gain(gains: Gains, precision: Float[Array, ""], smoothing: Float[Array, ""]) -> tuple[Gains, Float[Array, ""]]:
    """α[t] = α0 · clip(ḡ[t−1] / ḡ[t−2], 0, 1), ḡ[t] = s·ḡ[t−1] + (1−s)·(P[t] − P[t−1]).

    The printed rule, mended: lagged, so that α does not depend on this slot's contributions and the potential stays
    exact; smoothed, so that noise does not rule it; clamped to [0, α0]. A gain that returns after a loss restores α0.
    """
    rising = gains.previous_gain > 0
    ratio = jnp.where(
        rising, gains.gain / jnp.where(rising, gains.previous_gain, 1.0), jnp.where(gains.gain > 0, 1.0, 0.0)
    )
    factor = jnp.where(gains.slots >= 2, jnp.clip(ratio, 0.0, 1.0), 1.0)
    return _remember(gains, precision, smoothing), factor


def _remember(gains: Gains, precision: Float[Array, ""], smoothing: Float[Array, ""]) -> Gains:
    step = precision - gains.precision
    smoothed = jnp.where(gains.slots == 0, step, smoothing * gains.gain + (1 - smoothing) * step)
    return Gains(precision, smoothed.astype(gains.gain.dtype), gains.gain, gains.slots + 1)


RULES: dict[ScheduleName, Rule] = {"gain": gain, "constant": constant, "printed": printed}


class Schedule(eqx.Module):
    """A rule by its name, and s, the weight of the past in the gain rule's moving average."""

    name: ScheduleName = eqx.field(static=True, default="constant")
    smoothing: Float[Array, ""] = eqx.field(default_factory=lambda: jnp.asarray(0.5, dtype=float))

    def step(self, gains: Gains, precision: Float[Array, ""]) -> tuple[Gains, Float[Array, ""]]:
        """The factor on α0 in the slot that reached this precision, and what is remembered of it."""
        return RULES[self.name](gains, precision, self.smoothing)

    def bounds(self, intensity: float) -> tuple[float, float]:
        """The bounds of α: none are known for the printed rule; the others keep it in [0, α0]."""
        return (float("-inf"), float("inf")) if self.name == "printed" else (0.0, intensity)
