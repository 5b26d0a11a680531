"""Random stage games: unequal silos, every form of the mechanism, a strictly concave law of precision."""

from collections.abc import Iterator

import equinox as eqx
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
from hypothesis import settings
from hypothesis.extra.numpy import arrays
from jaxtyping import Array, Float

from potluck.economy import StageGame, Terms
from potluck.mechanisms import Redistribution


class Concave(eqx.Module):
    """P(d) = s·(1 − exp(−w·d)) + (1 − s)·mean_n log(1 + 9d_n)/log 10: increasing, jointly strictly concave."""

    weights: Float[Array, " silos"]
    shared: Float[Array, ""]

    def __call__(self, contributions: Float[Array, " silos"]) -> Float[Array, ""]:
        total = 1 - jnp.exp(-self.weights @ contributions)
        return self.shared * total + (1 - self.shared) * jnp.mean(jnp.log1p(9 * contributions)) / jnp.log(10.0)


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


@st.composite
def contributions(draw: st.DrawFn, silos: int) -> Float[Array, " silos"]:
    return jnp.asarray(draw(arrays(np.float64, silos, elements=numbers(0, 1))))


THOROUGH = settings().max_examples >= 500
SIZES = (2, 3, 5, 8, 12) if THOROUGH else (2, 5, 12)
"""Every size is compiled anew, so the solvers are tested on a few between 2 and 12."""
ALL_SIZES = tuple(range(2, 13)) if THOROUGH else SIZES


@st.composite
def games(draw: st.DrawFn, sizes: tuple[int, ...] = ALL_SIZES, pairs: bool = True) -> StageGame:
    silos = draw(st.sampled_from(sizes))

    def each(low: float, high: float) -> Float[Array, " silos"]:
        return jnp.asarray(draw(arrays(np.float64, silos, elements=numbers(low, high))))

    terms = Terms(each(100, 2000), each(0.1, 8), each(0, 5), jnp.round(each(100, 4000)))
    intensity = jnp.asarray(draw(numbers(0, 60)))
    if pairs:
        uniform = np.full((silos, silos), float(intensity))
        matrix = np.triu(
            uniform if draw(st.booleans()) else draw(arrays(np.float64, (silos,) * 2, elements=numbers(0, 60))), 1
        )
        intensity = jnp.asarray(matrix + matrix.T)
    unit = jnp.asarray(2000.0) if draw(st.booleans()) else None
    law = Concave(each(0.05, 3), jnp.asarray(draw(numbers(0.1, 0.9))))
    return StageGame(terms, jnp.asarray(draw(numbers(0.0005, 0.05))), Redistribution(intensity, unit), law)


@st.composite
def unequal_games(draw: st.DrawFn, sizes: tuple[int, ...], apart: float, decades: int = 0) -> StageGame:
    """Silos whose terms are up to a factor `apart`; profits `decades` more, C up to 1e14 times the profit if any."""
    silos = draw(st.sampled_from(sizes))

    def each(middle: float, factor: float) -> Float[Array, " silos"]:
        exponents = draw(arrays(np.float64, silos, elements=numbers(-0.5, 0.5), unique=silos > 2))
        return jnp.asarray(middle * factor**exponents)

    profit = each(1000, apart * 10.0**decades)
    fixed = profit * (each(1e7, 1e14) if decades else 0.0)
    terms = Terms(profit, each(4, apart), fixed, jnp.round(each(2000, apart)))
    law = Concave(each(3 / silos, apart), jnp.asarray(draw(numbers(0.1, 0.9))))
    price = jnp.asarray(10 ** draw(numbers(-3.3, -1.3)))
    return StageGame(terms, price, Redistribution(jnp.asarray(draw(numbers(0, 60)))), law)


def unilateral_deviations(game: StageGame, played: Array, instead: Array) -> Iterator[tuple[int, Array]]:
    """Every silo in turn plays what it would have played `instead`."""
    for silo in range(len(game.terms.profit)):
        yield silo, played.at[silo].set(instead[silo])
