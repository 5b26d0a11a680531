"""Small maximisers on boxes, compiled and batchable: by values alone on a segment, by Newton steps on [0, 1]^N."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

RESOLUTION = 2.4e-10
"""Share of a segment to which its maximum is found, about the square root of double precision's own."""
HALVINGS = 0.5 ** np.arange(-1, 45)
"""Step lengths tried at once by a line search, longest first."""


class _Zoom(NamedTuple):
    low: Float[Array, ""]
    high: Float[Array, ""]
    best: Float[Array, ""]
    value: Float[Array, ""]


def maximise_on_segment(
    function: Callable[[Float[Array, ""]], Float[Array, ""]], grid: Float[Array, " points"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Find argmax and max of a function between the ends of an ascending grid, from its values alone.

    The grid finds the hill, finer grids around its best point the top; corners are on the grid, so a maximum there is
    found exactly. The smallest of equally good points is taken.
    """
    points = len(grid)

    def look(number: Int[Array, ""] | int, at: _Zoom) -> _Zoom:
        finer = jnp.where(number == 0, grid, jnp.linspace(at.low, at.high, points))
        values = jax.vmap(function)(finer)
        best = jnp.argmax(values)
        better = (values[best] > at.value) | ((values[best] == at.value) & (finer[best] < at.best))
        return _Zoom(
            low=finer[jnp.maximum(best - 1, 0)],
            high=finer[jnp.minimum(best + 1, points - 1)],
            best=jnp.where(better, finer[best], at.best),
            value=jnp.where(better, values[best], at.value),
        )

    nothing = _Zoom(grid[0], grid[-1], grid[-1], jnp.full_like(grid[0], -jnp.inf))
    # A look keeps two of the grid's cells. More looks than this would tell apart payoffs that only rounding does.
    looks = math.ceil(math.log(RESOLUTION) / math.log(2 / (points - 1)))
    found = jax.lax.fori_loop(0, looks, look, nothing)
    return found.best, found.value


class _Seen(NamedTuple):
    """Points in ascending order, those yet to come (at infinity) last; what the function says there."""

    points: Float[Array, " seen"]
    values: Float[Array, " seen"]
    places: Float[Array, "seen n"]


def smallest_of_the_best(
    function: Callable[[Float[Array, ""]], tuple[Float[Array, ""], Float[Array, " n"]]],
    grid: Float[Array, " points"],
    tie: float,
    halvings: int = 12,
    looks: int = 10,
    each: int = 17,
) -> Float[Array, ""]:
    """The smallest point between the ends of a grid that misses no more than `tie` of the gain over its beginning.

    For a function with many hills. It says its value and where it stands, in the value's unit, and jumps only where
    that place does: so a cell may hide a value above its ends by what the place moves across it (half of that was
    enough in all that was measured). Round after round the cells that may hide most are halved; then finer grids
    look for the top beside the best point, and for the edge of what is as good before the first such point.
    """
    spare, ends = (halvings + looks) * each, grid[-1]
    size = len(grid) + spare + -len(grid) % each
    asked = jnp.full(size - spare, jnp.inf, grid.dtype).at[: len(grid)].set(grid).reshape(-1, each)
    kind, places = jax.eval_shape(function, grid[0])
    begun = _Seen(
        jnp.full(size, jnp.inf, grid.dtype),
        jnp.full(size, -jnp.inf, kind.dtype),
        jnp.zeros((size, *places.shape), places.dtype),
    )

    def first_as_good(values: Float[Array, " seen"]) -> Int[Array, ""]:
        best = values.max()
        rounding = 16 * np.finfo(values.dtype).eps * jnp.abs(best)
        return jnp.argmax(values >= best - tie * (best - values[0]) - rounding)

    def halves(seen: _Seen) -> Float[Array, " each"]:
        moved = jnp.abs(jnp.diff(seen.places, axis=0)).sum(axis=1)
        low, high = seen.points[:-1], seen.points[1:]
        wide = jnp.isfinite(high) & (high - low > RESOLUTION * ends)
        hidden = jnp.where(wide, jnp.maximum(seen.values[:-1], seen.values[1:]) + moved / 2, -jnp.inf)
        _, chosen = jax.lax.top_k(hidden, each)
        return jnp.where(wide[chosen], (low[chosen] + high[chosen]) / 2, jnp.inf)

    def finer(seen: _Seen) -> Float[Array, " each"]:
        def inside(low: Array, high: Array, count: int) -> Array:
            cell = seen.points[jnp.maximum(low, 0)], jnp.minimum(seen.points[high], ends)
            return jnp.linspace(*cell, count + 2)[1:-1]

        top, edge = jnp.argmax(seen.values), first_as_good(seen.values)
        return jnp.concatenate([inside(top - 1, top + 1, each // 2), inside(edge - 1, edge, each - each // 2)])

    def look(number: Int[Array, ""], seen: _Seen) -> _Seen:
        kind = (number >= len(asked)).astype(int) + (number >= len(asked) + halvings)
        points = jax.lax.switch(kind, [lambda _: asked[jnp.minimum(number, len(asked) - 1)], halves, finer], seen)
        real = jnp.isfinite(points)
        values, places = jax.vmap(function)(jnp.where(real, points, grid[0]))
        fresh = _Seen(points, jnp.where(real, values, -jnp.inf), places)
        grown = jax.tree.map(
            lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, number * each, 0),
            seen,
            fresh,
        )
        order = jnp.argsort(grown.points)
        ascending: _Seen = jax.tree.map(lambda leaf: leaf[order], grown)
        return ascending

    seen: _Seen = jax.lax.fori_loop(0, size // each, look, begun)
    return seen.points[first_as_good(seen.values)]


class _Climb(NamedTuple):
    point: Float[Array, " n"]
    promise: Float[Array, ""]
    """What the last step promised to gain, where values could not tell; infinite where they could."""
    steps: Int[Array, ""]
    climbing: Bool[Array, ""]


def maximise_on_box(
    gain: Callable[[Float[Array, " n"], Float[Array, " n"]], Float[Array, ""]],
    start: Float[Array, " n"],
    limit: int = 200,
) -> Float[Array, " n"]:
    """Climb a differentiable function on [0, 1]^N from `start`; the global maximum where it is concave.

    The function is told by its differences, `gain(here, there)`, of a size near 1, so that what is large and stays the
    same drowns nothing. Projected Newton: coordinates held at a bound by the gradient are fixed, the others move by
    |H|⁻¹g, where |H| has the Hessian's eigenvalues made positive, along the longest of many halved steps (projected on
    the box) that gains most. Directions without curvature, common when precision depends on total data only, run
    straight to a bound. Where gains are but rounding, whole steps go on while g·|H|⁻¹g falls: gradients tell more.
    """

    def climb(at: _Climb) -> _Climb:
        def rise(point: Float[Array, " n"]) -> Float[Array, ""]:
            return gain(at.point, point)

        slope = jax.grad(rise)(at.point)
        free = ~(((at.point <= 0) & (slope <= 0)) | ((at.point >= 1) & (slope >= 0)))
        slope = jnp.where(free, slope, 0.0)
        curvature, axes = jnp.linalg.eigh(jnp.where(free[:, None] & free[None, :], jax.hessian(rise)(at.point), 0.0))
        sharpness, along = jnp.abs(curvature), axes.T @ slope
        floor = eps * jnp.maximum(jnp.max(sharpness), jnp.max(jnp.abs(slope))) + 1e-30
        newton = axes @ (along / jnp.maximum(sharpness, floor))
        steepest = slope / jnp.maximum(jnp.max(jnp.abs(slope)), 1e-30)
        halved = jnp.asarray(HALVINGS, at.point.dtype)[:, None]
        paths = jnp.concatenate([at.point + halved * jnp.where(free, newton, 0.0), at.point + halved * steepest])
        points = jnp.clip(paths, 0.0, 1.0)
        values = jax.vmap(rise)(points)
        best = jnp.argmax(values)
        gains = values[best] > 4 * eps
        sharp = sharpness > jnp.sqrt(eps) * jnp.max(sharpness)
        exact = jnp.where(sharp, along / jnp.where(sharp, sharpness, 1.0), 0.0)
        promise = along @ exact
        nears = ~gains & (promise < at.promise / 4)
        settled = jnp.where(nears, jnp.clip(at.point + jnp.where(free, axes @ exact, 0.0), 0.0, 1.0), at.point)
        return _Climb(
            point=jnp.where(gains, points[best], settled),
            promise=jnp.where(gains, jnp.inf, promise),
            steps=at.steps + 1,
            climbing=(gains | nears) & (at.steps + 1 < limit),
        )

    eps = jnp.asarray(np.finfo(start.dtype).eps, start.dtype)
    begun = _Climb(start, jnp.asarray(jnp.inf, start.dtype), jnp.asarray(0), jnp.asarray(True))
    return jax.lax.while_loop(lambda at: at.climbing, climb, begun).point
