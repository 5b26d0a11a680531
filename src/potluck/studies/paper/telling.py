"""From results to what people look at: tables, pictures, verdicts and the page. Needs nothing but the study's files."""

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from potluck.errors import PotluckError, file_faults
from potluck.scenario import render
from potluck.studies.paper.adapt import STAGES
from potluck.studies.paper.charts import charts
from potluck.studies.paper.claims import judge
from potluck.studies.paper.findings import Findings
from potluck.studies.paper.page import page
from potluck.studies.paper.pictures import draw
from potluck.studies.paper.plan import PARTS, STUDY, StudyConfig, read_study, same_as
from potluck.studies.paper.results import RESULTS, result_file
from potluck.studies.paper.tables import all_tables, write_tables
from potluck.studies.paper.verdicts import Claim
from potluck.studies.plain import plain_values
from potluck.studies.planning import Watcher
from potluck.training.files import write_text
from potluck.training.locks import LOCK, lock

TABLES = "tables"
FIGURES = "figures"
CLAIMS = "claims.json"
REPORT = "report.html"
EQUILIBRIUM = "/equilibrium"
"""Without redistribution: everything else can be told before it is solved."""
JUDGED = ("mpgd", "wpr")
"""Schemes without which nothing can be told of a federation that changes."""
PAPERS = 100_000
"""Slots in which the paper's learners have settled."""


def tell(folder: Path, watch: Watcher = lambda *_: None) -> list[Claim]:
    """Write tables, pictures, verdicts and the page; answers the verdicts. One process does so at a time."""
    config, missing = finished(folder)
    with lock(folder / LOCK, wait=True) or contextlib.nullcontext():
        return _told(config, missing, folder, watch)


def _told(config: StudyConfig, missing: str, folder: Path, watch: Watcher) -> list[Claim]:
    watch("tables", 0.0)
    found = Findings.read(config, folder)
    try:
        tables, claims = all_tables(found), judge(found)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as fault:
        place = folder / RESULTS
        raise PotluckError(f"{place}: what is there is not all of a study ({fault!r}); remove it and go on") from fault
    write_tables(tables, folder / TABLES)
    with file_faults(folder, "make room and go on", failed="not written"):
        write_text(folder / CLAIMS, json.dumps([plain_values(claim) for claim in claims], indent=1) + "\n")
        drawn = charts(tables, config)
        for old in (folder / FIGURES).glob("*"):
            if old.stem not in {chart.name for chart in drawn}:
                old.unlink()
        for number, chart in enumerate(drawn):
            watch("pictures", 0.5 + 0.4 * number / len(drawn))
            draw(chart, folder / FIGURES)
        watch("report", 0.9)
        scenarios = {world: render(scenario) for world, scenario in config.worlds.items()}
        title = f"The paper's evaluation on {task_of(config)}"
        budget = " ".join(filter(None, (budget_of(config), missing)))
        write_text(folder / REPORT, page(title, budget, claims, drawn, tables, _settings(config, folder), scenarios))
    return claims


def finished(folder: Path) -> tuple[StudyConfig, str]:
    """The study as far as it is done, and what is not told yet, in words; without its main world there is nothing."""
    config = read_study(folder)

    beside = [f"adapt/{scheme}" for scheme in config.schemes if scheme not in JUDGED]

    def there(name: str) -> bool:
        return result_file(folder, name).exists()

    def done(worlds: Sequence[str], parts: Sequence[str]) -> bool:
        alone = dataclasses.replace(
            config, worlds={world: config.worlds[world] for world in worlds}, parts=tuple(dict.fromkeys(parts))
        )
        needed = (name for name in alone.results() if not name.endswith(EQUILIBRIUM) and name not in beside)
        return all(map(there, needed))

    worlds = [world for world in config.worlds if world == config.main or done([world], PARTS[:1])]
    parts = tuple(part for part in config.parts if part == PARTS[0] or done(worlds, (PARTS[0], part)))
    told = dataclasses.replace(config, worlds={world: config.worlds[world] for world in worlds}, parts=parts)
    absent = [f"the world {world}" for world in config.worlds if world not in worlds]
    absent += [part for part in config.parts if part not in parts]
    absent += [f"equilibrium of {world}" for world in worlds if not there(world + EQUILIBRIUM)]
    absent += [f"adaptivity of {name.partition('/')[2]}" for name in beside if told.changes and not there(name)]
    missing = f"Not done yet, and not told: {', '.join(absent)} (potluck resume {folder})." if absent else ""
    return told, missing


def budget_of(config: StudyConfig) -> str:
    """What the verdicts are about, in words."""
    told = f"Every scheme learnt for {config.slots:,} slots in each of {seeds_of(config)}"
    if config.slots < PAPERS:
        told += f"; the paper's learn for {PAPERS:,}, so these verdicts are about a shorter training than its claims"
    return " ".join(filter(None, (f"{told}.", without(config))))


def without(config: StudyConfig) -> str:
    """Which parts this scenario cannot have, and why; in words, or none."""
    told = ", ".join(f"{part} ({why})" for part, why in config.obstacles.items())
    return f"Left out, since this scenario cannot have it: {told}." if told else ""


def work_of(config: StudyConfig) -> str:
    """What is to be done, in words."""
    cells = config.cells()
    runs = [run for name, run in cells.items() if same_as(cells, name) == name]
    changing = config.changes * len(config.schemes) * config.fewer
    trainings = sum(run.seeds for run in runs) + changing
    slots = sum(run.seeds * run.slots for run in runs) + changing * config.slots
    planners = len(config.worlds) + config.changes * len(STAGES)
    most = f"{trainings} trainings, {slots:,} slots in all, and {planners} {'planners' if planners > 1 else 'planner'}."
    return " ".join(filter(None, (most, without(config))))


def seeds_of(config: StudyConfig) -> str:
    """How many, in words."""
    beside = [f"beside {config.main}"] * (len(config.worlds) > 1) + ["where the federation changes"] * config.changes
    return f"{config.seeds} seeds" + (f" ({config.fewer} {' and '.join(beside)})" if beside else "")


def task_of(config: StudyConfig) -> str:
    """What is trained in the main world, in words."""
    precision: Any = config.scenario.precision
    return f"{precision.task} ({precision.model or 'its own model'})" if precision.source == "fedavg" else "the curve"


def _settings(config: StudyConfig, folder: Path) -> dict[str, str]:
    computed = json.loads((folder / STUDY).read_text(encoding="utf-8")).get("computed_with")
    return {
        "task": task_of(config),
        "seeds": seeds_of(config),
        "slots of each seed": f"{config.slots:,}",
        "games at once": str(config.games),
        "tuning": "the same for MPGD, MAA2C and MAPPO: three learning rates, on the curve (docs/learning.md); MAA2C's "
        "is 3e-3, the others' 1e-3; networks and epochs are alike, but for what a name means; nothing else was tuned",
        **{name: str(value) for name, value in (computed if isinstance(computed, dict) else {}).items()},
    }
