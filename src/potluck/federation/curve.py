"""A concave saturating precision law, for theory and tests: slot by slot, and on average over a whole game."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from potluck.errors import PotluckError
from potluck.federation.source import Measurement
from potluck.scenario import CurvePrecision, Drawn
from potluck.scenario.terms import counts


class Curve(eqx.Module):
    """P(K) = ceiling − (ceiling − initial)·(1 + K/scale)^(−exponent), K the samples trained on so far.

    Increasing and concave in K. On real FedAvg this is what learning curves of different contributions have in common:
    plotted against K they fall on one line.
    """

    initial: Float[Array, ""]
    ceiling: Float[Array, ""]
    scale: Float[Array, ""]
    exponent: Float[Array, ""]

    def level(self, trained: Float[Array, "..."]) -> Float[Array, "..."]:
        """Precision after `trained` samples in all."""
        return self.ceiling - (self.ceiling - self.initial) * (1 + trained / self.scale) ** -self.exponent


class Progress(eqx.Module):
    """K, the samples trained on so far, and the |D_n[t]| that the next contributions refer to."""

    trained: Float[Array, ""]
    samples: Float[Array, " silos"]


class CurveSource(eqx.Module):
    """The law slot by slot, as a precision source: every slot adds Σ_n d_n·|D_n| to K."""

    curve: Curve
    held: Float[Array, " silos"]
    """|D_n|, where `drawn` does not say how it is drawn."""
    drawn: Drawn | None = None
    every_slot: bool = eqx.field(static=True, default=False)
    """Whether sizes are drawn anew in every slot, or once for a game."""

    def init(self, key: PRNGKeyArray | Array) -> Progress:
        samples = self.held if self.drawn is None else counts(self.drawn, key)
        return Progress(trained=jnp.zeros_like(self.curve.scale), samples=samples)

    def samples(self, state: Progress) -> Float[Array, " silos"]:
        return state.samples

    def measure(self, state: Progress) -> Float[Array, ""]:
        return self.curve.level(state.trained)

    def train(
        self,
        state: Progress,
        contributions: Float[Array, " silos"],
        key: PRNGKeyArray | Array,
        *,
        marginal: bool = False,
    ) -> tuple[Progress, Measurement]:
        """One slot: the samples contributed join those trained on before; the new state and P."""
        trained = state.trained + contributions @ state.samples
        samples = self.init(key).samples if self.every_slot else state.samples
        reached = self.curve.level(trained)
        without = reached - self.curve.level(trained - contributions * state.samples) if marginal else None
        return Progress(trained, samples), Measurement(reached, without)


class MeanCurve(eqx.Module):
    """P(d) of the stage game: mean precision over a game of `slots` slots in which every silo keeps contributing d."""

    curve: Curve
    samples: Float[Array, " silos"]
    slots: int = eqx.field(static=True)

    def __call__(self, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
        """P(d) = (1/T) Σ_{t=1..T} P(t·Σ_n d_n|D_n|)."""
        return jnp.mean(self.curve.level(self._trained(contributions)))

    def marginal(self, contributions: Float[Array, " silos"]) -> Float[Array, " silos"]:
        """(1/T) Σ_t [P(tK) − P(tK − d_n|D_n|)]: what a slot's model would lose without silo n's update of that slot."""
        trained = self._trained(contributions)
        without = self.curve.level(trained - (contributions * self.samples)[:, None])
        return jnp.mean(self.curve.level(trained) - without, axis=1)

    def _trained(self, contributions: Float[Array, " silos"]) -> Float[Array, " slots"]:
        return jnp.arange(1, self.slots + 1) * (contributions @ self.samples)


def curve(config: CurvePrecision) -> Curve:
    """Build the law that a scenario describes."""
    return Curve(
        initial=jnp.asarray(config.initial, dtype=float),
        ceiling=jnp.asarray(config.ceiling, dtype=float),
        scale=jnp.asarray(config.scale, dtype=float),
        exponent=jnp.asarray(config.exponent, dtype=float),
    )


def fit(contributed: np.ndarray, precision: np.ndarray, slots: int, initial: float) -> CurvePrecision:
    """Least squares of mean precision over a game against the samples contributed in each of its slots.

    Both arrays have one entry per sustained contribution: Σ_n d_n|D_n|, and the measured mean over `slots` slots.
    """
    from scipy.optimize import least_squares  # 0.4 s that only a fit should cost

    trained = np.arange(1, slots + 1) * np.asarray(contributed)[:, None]

    def residuals(parameters: np.ndarray) -> np.ndarray:
        ceiling, log_scale, exponent = parameters
        levels = ceiling - (ceiling - initial) * (1 + trained / np.exp(log_scale)) ** -exponent
        return np.asarray(levels.mean(axis=1) - precision)

    if not initial < 1:
        raise PotluckError(f"precision is {initial:g} before any training, which leaves nothing to fit")
    begun = (max(0.9, (1 + initial) / 2), np.log(np.median(contributed)), 0.5)
    found = least_squares(residuals, begun, bounds=((initial, -5.0, 0.01), (1.0, 25.0, 10.0)), xtol=1e-14, ftol=1e-14)
    ceiling, log_scale, exponent = map(float, found.x)
    return CurvePrecision(initial=initial, ceiling=ceiling, scale=float(np.exp(log_scale)), exponent=exponent)
