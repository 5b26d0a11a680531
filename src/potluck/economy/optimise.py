"""Two small maximisers on boxes, compiled and batchable: by values alone on a segment, by Newton steps on [0, 1]^N."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

__all__ = ["maximise_on_box", "maximise_on_segment"]

RESOLUTION = 2.4e-10
"""Share of a segment to which its maximum is found, about the square root of double precision's own."""
HALVINGS = 0.5 ** np.arange(-1, 45)
"""Step lengths tried at once by a line search, longest first."""


class _Zoom(NamedTuple):
    low: Float[Array, ""]
    high: Float[Array, ""]
    best: Float[Array, ""]
    value: Float[Array, ""]
    spread: Float[Array, ""]


def maximise_on_segment(
    function: Callable[[Float[Array, ""]], Float[Array, ""]], grid: Float[Array, " points"], tie: float = 0.0
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Find argmax and max of a function between the ends of an ascending grid, from its values alone.

    The grid finds the hill, finer grids around its best point the top; corners are on the grid, so a maximum there is
    found exactly. Points that miss the best by less than `tie` of the function's spread are as good as it, and the
    smallest of them is taken: the edge of a plateau.
    """
    points = len(grid)

    def look(number: Int[Array, ""] | int, at: _Zoom) -> _Zoom:
        finer = jnp.where(number == 0, grid, jnp.linspace(at.low, at.high, points))
        values = jax.vmap(function)(finer)
        spread = jnp.maximum(at.spread, jnp.ptp(values))
        best = jnp.argmax(values >= values.max() - tie * spread)
        as_good = (values[best] >= at.value - tie * spread) & (finer[best] < at.best)
        better = (values[best] > at.value + tie * spread) | as_good
        return _Zoom(
            low=finer[jnp.maximum(best - 1, 0)],
            high=finer[jnp.minimum(best + 1, points - 1)],
            best=jnp.where(better, finer[best], at.best),
            value=jnp.where(better, values[best], at.value),
            spread=spread,
        )

    nothing = _Zoom(grid[0], grid[-1], grid[-1], jnp.full_like(grid[0], -jnp.inf), jnp.zeros_like(grid[0]))
    # A look keeps two of the grid's cells. More looks than this would tell apart payoffs that only rounding does.
    looks = math.ceil(math.log(RESOLUTION) / math.log(2 / (points - 1)))
    found = jax.lax.fori_loop(0, looks, look, nothing)
    return found.best, found.value


class _Climb(NamedTuple):
    point: Float[Array, " n"]
    value: Float[Array, ""]
    steps: Int[Array, ""]
    climbing: Bool[Array, ""]


def maximise_on_box(
    function: Callable[[Float[Array, " n"]], Float[Array, ""]], start: Float[Array, " n"], limit: int = 200
) -> Float[Array, " n"]:
    """Climb a differentiable function on [0, 1]^N from `start`; the global maximum where it is concave.

    Projected Newton: coordinates held at a bound by the gradient are fixed, the others move by |H|⁻¹g, where |H| has
    the Hessian's eigenvalues made positive, along the longest of many halved steps (projected on the box) that gains
    most. Directions without curvature, common when precision depends on total data only, run straight to a bound.
    """
    gradient, hessian = jax.grad(function), jax.hessian(function)

    def climb(at: _Climb) -> _Climb:
        slope = gradient(at.point)
        free = ~(((at.point <= 0) & (slope <= 0)) | ((at.point >= 1) & (slope >= 0)))
        slope = jnp.where(free, slope, 0.0)
        curvature, axes = jnp.linalg.eigh(jnp.where(free[:, None] & free[None, :], hessian(at.point), 0.0))
        floor = np.finfo(slope.dtype).eps * jnp.maximum(jnp.max(jnp.abs(curvature)), jnp.max(jnp.abs(slope))) + 1e-30
        newton = axes @ ((axes.T @ slope) / jnp.maximum(jnp.abs(curvature), floor))
        steepest = slope / jnp.maximum(jnp.max(jnp.abs(slope)), 1e-30)
        halved = jnp.asarray(HALVINGS, at.point.dtype)[:, None]
        paths = jnp.concatenate([at.point + halved * jnp.where(free, newton, 0.0), at.point + halved * steepest])
        points = jnp.clip(paths, 0.0, 1.0)
        values = jax.vmap(function)(points)
        best = jnp.argmax(values)
        better = values[best] > at.value
        return _Climb(
            point=jnp.where(better, points[best], at.point),
            value=jnp.where(better, values[best], at.value),
            steps=at.steps + 1,
            climbing=better & (at.steps + 1 < limit),
        )

    begun = _Climb(start, function(start), jnp.asarray(0), jnp.asarray(True))
    return jax.lax.while_loop(lambda at: at.climbing, climb, begun).point
