"""A run from its first slot, or from where it stopped, to its last."""

import contextlib
import dataclasses
import hashlib
import os
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from potluck.devices import mesh_over
from potluck.errors import PotluckError, file_faults
from potluck.training import checkpoints
from potluck.training.checkpoints import Checkpoint
from potluck.training.config import (
    RUN,
    SCENARIO,
    RunConfig,
    read_config,
    warn_of_other_machine,
    write_config,
)
from potluck.training.job import CHECKPOINTS, SNAPSHOTS, Job, without_games
from potluck.training.lanes import Lanes
from potluck.training.locks import LOCK, claim
from potluck.training.loop import Runs, Setup, begin, place, train
from potluck.training.metrics import columns, rows

METRICS = "metrics.csv"
INTERVAL = 20.0
"""Seconds between checkpoints."""
KEPT = "the last checkpoint is kept, make room and resume"


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a call of the compiled program: means over lanes of its last window.

    A game that is no federation has neither precision nor a signal.
    """

    chunk: int
    chunks: int
    slots: int
    welfare: float
    precision: float | None
    signal: float | None
    contribution: float
    diagnostics: Mapping[str, float]
    by_lane: Mapping[str, Mapping[str, float]]
    """The same but for diagnostics, lane by lane."""


@dataclass(frozen=True)
class Trained:
    """A finished or interrupted run, ready to play."""

    config: RunConfig
    lanes: Lanes[Setup]
    runs: Runs
    slots: int = 0
    """That each seed has learnt from."""
    finished: bool = True

    def of_seed(self, seed: int) -> tuple[Setup, Any]:
        """One seed's setup, and what its players have learnt."""
        first, last = self.config.scenario.seed, self.config.scenario.seed + self.config.seeds - 1
        if not first <= seed <= last:
            raise PotluckError(f"must be one that was trained: {first} to {last}, got {seed}", field="seed")
        lane = seed - first
        return self.lanes.lane(lane), jax.tree.map(lambda leaf: leaf[lane], self.runs.agents)


def start(config: RunConfig, folder: Path, *, interval: float = INTERVAL) -> Generator[Progress]:
    """Begin a run in a folder of its own; closing what is returned keeps what is learnt so far."""
    if (folder / RUN).exists():
        raise PotluckError(f"{folder}: holds a run; go on with `potluck resume {folder}` or name another folder")
    if checkpoints.any_in(folder / CHECKPOINTS):
        raise PotluckError(f"{folder / CHECKPOINTS}: holds what another run has learnt; name another folder")
    for file in (folder / METRICS, folder / SCENARIO):
        if file.exists() and not _cut_short(folder):
            raise PotluckError(f"{file}: would be overwritten; name another folder")
    job = Job.of_run(config, folder, to_train=True)
    with file_faults(folder, "name a folder to write to"):
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as until_begun:
            claimed = until_begun.enter_context(claim(folder))
            write_config(config, folder)
            until_begun.pop_all()
    return advance(job, None, interval, claimed)


def _cut_short(folder: Path) -> bool:
    """Whether a beginning was interrupted here: the lock was taken, and no run was written down or has begun."""
    metrics = folder / METRICS
    return (folder / LOCK).exists() and not (metrics.exists() and metrics.stat().st_size)


def resume(folder: Path, *, interval: float = INTERVAL) -> Generator[Progress]:
    """Go on from the newest complete checkpoint, or from the beginning; what was written since is cut off."""
    job = Job.of_run(read_config(folder), folder, to_train=True)
    warn_of_other_machine(folder)
    return restart(job, interval)


def train_in(folder: Path, config: RunConfig, remedy: str = "name another folder") -> Generator[Progress]:
    """Begin this run in a folder, or go on with it where it was begun there."""
    if not (folder / RUN).exists():
        return start(config, folder)
    if read_config(folder) != config:
        raise PotluckError(f"{folder}: holds another run; {remedy}")
    return resume(folder)


def restart(job: Job, interval: float = INTERVAL) -> Generator[Progress]:
    """Go on with a job whose folder is there."""
    metrics = job.folder / METRICS
    with contextlib.ExitStack() as until_begun, file_faults(job.folder, "a run must be writable"):
        claimed = until_begun.enter_context(claim(job.folder))
        checkpoint = job.newest(metrics.stat().st_size if metrics.exists() else 0)
        if checkpoint is not None and _hashed(metrics, checkpoint.metrics).hexdigest() != checkpoint.digest:
            raise PotluckError(f"{metrics}: was changed after it was written; put back what it was")
        checkpoints.set_aside(job.folder / CHECKPOINTS, checkpoint.chunk if checkpoint else 0)
        if checkpoint is None:
            metrics.write_bytes(b"")
        else:
            os.truncate(metrics, checkpoint.metrics)
        until_begun.pop_all()
    return advance(job, checkpoint, interval, claimed)


def trained(folder: Path) -> Trained:
    """What a run has learnt, as of its newest checkpoint."""
    config = read_config(folder)
    job = Job.of_run(config, folder)
    checkpoint = job.newest()
    if checkpoint is None:
        raise PotluckError(f"{folder}: nothing learnt yet; go on with `potluck resume {folder}`")
    learnt = checkpoint.chunk * config.chunk * config.depth * config.games
    runs = jax.tree.map(jnp.asarray, checkpoint.runs)
    return Trained(config, job.lanes, runs, learnt, checkpoint.chunk >= config.chunks)


