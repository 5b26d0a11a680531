"""From results to what people look at: tables, pictures, verdicts and the page. Needs nothing but the study's files."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from potluck.errors import file_faults
from potluck.scenario import render
from potluck.studies.paper.charts import charts
from potluck.studies.paper.claims import Claim, judge
from potluck.studies.paper.page import page
from potluck.studies.paper.pictures import draw
from potluck.studies.paper.plan import PARTS, STUDY, StudyConfig, read_study
from potluck.studies.paper.results import result_file
from potluck.studies.paper.tables import Findings, all_tables, write_tables
from potluck.studies.plain import plain_values
from potluck.studies.planning import Watcher
from potluck.training.files import write_text

TABLES = "tables"
FIGURES = "figures"
CLAIMS = "claims.json"
REPORT = "report.html"
PAPERS = 100_000
"""Slots in which the paper's learners have settled."""


def tell(folder: Path, watch: Watcher = lambda *_: None) -> list[Claim]:
    """Write tables, pictures, verdicts and the page; answers the verdicts."""
    config, missing = finished(folder)
    watch("tables", 0.0)
    found = Findings.read(config, folder)
    tables = all_tables(found)
    write_tables(tables, folder / TABLES)
    watch("verdicts", 0.4)
    claims = judge(found)
    with file_faults(folder, "make room and go on", failed="not written"):
        write_text(folder / CLAIMS, json.dumps([plain_values(claim) for claim in claims], indent=1) + "\n")
        drawn = charts(tables, config)
        for place, chart in enumerate(drawn):
            watch("pictures", 0.5 + 0.4 * place / len(drawn))
            draw(chart, folder / FIGURES)
        watch("report", 0.9)
        scenarios = {world: render(scenario) for world, scenario in config.worlds.items()}
        title = f"The paper's evaluation on {task_of(config)}"
        budget = " ".join(filter(None, (budget_of(config), missing)))
        write_text(folder / REPORT, page(title, budget, claims, drawn, tables, _settings(config, folder), scenarios))
    return claims


def finished(folder: Path) -> tuple[StudyConfig, str]:
    """The study as far as it is done, and what is not told yet, in words; without its schemes there is nothing."""
    config = read_study(folder)

    def done(part: str) -> bool:
        alone = dataclasses.replace(config, parts=tuple(dict.fromkeys((PARTS[0], part))))
        return all(result_file(folder, name).exists() for name in alone.results())

    there = tuple(part for part in config.parts if part == PARTS[0] or done(part))
    absent = [part for part in config.parts if part not in there]
    missing = f"Not done yet, and not told: {', '.join(absent)} (potluck resume {folder})." if absent else ""
    return dataclasses.replace(config, parts=there), missing


def budget_of(config: StudyConfig) -> str:
    """What the verdicts are about, in words."""
    told = f"Every scheme learnt for {config.slots:,} slots in each of {seeds_of(config)}"
    if config.slots < PAPERS:
        return (
            f"{told}; the paper's learn for {PAPERS:,}, so these verdicts are about a shorter training than its claims."
        )
    return f"{told}."


def seeds_of(config: StudyConfig) -> str:
    """How many, in words."""
    beside = (
        "where the federation changes" if len(config.worlds) == 1 else f"beside {config.main}, and where it changes"
    )
    return f"{config.seeds} seeds ({config.fewer} {beside})"


def task_of(config: StudyConfig) -> str:
    """What is trained in the main world, in words."""
    precision: Any = config.scenario.precision
    return f"{precision.task} ({precision.model or 'its own model'})" if precision.source == "fedavg" else "the curve"


def _settings(config: StudyConfig, folder: Path) -> dict[str, str]:
    computed = json.loads((folder / STUDY).read_text(encoding="utf-8")).get("computed_with", {})
    return {
        "task": task_of(config),
        "seeds": seeds_of(config),
        "slots of each seed": f"{config.slots:,}",
        "games at once": str(config.games),
        "tuning": "the same for every learner: three learning rates, on the curve (docs/learning.md); MAA2C's is 3e-3, "
        "MPGD's and MAPPO's 1e-3; networks and epochs are the same, but for what a name means",
        **{name: str(value) for name, value in computed.items()},
    }
