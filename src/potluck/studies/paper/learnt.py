"""The trainings of a study, and what their cells have learnt.

Trainings whose setups differ in numbers only run side by side as one program, with checkpoints of their own.
"""

import csv
import functools
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from potluck.errors import file_faults
from potluck.studies.deviations import CONSTANTS
from potluck.studies.paper.measure import measure, strangers
from potluck.studies.paper.pace import PLAY, Piece, Unit, nothing
from potluck.studies.paper.plan import MILESTONES, StudyConfig
from potluck.studies.paper.results import keep, result_file
from potluck.training.config import RunConfig
from potluck.training.job import Job
from potluck.training.loop import fresh
from potluck.training.run import METRICS, restart

POINTS = 80
"""Of a learning curve, at most."""


def of_program(config: StudyConfig, job: Job, folder: Path, interval: float) -> Unit:
    """The training of a program, then what each of its cells has learnt."""
    lanes = cells_of(job)
    cells = list(lanes)
    files = tuple(result_file(folder, cell) for cell in cells)
    schemes = list(
        dict.fromkeys(cell.rpartition("/")[2] if cell.split("/")[0] in config.worlds else cell for cell in cells)
    )
    named = ", ".join(schemes[:3]) + (f" and {len(schemes) - 3} more" if len(schemes) > 3 else "")
    training, compiled = functools.partial(train, interval=interval), functools.partial(ready, job)
    found = [Piece(f"training {named}", job.config.slots * len(job.labels), files, training, compiled)]
    rehearsed = set()
    for cell, file in zip(cells, files, strict=True):
        deviations, _ = _asked(config, cell)
        measure = functools.partial(_measure, config, job, cell, file)
        rehearse = functools.partial(_rehearse, config, job, cell) if deviations not in rehearsed else nothing
        rehearsed.add(deviations)
        cost = _measuring_cost(config, cell, len(lanes[cell]))
        found.append(Piece(f"play of {cell}", cost, (file,), measure, rehearse))
    return Unit(job.folder.name, tuple(found))


def milestones(config: RunConfig) -> frozenset[int]:
    """Chunks after which what is learnt is measured."""
    return frozenset(max(1, round(share * config.chunks)) for share in MILESTONES)


def ready(job: Job) -> Job:
    """Compiled, unless it has nothing to train any more."""
    return job if job.over else job.compiled()


def cells_of(job: Job) -> dict[str, range]:
    """The lanes of each cell: its seeds, one beside the other."""
    of = [label.rpartition(",")[0] for label in job.labels]
    return {cell: range(of.index(cell), of.index(cell) + of.count(cell)) for cell in dict.fromkeys(of)}


def train(job: Job, interval: float) -> Generator[float]:
    with file_faults(job.folder, "a study must be writable"):
        job.folder.mkdir(parents=True, exist_ok=True)
    run = restart(job, interval)
    try:
        for progress in run:
            yield progress.chunk / progress.chunks
    finally:
        run.close()


def _asked(config: StudyConfig, cell: str) -> tuple[bool, bool]:
    """Whether deviations are tried, and whether all along the training."""
    world, scheme = cell.split("/")
    return world in config.worlds and scheme in config.schemes, world == config.main and scheme in config.schemes


def _measuring_cost(config: StudyConfig, cell: str, seeds: int) -> float:
    deviations, along = _asked(config, cell)
    ways = 2 + deviations * len(CONSTANTS) * config.scenario.silos.count
    times = (len(MILESTONES) + 1) if along else 1
    return PLAY * ways * times * seeds * config.games * config.scenario.horizon


def _rehearse(config: StudyConfig, job: Job, cell: str) -> None:
    """Play once with learners that know nothing: what plays the cell is compiled then."""
    lanes, deviations = cells_of(job)[cell], _asked(config, cell)[0]
    agents = _of(lanes, fresh(job.lanes, job.seeds, job.config.games).agents)
    discount = job.config.scenario.discount
    next(measure(job.lanes.some(lanes), agents, discount, config.games, deviations=deviations, slots=False))


def _measure(config: StudyConfig, job: Job, cell: str, file: Path, _: None) -> Generator[float]:
    """One cell's learning curve, its play at the milestones, and in the end among strangers."""
    lanes, (deviations, along) = cells_of(job)[cell], _asked(config, cell)
    chunks = sorted(job.snapshots) if along else [job.config.chunks]
    meet = along and len(lanes) >= config.scenario.silos.count
    total, done = (len(chunks) + meet) * len(lanes), 0

    def play(agents: Any, *, slots: bool) -> Generator[dict[str, Any]]:
        own, discount = job.lanes.some(lanes), job.config.scenario.discount
        return measure(own, agents, discount, config.games, deviations=deviations, slots=slots)

    stones, mixed = [], []
    for chunk in chunks:
        agents, seeds = _of(lanes, job.snapshot(chunk)), []
        for found in play(agents, slots=deviations and chunk == chunks[-1]):
            seeds.append(found)
            done += 1
            yield done / total
        stones.append({"slots": slots_after(job.config, chunk), "seeds": seeds})
    for found in play(strangers(agents), slots=False) if meet else ():
        mixed.append(found)
        done += 1
        yield done / total
    keep(file, {"curve": curve(job, cell), "milestones": stones, "strangers": mixed})


def _of(lanes: range, agents: Any) -> Any:
    """What is learnt in them."""
    return jax.tree.map(lambda leaf: leaf[lanes.start : lanes.stop], agents)


def slots_after(config: RunConfig, chunk: int) -> int:
    """That each seed has played after so many chunks."""
    return chunk * config.chunk * config.depth * config.games


def _points(rows: int, of: int, points: int) -> int:
    """How many of all points a stage has."""
    return max(1, min(rows, round(points * rows / of)))


@functools.lru_cache(maxsize=1)
def _metrics(file: Path) -> tuple[list[str], dict[str, dict[str, Float[np.ndarray, "rows columns"]]]]:
    """Names of the numbers, and the rows of every cell and seed."""
    with file.open(newline="", encoding="utf-8") as opened:
        lines = csv.reader(opened)
        names = next(lines)[2:]
        rows: dict[str, dict[str, list[list[float]]]] = {}
        for cell, seed, *numbers in lines:
            rows.setdefault(cell, {}).setdefault(seed, []).append(list(map(float, numbers)))
    return names, {cell: {seed: np.array(own) for seed, own in seeds.items()} for cell, seeds in rows.items()}


def curve(job: Job, cell: str, points: int = POINTS, turns: Sequence[int] = ()) -> dict[str, Any]:
    """What was earned while learning, seed by seed: means over about equal stretches, none of which crosses a turn."""
    names, cells = _metrics(job.folder / METRICS)
    seeds = list(cells[cell].values())
    every = np.arange(len(seeds[0]))
    stages = [stage for stage in np.split(every, np.searchsorted(seeds[0][:, 0], turns, side="right")) if len(stage)]
    parts = [part for stage in stages for part in np.array_split(stage, _points(len(stage), len(every), points))]
    wanted = [
        name for name in names if name in ("welfare", "precision") or name.startswith(("payoff_", "contribution_"))
    ]
    found: dict[str, Any] = {"slots": [int(seeds[0][part[-1], 0]) for part in parts]}
    for name in wanted:
        column = names.index(name)
        found[name] = [[float(rows[part, column].mean()) for part in parts] for rows in seeds]
    return found
