"""The work of a study, piece by piece: each leaves a file when it is done and is skipped from then on.

Trainings whose setups differ in numbers only run side by side as one program, with checkpoints of their own. What is
found goes to `results/`, one JSON file per cell; tables, pictures and the report are made from those alone.
"""

import csv
import dataclasses
import functools
import json
import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from potluck.errors import PotluckError, file_faults
from potluck.game import Planner
from potluck.scenario import Scenario
from potluck.studies.bounds import FINALISTS, SEARCH, Candidate, solved_equilibria
from potluck.studies.deviations import CONSTANTS, followed
from potluck.studies.followers import keeping_to
from potluck.studies.judgement import Judgement, imagination_of
from potluck.studies.paper import adapt
from potluck.studies.paper.measure import measure, strangers
from potluck.studies.paper.pace import Pace, Piece, nothing
from potluck.studies.paper.plan import MILESTONES, STUDY, StudyConfig, read_study
from potluck.studies.planning import CANDIDATES, USUAL, Effort, Plan, best_plan
from potluck.training.config import RunConfig, setup_one, values_of, warn_of_other_machine
from potluck.training.files import write_text
from potluck.training.loop import Runs, fresh
from potluck.training.programs import programs
from potluck.training.run import INTERVAL, METRICS, Job, restart

RESULTS = "results"
TRAINING = "training"
PLAY = 0.4
"""What a slot of play costs beside one of learning, about."""
FIT = 20_000.0
"""What a planner's fit and ascent cost, in slots of learning, about."""
MODELLED = 1000
"""Games that solving an equilibrium on real training plays, about."""
THOROUGH = Effort(rounds=40, games=256)
"""Of a planner's search, where schemes learn for as long."""
FEWEST = 1
"""Rounds of a search that finds anything."""
POINTS = 80
"""Of a learning curve, at most."""


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
        for name in (RESULTS, TRAINING):
            (folder / name).mkdir(exist_ok=True)
    found = pieces(config, folder, interval)
    pace, preparing = Pace(found), ThreadPoolExecutor(os.cpu_count())
    try:
        prepared = {piece: preparing.submit(piece.prepare) for piece in found if not piece.done}
        for piece in prepared:
            yield Step(piece.what, pace.share(), pace.left())
            pace.begins()
            work = piece.work(prepared[piece].result())
            try:
                for share in work:
                    pace.at(piece, share)
                    yield Step(piece.what, pace.share(), pace.left())
            finally:
                work.close()
            pace.over(piece)
    finally:
        preparing.shutdown(wait=False, cancel_futures=True)


def pieces(config: StudyConfig, folder: Path, interval: float = INTERVAL) -> list[Piece]:
    """All that there is to do, in order."""
    cells = config.cells()
    trained = {name: run for name, run in cells.items() if same_as(cells, name) == name}
    found: list[Piece] = []
    for job in programs(list(trained.items()), ("cell",), folder / TRAINING):
        marked = dataclasses.replace(job, beside=config.digest, snapshots=milestones(job.config))
        found += _of_program(config, marked, folder, interval)
    for world in config.worlds:
        found += [_planned(config, world, folder), _unpaid(config, world, folder)]
    return found + (_adaptivity(config, folder, interval) if config.changes else [])


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
    lanes = _cells_of(job)
    cells = list(lanes)
    files = tuple(result_file(folder, cell) for cell in cells)
    schemes = list(
        dict.fromkeys(cell.rpartition("/")[2] if cell.split("/")[0] in config.worlds else cell for cell in cells)
    )
    named = ", ".join(schemes[:3]) + (f" and {len(schemes) - 3} more" if len(schemes) > 3 else "")
    train = functools.partial(_train, interval=interval)
    found = [Piece(f"training {named}", job.config.slots * len(job.labels), files, train, job.compiled)]
    rehearsed = set()
    for cell, file in zip(cells, files, strict=True):
        deviations, _ = _asked(config, cell)
        measure = functools.partial(_measure, config, job, cell, file)
        rehearse = functools.partial(_rehearse, config, job, cell) if deviations not in rehearsed else nothing
        rehearsed.add(deviations)
        cost = _measuring_cost(config, cell, len(lanes[cell]))
        found.append(Piece(f"play of {cell}", cost, (file,), measure, rehearse))
    return found


def _cells_of(job: Job) -> dict[str, range]:
    """The lanes of each cell: its seeds, one beside the other."""
    of = [label.rpartition(",")[0] for label in job.labels]
    return {cell: range(of.index(cell), of.index(cell) + of.count(cell)) for cell in dict.fromkeys(of)}


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


