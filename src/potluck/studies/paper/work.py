"""The work of a study, piece by piece: each leaves a file when it is done and is skipped from then on.

Trainings whose setups differ in numbers only run side by side as one program, with checkpoints of their own. What is
found goes to `results/`, one JSON file per cell; tables, pictures and the report are made from those alone.
"""

import csv
import dataclasses
import functools
import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from potluck.errors import PotluckError, file_faults
from potluck.game import Planner
from potluck.scenario import Scenario
from potluck.studies.deviations import CONSTANTS, followed
from potluck.studies.paper import adapt
from potluck.studies.paper.measure import measure, strangers
from potluck.studies.paper.plan import MILESTONES, STUDY, StudyConfig, read_study
from potluck.studies.planning import GENERATIONS, PAIRS, best_plan
from potluck.training.config import RunConfig, setup_one, values_of, warn_of_other_machine
from potluck.training.files import write_text
from potluck.training.programs import programs
from potluck.training.run import INTERVAL, METRICS, Job, restart

RESULTS = "results"
TRAINING = "training"
PLAY = 0.4
"""What a slot of play costs beside one of learning, about."""
POINTS = 80
"""Of a learning curve, at most."""


@dataclass(frozen=True)
class Step:
    """Where a study stands."""

    what: str
    share: float
    """Of the whole study, by what it costs, about."""


@dataclass(frozen=True)
class Piece:
    """One piece of work."""

    what: str
    cost: float
    """In slots of learning."""
    results: tuple[Path, ...]
    """Files that are there when it is done."""
    work: Callable[[], Generator[float]]
    """Does it; yields the share that is done."""

    @property
    def done(self) -> bool:
        return all(place.exists() for place in self.results)


def run_study(folder: Path, *, interval: float = INTERVAL) -> Generator[Step]:
    """Do what is not done yet; closing this keeps what is learnt so far."""
    config = read_study(folder)
    warn_of_other_machine(folder, STUDY)
    with file_faults(folder, "a study must be writable"):
        for name in (RESULTS, TRAINING):
            (folder / name).mkdir(exist_ok=True)
    found = pieces(config, folder, interval)
    whole, behind = sum(piece.cost for piece in found), 0.0
    for piece in found:
        if not piece.done:
            yield Step(piece.what, behind / whole)
            work = piece.work()
            try:
                for share in work:
                    yield Step(piece.what, (behind + share * piece.cost) / whole)
            finally:
                work.close()
        behind += piece.cost


def pieces(config: StudyConfig, folder: Path, interval: float = INTERVAL) -> list[Piece]:
    """All that there is to do, in order."""
    cells = config.cells()
    trained = {name: run for name, run in cells.items() if same_as(cells, name) == name}
    found = []
    for job in programs(list(trained.items()), ("cell",), folder / TRAINING):
        marked = dataclasses.replace(job, beside=config.digest, snapshots=milestones(job.config))
        found += _of_program(config, marked, folder, interval)
    found += [_planned(config, world, folder) for world in config.worlds]
    return found + (_adaptivity(config, folder, interval) if adapt.possible(config.scenario) else [])


def same_as(cells: dict[str, RunConfig], name: str) -> str:
    """The first cell that trains the same: α0 as it is, and the schedule as it is, are trained once."""
    return next(first for first, run in cells.items() if values_of(run) == values_of(cells[name]))


def milestones(config: RunConfig) -> frozenset[int]:
    """Chunks after which what is learnt is measured."""
    return frozenset(max(1, round(share * config.chunks)) for share in MILESTONES)


def result_file(folder: Path, cell: str) -> Path:
    return folder / RESULTS / f"{cell.replace('/', '.')}.json"


def read_result(folder: Path, cell: str) -> Any:
    """What was found in a cell."""
    place = result_file(folder, cell)
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PotluckError(f"{folder}: {cell} is not done yet; go on with `potluck resume {folder}`") from None
    except (OSError, ValueError) as fault:
        raise PotluckError(f"{place}: cannot be read ({fault}); remove it and go on") from None


def _keep(place: Path, found: Any) -> None:
    with file_faults(place, "make room and go on", failed="not written"):
        write_text(place, json.dumps(found) + "\n")


def _of_program(config: StudyConfig, job: Job, folder: Path, interval: float) -> list[Piece]:
    """The training of a program, then what each of its cells has learnt."""
    cells = _cells_of(job)
    files = tuple(result_file(folder, cell) for cell in cells)
    schemes = list(
        dict.fromkeys(cell.rpartition("/")[2] if cell.split("/")[0] in config.worlds else cell for cell in cells)
    )
    named = ", ".join(schemes[:3]) + (f" and {len(schemes) - 3} more" if len(schemes) > 3 else "")
    found = [Piece(f"training {named}", job.config.slots * len(job.labels), files, lambda: _train(job, interval))]
    for place, cell in enumerate(cells):
        work = functools.partial(_measure, config, job, place, cell, files[place])
        found.append(Piece(f"play of {cell}", _measuring_cost(config, cell), (files[place],), work))
    return found


def _cells_of(job: Job) -> list[str]:
    return list(dict.fromkeys(label.rpartition(",")[0] for label in job.labels))


def _train(job: Job, interval: float) -> Generator[float]:
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


