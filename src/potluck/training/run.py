"""A run from its first slot, or from where it stopped, to its last."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from potluck.errors import PotluckError
from potluck.training import checkpoints
from potluck.training.checkpoints import Checkpoint
from potluck.training.loop import Runs, begin, mesh_for, place, train
from potluck.training.metrics import header, rows
from potluck.training.plan import Plan, Seated, read_plan, seat, seeds_of, write_plan

__all__ = ["Progress", "Trained", "go_on", "start", "trained"]

METRICS = "metrics.csv"
INTERVAL = 20.0
"""Seconds between checkpoints."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a call of the compiled program: means over seeds of its last window."""

    chunk: int
    chunks: int
    slots: int
    welfare: float
    precision: float
    intensity: float
    contribution: float


@dataclass(frozen=True)
class Trained:
    """A finished or interrupted run, ready to play."""

    plan: Plan
    seated: Seated
    runs: Runs


def start(plan: Plan, folder: Path, *, interval: float = INTERVAL) -> Iterator[Progress]:
    """Begin a run in a folder of its own."""
    if (folder / "run.json").exists():
        raise PotluckError(f"{folder}: holds a run; go on with `potluck resume {folder}` or name another folder")
    seated = seat(plan)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_plan(plan, folder)
        (folder / METRICS).write_text(header(plan.scenario.silos.count), encoding="utf-8")
    except OSError as fault:
        raise PotluckError(f"{folder}: {(fault.strerror or str(fault)).lower()}; name a folder for --out") from None
    return _advance(plan, seated, folder, None, interval)


def go_on(folder: Path, *, interval: float = INTERVAL) -> Iterator[Progress]:
    """Go on from the newest checkpoint that is whole, or from the beginning; what was written since is cut off."""
    plan = read_plan(folder)
    seated = seat(plan)
    checkpoint = checkpoints.latest(folder / "checkpoints", _like(plan, seated))
    kept = checkpoint.metrics if checkpoint else len(header(plan.scenario.silos.count))
    with (folder / METRICS).open("r+b") as file:
        file.truncate(kept)
    return _advance(plan, seated, folder, checkpoint, interval)


def trained(folder: Path) -> Trained:
    """What a run has learnt, as of its newest checkpoint."""
    plan = read_plan(folder)
    seated = seat(plan)
    checkpoint = checkpoints.latest(folder / "checkpoints", _like(plan, seated))
    if checkpoint is None:
        raise PotluckError(f"{folder}: nothing learnt yet; go on with `potluck resume {folder}`")
    return Trained(plan, seated, jax.tree.map(jnp.asarray, checkpoint.runs))


def _like(plan: Plan, seated: Seated) -> Runs:
    return eqx.filter_eval_shape(  # type: ignore[no-any-return]
        lambda environment: begin(environment, seated.learner, seeds_of(plan), plan.games), seated.environment
    )


def _advance(
    plan: Plan, seated: Seated, folder: Path, checkpoint: Checkpoint | None, interval: float
) -> Iterator[Progress]:
    mesh, seeds = mesh_for(plan.games), seeds_of(plan)
    if checkpoint is None:
        runs, done = begin(seated.environment, seated.learner, seeds, plan.games), 0
    else:
        runs, done = place(checkpoint.runs, mesh), checkpoint.chunk
    fixed = (seated.environment, seated.learner, seeds, mesh, plan.depth, plan.chunk)
    per_chunk, saved = plan.depth * plan.chunk, time.monotonic()
    while done < plan.chunks:
        runs, report = train(fixed, runs, jnp.asarray(done * per_chunk))
        check_finite(runs.learned, seeds, (done + 1) * per_chunk * plan.games, folder)
        with (folder / METRICS).open("a", encoding="utf-8") as file:
            file.write(rows(report, np.asarray(seeds), done * per_chunk * plan.games, plan.depth * plan.games))
        done += 1
        if done == plan.chunks or time.monotonic() - saved >= interval:
            size = (folder / METRICS).stat().st_size
            checkpoints.save(folder / "checkpoints", Checkpoint(runs, done, size))
            saved = time.monotonic()
        yield _progress(plan, done, report)


def check_finite(learned: Any, seeds: Any, slot: int, folder: Path) -> None:
    """Stop at the first parameter that is not a finite number; the last good checkpoint stays."""
    for leaf in jax.tree.leaves(eqx.filter(learned, eqx.is_inexact_array)):
        numbers = np.asarray(leaf)
        good = np.isfinite(numbers) | (numbers == -np.inf)  # Greedy has earned nothing yet
        if not good.all():
            seed, silo = np.argwhere(~good)[0][:2]
            raise PotluckError(
                f"{folder}: silo {silo} of seed {int(seeds[seed])} learnt a value that is no number by slot {slot}; "
                "the last good checkpoint is kept"
            )


def _progress(plan: Plan, done: int, report: Any) -> Progress:
    last = [float(np.asarray(part)[-1].mean()) for part in
            (report.welfare, report.precision, report.intensity, report.contributions)]  # fmt: skip
    return Progress(done, plan.chunks, done * plan.chunk * plan.depth * plan.games, *last)
