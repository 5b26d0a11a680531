"""The work of a study: each piece leaves a file when it is done and is skipped from then on.

What is found goes to `results/`; tables, pictures and the report are made from those alone. Several processes may work
on one study: each does what none of the others is at.
"""

import dataclasses
import functools
import os
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck.errors import file_faults
from potluck.studies.paper import adapt
from potluck.studies.paper.learnt import POINTS, cells_of, curve, milestones, of_program, slots_after, train
from potluck.studies.paper.pace import Pace, Piece, Unit
from potluck.studies.paper.plan import STUDY, StudyConfig, read_study, same_as
from potluck.studies.paper.planned import changed, planned, unpaid
from potluck.studies.paper.results import RESULTS, keep, result_file
from potluck.studies.paper.sharing import free, shared
from potluck.studies.paper.trial import tried
from potluck.training.config import warn_of_other_machine
from potluck.training.job import Job
from potluck.training.programs import programs
from potluck.training.run import INTERVAL

TRAINING = "training"
CLAIMED = "claimed"
"""A folder of locks."""


@dataclass(frozen=True)
class Step:
    """Where a study stands."""

    what: str
    share: float
    """Of the whole study, by what it costs, about."""
    left: float | None
    """Seconds until it is done, about, once anything is known about that."""


def run_study(folder: Path, *, interval: float = INTERVAL) -> Generator[Step]:
    """Do what is not done yet; closing this keeps what is learnt so far."""
    config = read_study(folder)
    warn_of_other_machine(folder, STUDY)
    with file_faults(folder, "a study must be writable"):
        for name in (RESULTS, TRAINING, CLAIMED):
            (folder / name).mkdir(exist_ok=True)
    found = units(config, folder, interval)
    pace, ahead = Pace([piece for unit in found for piece in unit.pieces]), ThreadPoolExecutor(os.cpu_count())
    prepared: dict[Piece, Future[Any]] = {}
    if not all(unit.done for unit in found):
        yield Step("a trial, to tell how long this takes", pace.share(), None)
        pace.expects(tried(config))

    def prepare(unit: Unit) -> None:
        for piece in unit.pieces:
            if not piece.done and piece not in prepared:
                prepared[piece] = ahead.submit(piece.prepare)

    try:
        for unit in shared(found, folder / CLAIMED):
            pace.meanwhile()
            if unit is None:
                yield Step("waiting for another process of this study", pace.share(), pace.left())
                continue
            prepare(unit)
            for piece in (piece for piece in unit.pieces if not piece.done):
                yield Step(piece.what, pace.share(), pace.left())
                pace.begins()
                work = piece.work(prepared[piece].result())
                if (following := free(found, unit, folder / CLAIMED)) is not None:
                    prepare(following)
                try:
                    for share in work:
                        pace.at(piece, share)
                        yield Step(piece.what, pace.share(), pace.left())
                finally:
                    work.close()
                pace.over(piece)
    finally:
        ahead.shutdown(wait=False, cancel_futures=True)


def units(config: StudyConfig, folder: Path, interval: float = INTERVAL) -> list[Unit]:
    """All that there is to do, in order."""
    cells = config.cells()
    trained = {name: run for name, run in cells.items() if same_as(cells, name) == name}
    found: list[Unit] = []
    for job in programs(list(trained.items()), ("cell",), folder / TRAINING):
        marked = dataclasses.replace(job, beside=config.digest, snapshots=milestones(job.config))
        found.append(of_program(config, marked, folder, interval))
    for world in config.worlds:
        found += [planned(config, world, folder), unpaid(config, world, folder)]
    return found + (_adaptivity(config, folder, interval) if config.changes else [])


def _adaptivity(config: StudyConfig, folder: Path, interval: float) -> list[Unit]:
    """Each scheme's training through a change of the federation, and a planner for each of its stages."""
    scenario = adapt.with_room(config.scenario)
    cells = {f"adapt/{scheme}": config.run(scenario, scheme, config.fewer) for scheme in config.schemes}
    found = []
    for job in adapt.jobs_of(cells, folder / TRAINING / "adapt"):
        names = list(cells_of(job))
        files = tuple(result_file(folder, name) for name in names)
        marked = dataclasses.replace(job, beside=config.digest)
        adapting = functools.partial(_adapt, dict(zip(names, files, strict=True)), interval)
        slots = config.slots * len(job.labels)
        piece = Piece(f"training {', '.join(names)}", slots, files, adapting, marked.compiled)
        found.append(Unit(f"adapt-{job.folder.name}", (piece,)))
    return found + [changed(config, scenario, stage, folder) for stage in range(len(adapt.STAGES))]


def _adapt(files: dict[str, Path], interval: float, job: Job) -> Generator[float]:
    yield from train(job, interval)
    turns = [slots_after(job.config, chunk) for chunk, _ in job.turns]
    for cell, file in files.items():
        keep(file, {"curve": curve(job, cell, 2 * POINTS, turns), "turns": turns})