def _measuring_cost(config: StudyConfig, cell: str, seeds: int) -> float:
    deviations, along = _asked(config, cell)
    ways = 2 + deviations * len(CONSTANTS) * config.scenario.silos.count
    times = (len(MILESTONES) + 1) if along else 1
    return PLAY * ways * times * seeds * config.games * config.scenario.horizon


def _rehearse(config: StudyConfig, job: Job, cell: str) -> None:
    """Play once with learners that know nothing: what plays the cell is compiled then."""
    lanes, deviations = _cells_of(job)[cell], _asked(config, cell)[0]
    agents = _of(lanes, fresh(job.lanes, job.seeds, job.config.games))
    discount = job.config.scenario.discount
    next(measure(job.lanes.some(lanes), agents, discount, config.games, deviations=deviations, slots=False))


def _measure(config: StudyConfig, job: Job, cell: str, file: Path, _: None) -> Generator[float]:
    """One cell's learning curve, its play at the milestones, and in the end among strangers."""
    lanes, (deviations, along) = _cells_of(job)[cell], _asked(config, cell)
    chunks = sorted(job.snapshots) if along else [job.config.chunks]
    total, done = (len(chunks) + along) * len(lanes), 0

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
        stones.append({"slots": _slots(job.config, chunk), "seeds": seeds})
    for found in play(strangers(agents), slots=False) if along else ():
        mixed.append(found)
        done += 1
        yield done / total
    _keep(file, {"curve": _curve(job, cell), "milestones": stones, "strangers": mixed})


def _of(lanes: range, runs: Runs) -> Any:
    """What is learnt in them."""
    return jax.tree.map(lambda leaf: leaf[lanes.start : lanes.stop], runs.agents)


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
    """The best plan for all, found by search that begins among what all seeds of all schemes have learnt to play."""
    scenario, file = config.worlds[world], result_file(folder, f"{world}/planner")

    def work(_: None) -> Generator[float]:
        learnt = {scheme: _learnt(config, folder, f"{world}/{scheme}") for scheme in config.schemes}
        yield from _plan(config, _planner(config, scenario), scenario, file, learnt)

    starts = len(config.schemes) * config.seeds
    return Piece(f"planner of {world}", _planning_cost(effort_of(config), scenario, starts), (file,), work)


def _learnt(config: StudyConfig, folder: Path, cell: str) -> list[dict[str, Any]]:
    """Every seed's play after the whole training."""
    seeds: list[dict[str, Any]] = read_result(folder, same_as(config.cells(), cell))["milestones"][-1]["seeds"]
    return seeds


def _as_plan(play: dict[str, Any]) -> Plan:
    return jnp.asarray(play["contributions"], jnp.float32)


def _unpaid(config: StudyConfig, world: str, folder: Path) -> Piece:
    """The best equilibrium without redistribution: solved, or as a seed of WPR has learnt it."""
    scenario, file = config.worlds[world], result_file(folder, f"{world}/equilibrium")
    run = config.run(scenario, "wpr", 1)

    def work(_: None) -> Generator[float]:
        yield 0.0
        learnt = _learnt(config, folder, f"{world}/wpr")
        planned = read_result(folder, f"{world}/planner")
        environment = setup_one(run).environment
        starts = jnp.stack([*map(_as_plan, learnt), _as_plan(planned)])
        unpaid = dataclasses.replace(run, agent="wpr")
        imagination = imagination_of(keeping_to(starts, unpaid, environment))
        solved = solved_equilibria(environment, unpaid, starts, config.games, imagination)
        plays = {f"wpr, seed {seed}": play for seed, play in enumerate(learnt)}
        if solved is not None:
            plans, judged = solved
            plays |= {f"solved {number + 1}": _of_judged(judged.of(number)) for number in range(len(plans))}
        candidates = [
            Candidate(name, play["welfare"], sum(play["gains"]) / sum(play["stakes"]) if sum(play["stakes"]) else 0.0)
            for name, play in plays.items()
        ]
        best = max(candidates, key=lambda candidate: candidate.rank)
        found = {name: plays[best.name][name] for name in ("welfare", "games", "gains", "stakes", "contributions")}
        _keep(file, {**found, "found_by": best.name})

    ways = FINALISTS * len(CONSTANTS) * config.scenario.silos.count
    return Piece(
        f"equilibrium without redistribution of {world}",
        2 * FIT + PLAY * (ways * config.games + MODELLED) * scenario.horizon,
        (file,),
        work,
    )


