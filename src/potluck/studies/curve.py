"""Precision against contribution, measured: what the theory's curve is fitted to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from potluck.errors import PotluckError
from potluck.federation import FedAvg, run, shard
from potluck.studies.intervals import Interval, interval

GRID = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Point:
    """Every silo keeps to one contribution for a whole game; measured with several seeds."""

    contribution: float
    contributions: tuple[float, ...]
    samples: float
    """Σ_n d_n·|D_n|, what is trained on in a slot."""
    precision: Float[np.ndarray, "seeds slots"]

    @property
    def sustained(self) -> Interval:
        """Mean precision over the slots of a game: what the game pays for."""
        return interval(self.precision.mean(axis=1))

    @property
    def final(self) -> Interval:
        """Precision after the last slot."""
        return interval(self.precision[:, -1])


@dataclass(frozen=True)
class Measured:
    """Precision when all contribute alike, and when one silo moves and the others stay."""

    common: list[Point]
    own: list[Point]
    others: float
    initial: float


def measure(
    federation: Callable[[int], FedAvg],
    *,
    seeds: int = 5,
    slots: int = 30,
    grid: Sequence[float] = GRID,
    others: float = 0.5,
    progress: Callable[[int, int], None] | None = None,
) -> Measured:
    """Play every contribution of the grid with every seed; `federation(seed)` gives the data as that seed splits it.

    Along the second axis silo 0 contributes what the grid says, and 0 besides, while the others give `others`.
    """
    if seeds < 1:
        raise PotluckError(f"must be 1 or more, got {seeds}", field="seeds")
    runs: dict[tuple[float, ...], list[np.ndarray]] = {}
    initial, done = [], 0
    for seed in range(seeds):
        fed = federation(seed)
        source = shard(fed)
        sizes = np.asarray(fed.init(jax.random.key(seed)).window.size)
        common = {d: (float(d),) * len(sizes) for d in grid}
        own = {d: (float(d),) + (others,) * (len(sizes) - 1) for d in (0.0, *grid)}
        plays = list(dict.fromkeys([*common.values(), *own.values()]))
        for play in plays:
            trace = run(source, np.array(play), jax.random.key(seed), slots)
            runs.setdefault(play, []).append(np.asarray(trace.precision))
            done += 1
            if progress is not None:
                progress(done, seeds * len(plays))
        initial.append(float(trace.initial))

    def points(plays: dict[float, tuple[float, ...]]) -> list[Point]:
        return [Point(d, play, float(np.dot(play, sizes)), np.stack(runs[play])) for d, play in plays.items()]

    return Measured(points(common), points(own), others, float(np.mean(initial)))
