"""A run from its first slot, or from where it stopped, to its last."""

import contextlib
import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from potluck.agents import Environment
from potluck.errors import PotluckError
from potluck.training import checkpoints
from potluck.training.checkpoints import Checkpoint
from potluck.training.loop import Course, Runs, begin, first, mesh_for, place, train
from potluck.training.metrics import header, rows
from potluck.training.plan import RUN, SCENARIO, Plan, Seated, read_plan, seat, seeds_of, write_plan

__all__ = ["Progress", "Trained", "claimed", "go_on", "start", "trained"]

METRICS = "metrics.csv"
CHECKPOINTS = "checkpoints"
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
    slots: int = 0
    """That each seed has learnt from."""
    finished: bool = True

    def row(self, seed: int) -> int:
        """Where a seed's arrays are."""
        first = self.plan.scenario.seed
        if not first <= seed < first + self.plan.seeds:
            raise PotluckError(
                f"--seed must be one that was trained: {first} to {first + self.plan.seeds - 1}, got {seed}"
            )
        return seed - first

    def of_seed(self, seed: int) -> tuple[Environment, Any]:
        """One seed's environment, and what its players have learnt."""
        row = self.row(seed)
        arrays, rest = eqx.partition(self.seated.environment, eqx.is_array)
        environment: Environment = eqx.combine(jax.tree.map(lambda leaf: leaf[row], arrays), rest)
        return environment, jax.tree.map(lambda leaf: leaf[row], self.runs.learned)


def start(plan: Plan, folder: Path, *, interval: float = INTERVAL) -> Generator[Progress]:
    """Begin a run in a folder of its own; closing what is returned keeps what is learnt so far."""
    if (folder / RUN).exists():
        raise PotluckError(f"{folder}: holds a run; go on with `potluck resume {folder}` or name another folder")
    for file in (folder / METRICS, folder / SCENARIO):
        if file.exists():
            raise PotluckError(f"{file}: would be overwritten; name another folder with --out")
    seated = seat(plan)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        claim = claimed(folder)
        (folder / METRICS).write_text(header(plan.scenario.silos.count), encoding="utf-8")
        write_plan(plan, folder)
    except OSError as fault:
        raise PotluckError(f"{folder}: {(fault.strerror or str(fault)).lower()}; name a folder for --out") from None
    return _advance(plan, seated, folder, None, interval, claim)


def go_on(folder: Path, *, interval: float = INTERVAL) -> Generator[Progress]:
    """Go on from the newest checkpoint that is whole, or from the beginning; what was written since is cut off."""
    plan = read_plan(folder)
    seated = seat(plan)
    top, metrics = header(plan.scenario.silos.count).encode(), folder / METRICS
    try:
        claim = claimed(folder)
        checkpoint = _newest(plan, seated, folder)
        checkpoints.set_aside(folder / CHECKPOINTS, checkpoint.chunk if checkpoint else 0)
        if checkpoint is None:
            metrics.write_bytes(top)
        else:
            os.truncate(metrics, checkpoint.metrics)
    except OSError as fault:
        raise PotluckError(f"{folder}: {(fault.strerror or str(fault)).lower()}; a run must be writable") from None
    return _advance(plan, seated, folder, checkpoint, interval, claim)


def trained(folder: Path) -> Trained:
    """What a run has learnt, as of its newest checkpoint."""
    plan = read_plan(folder)
    seated = seat(plan)
    checkpoint = checkpoints.latest(folder / CHECKPOINTS, _like(plan, seated))
    if checkpoint is None:
        raise PotluckError(f"{folder}: nothing learnt yet; go on with `potluck resume {folder}`")
    learnt = checkpoint.chunk * plan.chunk * plan.depth * plan.games
    return Trained(plan, seated, jax.tree.map(jnp.asarray, checkpoint.runs), learnt, checkpoint.chunk >= plan.chunks)


def claimed(folder: Path) -> IO[bytes]:
    """The run is this process's until the file is closed, or the process ends in any way."""
    file = (folder / "lock").open("wb")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ModuleNotFoundError:  # not on Windows
        pass
    except BlockingIOError:
        file.close()
        raise PotluckError(f"{folder}: another process is training here; stop it first, or let it finish") from None
    return file