def _measuring_cost(config: StudyConfig, cell: str) -> float:
    deviations, along = _asked(config, cell)
    ways = 2 + deviations * len(CONSTANTS) * config.scenario.silos.count
    times = (len(MILESTONES) + 1) if along else 1
    return PLAY * ways * times * config.seeds * config.games * config.scenario.horizon


def _measure(config: StudyConfig, job: Job, place: int, cell: str, file: Path) -> Generator[float]:
    """One cell's learning curve, its play at the milestones, and in the end among strangers."""
    deviations, along = _asked(config, cell)
    chunks = sorted(job.snapshots) if along else [job.config.chunks]
    total, found = (len(chunks) + along) * config.seeds, []
    first, discount = place * config.seeds, job.config.scenario.discount

    def play(agents: Any, seed: int, *, last: bool) -> dict[str, Any]:
        setup = job.lanes.lane(first + seed)
        return measure(setup, agents, discount, config.games, deviations=deviations, slots=last and deviations)

    done = 0
    for chunk in chunks:
        agents = _agents_of(job, chunk, first, config.seeds)
        seeds = []
        for seed in range(config.seeds):
            own = jax.tree.map(lambda leaf, seed=seed: leaf[seed], agents)
            seeds.append(play(own, seed, last=chunk == chunks[-1]))
            done += 1
            yield done / total
        found.append({"slots": _slots(job.config, chunk), "seeds": seeds})
    mixed = []
    for seed in range(config.seeds if along else 0):
        mixed.append(play(strangers(agents, seed, config.seeds), seed, last=False))
        done += 1
        yield done / total
    _keep(file, {"curve": _curve(job, cell), "milestones": found, "strangers": mixed})


def _agents_of(job: Job, chunk: int, first: int, seeds: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[first : first + seeds], job.snapshot(chunk).agents)


def _slots(config: RunConfig, chunk: int) -> int:
    """That each seed has played after so many chunks."""
    return chunk * config.chunk * config.depth * config.games


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


def _curve(job: Job, cell: str, points: int = POINTS) -> dict[str, Any]:
    """What was earned while learning, seed by seed: means over equal stretches of the training."""
    names, cells = _metrics(job.folder / METRICS)
    seeds = list(cells[cell].values())
    parts = np.array_split(np.arange(len(seeds[0])), min(points, len(seeds[0])))
    wanted = [
        name for name in names if name in ("welfare", "precision") or name.startswith(("payoff_", "contribution_"))
    ]
    found: dict[str, Any] = {"slots": [int(seeds[0][part[-1], 0]) for part in parts]}
    for name in wanted:
        column = names.index(name)
        found[name] = [[float(rows[part, column].mean()) for part in parts] for rows in seeds]
    return found


def _planned(config: StudyConfig, world: str, folder: Path) -> Piece:
    """The best plan for all that is found in a world."""
    scenario = config.worlds[world]
    file = result_file(folder, f"{world}/planner")

    def planner() -> Planner:
        return Planner(adapt.game_of(setup_one(config.run(scenario, "random"))))

    work = functools.partial(_plan, planner, scenario, config.games, file)
    return Piece(f"planner of {world}", _planning_cost(scenario), (file,), work)


def _planning_cost(scenario: Scenario) -> float:
    return PLAY * 2 * PAIRS * GENERATIONS * scenario.horizon


def _plan(planner: Callable[[], Planner], scenario: Scenario, games: int, file: Path) -> Generator[float]:
    """Search, and play what was found in the games that everything is measured in."""
    one = planner()
    plan = yield from best_plan(one, scenario)
    played = followed(one, plan, scenario.discount, games)
    found = {
        "welfare": float(played.welfare.mean(dtype=float)),
        "games": played.welfare[0].mean(1, dtype=float).tolist(),
        "payoffs": played.slot_payoffs.mean((0, 1, 2), dtype=float).tolist(),
        "precision": played.precision[0].mean(0).tolist(),
        "contributions": played.contributions[0].mean(0).tolist(),
    }
    _keep(file, found)


def _adaptivity(config: StudyConfig, folder: Path, interval: float) -> list[Piece]:
    """Each scheme's training through a change of the federation, and a planner for each of its stages."""
    scenario = adapt.with_room(config.scenario)
    cells = {f"adapt/{scheme}": config.run(scenario, scheme) for scheme in config.schemes}
    found = []
    for job in adapt.jobs_of(cells, folder / TRAINING / "adapt"):
        names = _cells_of(job)
        files = tuple(result_file(folder, name) for name in names)
        marked = dataclasses.replace(job, beside=config.digest)
        work = functools.partial(_adapt, marked, dict(zip(names, files, strict=True)), interval)
        found.append(Piece(f"training {', '.join(names)}", config.slots * len(job.labels), files, work))
    for stage, name in enumerate(adapt.STAGES):
        file = result_file(folder, f"adapt/planner-{stage}")

        def planner(stage: int = stage) -> Planner:
            one = setup_one(config.run(scenario, "random"))
            return adapt.planner_of(adapt.stage_of(one, stage))

        work = functools.partial(_plan, planner, scenario, config.games, file)
        found.append(Piece(f"planner of adaptivity, {name}", _planning_cost(scenario), (file,), work))
    return found


def _adapt(job: Job, files: dict[str, Path], interval: float) -> Generator[float]:
    yield from _train(job, interval)
    turns = [_slots(job.config, chunk) for chunk, _ in job.turns]
    for cell, file in files.items():
        _keep(file, {"curve": _curve(job, cell, 2 * POINTS), "turns": turns})