def _of_judged(judged: Judgement) -> dict[str, Any]:
    """What one seed's test found, as a cell's results have it."""
    return {
        "welfare": float(judged.own.welfare.mean(dtype=float)),
        "games": judged.own.welfare[0].mean(1, dtype=float).tolist(),
        "gains": judged.gains[0].tolist(),
        "stakes": judged.stakes.tolist(),
        "contributions": judged.own.mean_play[0].tolist(),
    }


def _planner(config: StudyConfig, scenario: Scenario) -> Planner:
    return Planner(adapt.game_of(setup_one(config.run(scenario, "random", 1))))


def effort_of(config: StudyConfig) -> Effort:
    """A search may play a few times as many games as a scheme learns from in all seeds, and ends when it no longer
    gains; but never too few to find anything.
    """
    games = config.seeds * config.slots // config.scenario.horizon
    if games < THOROUGH.rounds * THOROUGH.games:
        return dataclasses.replace(USUAL, rounds=min(max(games // USUAL.games, FEWEST), USUAL.rounds))
    return THOROUGH


def _planning_cost(effort: Effort, scenario: Scenario, starts: int = 0) -> float:
    """Of half of the rounds that it may take."""
    rounds = (effort.rounds + 1) // 2
    plays = rounds * effort.round_plays + (starts + 1) * effort.checking + CANDIDATES * effort.choosing
    return FIT * rounds + PLAY * plays * scenario.horizon


def _plan(
    config: StudyConfig,
    planner: Planner,
    scenario: Scenario,
    file: Path,
    learnt: Mapping[str, Sequence[dict[str, Any]]] | None = None,
) -> Generator[float]:
    """Search, and play what was found in the games that everything is measured in; never below what was learnt."""
    plays = {
        f"{scheme}, seed {seed}": play for scheme, seeds in (learnt or {}).items() for seed, play in enumerate(seeds)
    }
    plan = yield from best_plan(planner, scenario, effort_of(config), [_as_plan(play) for play in plays.values()])
    played, found_by = followed(planner, plan, scenario.discount, config.games), SEARCH
    best = max(plays, key=lambda name: plays[name]["welfare"], default=None)
    if best is not None and plays[best]["welfare"] > played.welfare.mean(dtype=float):
        played = followed(planner, _as_plan(plays[best]), scenario.discount, config.games)
        found_by = f"mean play of {best}"
    found = {
        "welfare": float(played.welfare.mean(dtype=float)),
        "games": played.welfare[0].mean(1, dtype=float).tolist(),
        "payoffs": played.slot_payoffs.mean((0, 1, 2), dtype=float).tolist(),
        "precision": played.precision[0].mean(0).tolist(),
        "contributions": played.contributions[0].mean(0).tolist(),
        "found_by": found_by,
    }
    if best is not None and plays[best]["welfare"] > found["welfare"]:  # it earns by reacting, as no plan can
        own = {name: plays[best][name] for name in ("welfare", "games", "payoffs", "precision", "contributions")}
        found = {**own, "found_by": f"play of {best}"}
    _keep(file, found)


def _adaptivity(config: StudyConfig, folder: Path, interval: float) -> list[Piece]:
    """Each scheme's training through a change of the federation, and a planner for each of its stages."""
    scenario = adapt.with_room(config.scenario)
    cells = {f"adapt/{scheme}": config.run(scenario, scheme, config.fewer) for scheme in config.schemes}
    found = []
    for job in adapt.jobs_of(cells, folder / TRAINING / "adapt"):
        names = list(_cells_of(job))
        files = tuple(result_file(folder, name) for name in names)
        marked = dataclasses.replace(job, beside=config.digest)
        adapting = functools.partial(_adapt, dict(zip(names, files, strict=True)), interval)
        slots = config.slots * len(job.labels)
        found.append(Piece(f"training {', '.join(names)}", slots, files, adapting, marked.compiled))
    for stage, name in enumerate(adapt.STAGES):
        file = result_file(folder, f"adapt/planner-{stage}")

        def work(_: None, stage: int = stage, file: Path = file) -> Generator[float]:
            one = setup_one(config.run(scenario, "random", 1))
            planner = adapt.planner_of(adapt.stage_of(one, stage))
            yield from _plan(config, planner, scenario, file)

        found.append(
            Piece(f"planner of adaptivity, {name}", _planning_cost(effort_of(config), scenario), (file,), work)
        )
    return found


def _adapt(files: dict[str, Path], interval: float, job: Job) -> Generator[float]:
    yield from _train(job, interval)
    turns = [_slots(job.config, chunk) for chunk, _ in job.turns]
    for cell, file in files.items():
        _keep(file, {"curve": _curve(job, cell, 2 * POINTS), "turns": turns})
