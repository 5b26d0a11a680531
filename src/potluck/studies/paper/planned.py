"""The bounds of a study: the best plan for all silos, and the best equilibrium without redistribution."""

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from potluck.game import Planner
from potluck.scenario import CurvePrecision, Scenario
from potluck.studies.bounds import FINALISTS, SEARCH, SOLVING, Candidate, solved_equilibria
from potluck.studies.deviations import CONSTANTS, followed
from potluck.studies.followers import keeping_to
from potluck.studies.judgement import Judgement, imagination_of
from potluck.studies.paper import adapt
from potluck.studies.paper.pace import PLAY, Piece, Unit
from potluck.studies.paper.plan import StudyConfig, same_as
from potluck.studies.paper.results import keep, read_result, result_file
from potluck.studies.planning import ASCENT_GAMES, CANDIDATES, USUAL, Effort, Plan, best_plan
from potluck.training.config import setup_one
from potluck.training.loop import Setup

FIT = 8.0
"""Seconds of a planner's fit and ascent, about."""
CLIMB = 5.0
"""Seconds of an ascent on the curve, about."""
MODELLED = 1000
"""Games that solving an equilibrium on real training plays, about."""
THOROUGH = Effort(rounds=40, games=256)
"""Of a planner's search, where schemes learn for as long."""
FEWEST = 1
"""Rounds of a search that finds anything."""


def planned(config: StudyConfig, world: str, folder: Path) -> Unit:
    """The best plan for all, found by search that begins with the best seed of every scheme."""
    scenario, file = config.worlds[world], result_file(folder, f"{world}/planner")

    def work(_: None) -> Generator[float]:
        learnt = {scheme: _learnt(config, folder, f"{world}/{scheme}") for scheme in config.schemes}
        yield from search_plan(config, Planner(adapt.game_of(_setup(config, scenario))), scenario, file, learnt)

    cost, seconds = planning_cost(config, scenario, len(config.schemes))
    needs = _files(config, folder, *(f"{world}/{scheme}" for scheme in config.schemes))
    return Unit(f"planner-{world}", (Piece(f"planner of {world}", cost, (file,), work, seconds=seconds),), needs)


def changed(config: StudyConfig, scenario: Scenario, stage: int, folder: Path) -> Unit:
    """The best plan in a stage of a federation that changes; the scenario is made `with_room`."""
    file = result_file(folder, f"adapt/planner-{stage}")

    def work(_: None) -> Generator[float]:
        planner = adapt.planner_of(adapt.stage_of(_setup(config, scenario), stage))
        yield from search_plan(config, planner, scenario, file)

    what, (cost, seconds) = f"planner of adaptivity, {adapt.STAGES[stage]}", planning_cost(config, scenario)
    return Unit(f"planner-adapt-{stage}", (Piece(what, cost, (file,), work, seconds=seconds),))


def unpaid(config: StudyConfig, world: str, folder: Path) -> Unit:
    """The best equilibrium without redistribution: solved, or as a seed of WPR has learnt it."""
    scenario, file = config.worlds[world], result_file(folder, f"{world}/equilibrium")
    run = config.run(scenario, "wpr", 1)

    def work(_: None) -> Generator[float]:
        yield 0.0
        learnt = _learnt(config, folder, f"{world}/wpr")
        planned = read_result(folder, f"{world}/planner")
        environment = setup_one(run).environment
        starts = jnp.stack([*map(_as_plan, learnt), _as_plan(planned)])
        wpr = dataclasses.replace(run, agent="wpr")
        imagination = imagination_of(keeping_to(starts, wpr, environment))
        solved = solved_equilibria(environment, wpr, starts, config.games, imagination)
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
        keep(file, {**found, "found_by": best.name})

    ways = FINALISTS * len(CONSTANTS) * config.scenario.silos.count
    learnt = not isinstance(scenario.precision, CurvePrecision)
    cost = PLAY * (ways * config.games + MODELLED * learnt) * scenario.horizon
    needs = (*_files(config, folder, f"{world}/wpr"), result_file(folder, f"{world}/planner"))
    what = f"equilibrium without redistribution of {world}"
    piece = Piece(what, cost, (file,), work, seconds=SOLVING * FIT if learnt else CLIMB)
    return Unit(f"equilibrium-{world}", (piece,), needs)


def _files(config: StudyConfig, folder: Path, *cells: str) -> tuple[Path, ...]:
    """Where what these cells have learnt will be."""
    every = config.cells()
    return tuple(result_file(folder, same_as(every, cell)) for cell in cells)


def _learnt(config: StudyConfig, folder: Path, cell: str) -> list[dict[str, Any]]:
    """Every seed's play after the whole training."""
    seeds: list[dict[str, Any]] = read_result(folder, same_as(config.cells(), cell))["milestones"][-1]["seeds"]
    return seeds


def _as_plan(play: dict[str, Any]) -> Plan:
    return jnp.asarray(play["contributions"], jnp.float32)


def _of_judged(judged: Judgement) -> dict[str, Any]:
    """What one seed's test found, as a cell's results have it."""
    return {
        "welfare": float(judged.own.welfare.mean(dtype=float)),
        "games": judged.own.welfare[0].mean(1, dtype=float).tolist(),
        "gains": judged.gains[0].tolist(),
        "stakes": judged.stakes.tolist(),
        "contributions": judged.own.mean_play[0].tolist(),
    }


def _setup(config: StudyConfig, scenario: Scenario) -> Setup:
    """The scenario's game; who plays it does not matter."""
    return setup_one(config.run(scenario, "random", 1))


def effort_of(config: StudyConfig) -> Effort:
    """A search may play a few times as many games as a scheme learns from in all seeds, and ends when it no longer
    gains; but never too few to find anything.
    """
    games = config.seeds * config.slots // config.scenario.horizon
    if games < THOROUGH.rounds * THOROUGH.games:
        return dataclasses.replace(USUAL, rounds=min(max(games // USUAL.games, FEWEST), USUAL.rounds))
    return THOROUGH


def planning_cost(config: StudyConfig, scenario: Scenario, starts: int = 0) -> tuple[float, float]:
    """In slots of learning, and in seconds besides: of half of the rounds that it may take."""
    if isinstance(scenario.precision, CurvePrecision):
        return PLAY * (starts + 2) * ASCENT_GAMES * scenario.horizon, 2 * CLIMB
    effort = effort_of(config)
    rounds = (effort.rounds + 1) // 2
    plays = rounds * effort.round_plays + (starts + 1) * effort.checking + CANDIDATES * effort.choosing
    return PLAY * plays * scenario.horizon, FIT * rounds


def search_plan(
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
    starts = [_as_plan(max(seeds, key=lambda play: play["welfare"])) for seeds in (learnt or {}).values()]
    plan = yield from best_plan(planner, scenario, effort_of(config), starts)
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
    keep(file, found)
