"""Findings whose verdicts are known, because somebody made them up."""

from typing import Any

import numpy as np

from potluck.scenario import preset
from potluck.studies.paper.findings import Findings
from potluck.studies.paper.plan import INTENSITIES, StudyConfig, intensity_cell, schedule_cell

SEEDS, POINTS, SILOS, SLOTS = 5, 20, 4, 3
LEVELS = {"mpgd": 100.0, "maa2c": 90.0, "mappo": 80.0, "greedy": 40.0, "wpr": 60.0}
SPEED = {"mpgd": 3, "maa2c": 8, "mappo": 10, "greedy": 6, "wpr": 12}
"""Points until a curve is at its end."""


def noise(place: int) -> np.ndarray:
    return np.random.default_rng(place).normal(0, 0.1, SEEDS)


def seed_of(welfare: float, gains: float = 0.01) -> dict[str, Any]:
    return {
        "welfare": welfare,
        "games": [welfare - 1, welfare - 0.5, welfare, welfare + 0.5, welfare + 1],
        "payoffs": [welfare / SILOS] * SILOS,
        "transfers": [1.0, -1.0, 2.0, -2.0],
        "everything": {"welfare": 70.0, "payoffs": [17.5] * SILOS, "transfers": [0.0] * SILOS},
        "gains": [gains] * SILOS,
        "stakes": [1.0] * SILOS,
        "precision": [0.5, 0.6, 0.7],
        "contributions": [[0.1, 0.2, 0.3, 0.4]] * SLOTS,
    }


def cell_of(level: float, place: int, speed: int = 5, gains: float = 0.01) -> dict[str, Any]:
    """A rise from 20 to a level within `speed` points, then no more."""
    way = np.minimum(np.arange(POINTS) / speed, 1.0)
    curves = [(20 + (level - 20) * way + shift).tolist() for shift in noise(place)]
    stones = [
        {"slots": slots, "seeds": [seed_of(level + shift, gains) for shift in noise(place)]} for slots in (100, 2000)
    ]
    by_silo = {f"payoff_{silo}": [[value / SILOS for value in curve] for curve in curves] for silo in range(SILOS)}
    curve = {"slots": [100 * (point + 1) for point in range(POINTS)], "welfare": curves, **by_silo}
    return {"curve": curve, "milestones": stones, "strangers": [seed_of(level - 5, gains) for _ in range(SEEDS)]}


def adapted(before: float, after: float, place: int) -> dict[str, Any]:
    """Half of the time at one level, then a dip to 0 and, five points later, another level."""
    curve = np.concatenate([np.full(10, before), np.zeros(3), np.full(7, after)])
    curves = [(curve + shift).tolist() for shift in noise(place)]
    slots = [100 * (point + 1) for point in range(POINTS)]
    return {"curve": {"slots": slots, "welfare": curves}, "turns": [1000, 1500]}


def planner(welfare: float) -> dict[str, Any]:
    return {
        "welfare": welfare,
        "games": [welfare - 1.1, welfare - 0.4, welfare, welfare + 0.4, welfare + 1.1],
        "payoffs": [welfare / SILOS] * SILOS,
        "precision": [0.6, 0.7, 0.8],
        "contributions": [[0.5] * SILOS] * SLOTS,
    }


def equilibrium(welfare: float, gains: float) -> dict[str, Any]:
    """As a study writes down the best that it found without redistribution; its games have the luck of WPR's."""
    return {**seed_of(welfare, gains), "found_by": "solved 1"}


def findings(levels: dict[str, float] = LEVELS, best: float = 5.0, printed: float = -1.0) -> Findings:
    """MPGD ahead and fastest; welfare against α0 a hill with its top at `best`; the printed rule ahead by `printed`."""
    config = StudyConfig({"paper": preset("paper")}, seeds=SEEDS, slots=2000, games=2)
    cells = {
        f"paper/{scheme}": cell_of(level, place, SPEED[scheme]) for place, (scheme, level) in enumerate(levels.items())
    }
    cells["paper/random"] = cell_of(30.0, 9)
    for level in INTENSITIES:
        cells[intensity_cell(level)] = cell_of(100 - 3 * abs(np.log2((level + 1) / (best + 1))), 11)
    for place, (rule, lead) in enumerate((("constant", 0.0), ("gain", 0.0), ("printed", printed)), 12):
        cells[schedule_cell("paper", rule)] = cell_of(100 + lead, place)
    moved = {scheme: adapted(level, level, place) for place, (scheme, level) in enumerate(levels.items())}
    return Findings(config, cells, {"paper": planner(120.0)}, moved, [planner(120.0)] * 3)