def _newest(plan: Plan, seated: Seated, folder: Path) -> Checkpoint | None:
    """None of whose metrics are lost."""
    metrics = folder / METRICS
    written = metrics.stat().st_size if metrics.exists() else 0
    return checkpoints.latest(folder / CHECKPOINTS, _like(plan, seated), written)


def _like(plan: Plan, seated: Seated) -> Runs:
    return eqx.filter_eval_shape(  # type: ignore[no-any-return]
        lambda environment: first(environment, seated.learner, seeds_of(plan), plan.games), seated.environment
    )


def _advance(
    plan: Plan, seated: Seated, folder: Path, checkpoint: Checkpoint | None, interval: float, claim: IO[bytes]
) -> Generator[Progress]:
    mesh, seeds = mesh_for(plan.games), seeds_of(plan)
    with _memory_named():
        if checkpoint is None:
            runs, done = begin(seated.environment, seated.learner, seeds, plan.games), 0
        else:
            runs, done = place(checkpoint.runs, mesh), checkpoint.chunk
    course = Course(seated.environment, seated.learner, seeds, mesh, plan.games, plan.depth, plan.chunk)
    per_chunk, when, saved = plan.depth * plan.chunk, time.monotonic(), done
    with claim:
        while done < plan.chunks:
            with _memory_named():
                runs, report, sound = train(course, runs, jnp.asarray(done * per_chunk))
                check_sound(plan, done * plan.chunk, np.asarray(sound), folder)
            lines = rows(report, np.asarray(seeds), done * per_chunk * plan.games, plan.depth * plan.games)
            size, done = _append(folder, lines), done + 1
            if done == plan.chunks or time.monotonic() - when >= interval:
                checkpoints.save(folder / CHECKPOINTS, Checkpoint(runs, done, size))
                when, saved = time.monotonic(), done
            try:
                yield _progress(plan, done, report)
            except GeneratorExit:
                if saved < done:
                    checkpoints.save(folder / CHECKPOINTS, Checkpoint(runs, done, size))
                raise


@contextlib.contextmanager
def _memory_named() -> Generator[None]:
    try:
        yield
    except jax.errors.JaxRuntimeError as fault:
        if "RESOURCE_EXHAUSTED" not in str(fault):
            raise
        raise PotluckError(
            "games: the device has too little memory for them; lower --games, --seeds or --window"
        ) from None


def _append(folder: Path, lines: str) -> int:
    """On the disk before any checkpoint that counts on them; how long the file is then."""
    try:
        with (folder / METRICS).open("ab") as file:
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
    except OSError as fault:
        raise PotluckError(
            f"{folder / METRICS}: not written ({(fault.strerror or str(fault)).lower()}); the last checkpoint is kept, "
            "make room and resume"
        ) from None


def check_sound(plan: Plan, windows: int, sound: Bool[np.ndarray, "times seeds players"], folder: Path) -> None:
    """Stop at the first window after which a silo knows what is no number; the last good checkpoint stays.

    `sound` says who was, before each window of the chunk that follows the first `windows`, and after its last.
    """
    broken = np.argwhere(~sound)
    if len(broken):
        window, seed, silo = broken[0]
        more = sum((row[:2] == broken[0][:2]).all() for row in broken) - 1
        who = f"silo {silo}{f' and {more} more' if more else ''} of seed {plan.scenario.seed + seed}"
        slot = (windows + window) * plan.depth * plan.games
        raise PotluckError(
            f"{folder}: {who} learnt a value that is no number by slot {slot}; the last good checkpoint is kept"
        )


def _progress(plan: Plan, done: int, report: Any) -> Progress:
    last = [float(np.asarray(part)[-1].mean()) for part in
            (report.welfare, report.precision, report.intensity, report.contributions)]  # fmt: skip
    return Progress(done, plan.chunks, done * plan.chunk * plan.depth * plan.games, *last)