def _hashed(file: Path, size: int) -> Any:
    """SHA-256 of a file's first bytes, ready for more."""
    found = hashlib.sha256()
    if size:
        with file.open("rb") as content:
            found.update(content.read(size))
    return found


def advance(job: Job, checkpoint: Checkpoint | None, interval: float, claimed: IO[bytes]) -> Generator[Progress]:
    """Train to the end, with a checkpoint every `interval` seconds, at the end and when this is closed."""
    config = job.config
    with _memory_named():
        if checkpoint is None:
            runs, done = begin(job.lanes, job.seeds, config.games), 0
        else:
            runs, done = place(checkpoint.runs, mesh_over(config.games)), checkpoint.chunk
    per_chunk, when, saved = config.depth * config.chunk, time.monotonic(), done
    written = _hashed(job.folder / METRICS, checkpoint.metrics if checkpoint else 0)

    def reached() -> Checkpoint:
        return Checkpoint(runs, done, size, written.hexdigest(), job.plan)

    with claimed:
        while done < config.chunks:
            with _memory_named():
                runs, outcome = (job.program or train)(job.calls(done), runs, jnp.asarray(done * per_chunk))
                check_finite(job, done * config.chunk, np.asarray(outcome.finite))
                if not outcome.agreed:
                    raise PotluckError(
                        f": {config.agent} learns another thing on every device; its update must take means over games "
                        "with potluck.devices.everywhere",
                        field="agent",
                    )
            numbers = columns(outcome)
            lines = rows(numbers, job.labels, done * per_chunk * config.games, config.depth * config.games)
            size, done = _append(job, numbers, lines, written), done + 1
            if done in job.snapshots:  # before any checkpoint after which it could not be taken again
                kept = dataclasses.replace(reached(), runs=without_games(runs))
                checkpoints.save(job.folder / SNAPSHOTS, kept, len(job.snapshots))
            if done == config.chunks or time.monotonic() - when >= interval:
                checkpoints.save(job.folder / CHECKPOINTS, reached())
                when, saved = time.monotonic(), done
            try:
                yield _progress(job, done, numbers, list(outcome.diagnostics))
            except GeneratorExit:
                if saved < done:
                    checkpoints.save(job.folder / CHECKPOINTS, reached())
                raise


@contextlib.contextmanager
def _memory_named() -> Generator[None]:
    try:
        yield
    except jax.errors.JaxRuntimeError as fault:
        if "RESOURCE_EXHAUSTED" not in str(fault):
            raise
        raise PotluckError(
            ": the device has too little memory for them; lower games, seeds or window", field="games"
        ) from None


def _append(job: Job, numbers: Mapping[str, Any], lines: str, written: Any) -> int:
    """On the disk before any checkpoint that counts on them; how long the file is then."""
    place = job.folder / METRICS
    with file_faults(place, KEPT, failed="not written"), place.open("ab") as file:
        heads = ",".join([*job.names, "slot", *numbers]) + "\n" if file.tell() == 0 else ""
        file.write((heads + lines).encode())
        written.update((heads + lines).encode())
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def check_finite(job: Job, windows: int, finite: Bool[np.ndarray, "times lanes players"]) -> None:
    """Stop at the first window after which a silo knows what is no number; the last good checkpoint stays.

    `finite` says who was, before each window of the chunk that follows the first `windows`, and after its last.
    """
    broken = np.argwhere(~finite)
    if len(broken):
        window, lane, silo = broken[0]
        more = sum((row[:2] == broken[0][:2]).all() for row in broken) - 1
        named = " ".join(f"{name} {text}" for name, text in zip(job.names, job.labels[lane].split(","), strict=True))
        who = f"silo {silo}{f' and {more} more' if more else ''} of {named}"
        slot = (windows + window) * job.config.depth * job.config.games
        raise PotluckError(
            f"{job.folder}: {who} learnt a value that is no number by slot {slot}; the last good checkpoint is kept"
        )


def _progress(
    job: Job, done: int, numbers: Mapping[str, Float[np.ndarray, "windows lanes"]], diagnostics: list[str]
) -> Progress:
    config = job.config
    last: dict[str, Any] = {name: column[-1] for name, column in numbers.items()}
    last["contribution"] = np.mean(
        [column for name, column in last.items() if name.startswith("contribution_")], axis=0
    )
    main = [name for name in ("welfare", "precision", "signal", "contribution") if name in last]
    return Progress(
        chunk=done,
        chunks=config.chunks,
        slots=done * config.chunk * config.depth * config.games,
        welfare=float(last["welfare"].mean()),
        contribution=float(last["contribution"].mean()),
        precision=float(last["precision"].mean()) if "precision" in last else None,
        signal=float(last["signal"].mean()) if "signal" in last else None,
        diagnostics={name: float(last[name].mean()) for name in diagnostics},
        by_lane={label: {name: float(last[name][at]) for name in main} for at, label in enumerate(job.labels)},
    )
