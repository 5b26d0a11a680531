"""Runs that differ in numbers only are one compiled program: cells of a grid or of a study, seeds side by side."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from potluck.training.config import RunConfig, seeds_of, setup_one
from potluck.training.job import Job
from potluck.training.lanes import alike, stack
from potluck.training.loop import Setup

Cell = tuple[str, RunConfig]
"""A run, and the text that tells it from the others."""


def programs(
    cells: Sequence[Cell],
    names: tuple[str, ...],
    folder: Path,
    setup: Callable[[RunConfig], Setup] = setup_one,
) -> list[Job]:
    """One job for all cells whose setups differ in numbers only; `names` are the columns of their texts."""
    found = []
    for number, (together, setups) in enumerate(_alike(cells, setup), 1):
        seeds = [np.asarray(seeds_of(config)) for _, config in together]
        job = Job(
            folder=folder / f"program-{number:02d}",
            config=together[0][1],
            lanes=stack([setup for setup, own in zip(setups, seeds, strict=True) for _ in own]),
            seeds=jnp.asarray(np.concatenate(seeds)),
            names=(*names, "seed"),
            labels=tuple(f"{text},{seed}" for (text, _), own in zip(together, seeds, strict=True) for seed in own),
        )
        found.append(job)
    return found


def _alike(cells: Sequence[Cell], setup: Callable[[RunConfig], Setup]) -> Iterator[tuple[list[Cell], list[Setup]]]:
    waiting = [(cell, setup(cell[1])) for cell in cells]
    while waiting:
        first = waiting[0][1]
        fits = [alike(first, setup) for _, setup in waiting]
        together = [pair for pair, fit in zip(waiting, fits, strict=True) if fit]
        waiting = [pair for pair, fit in zip(waiting, fits, strict=True) if not fit]
        yield [cell for cell, _ in together], [setup for _, setup in together]
