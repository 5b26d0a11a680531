"""A grid of scenarios, trained cell by cell and seed by seed side by side, in as few programs as their shapes allow."""

import contextlib
import csv
import dataclasses
import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from potluck.errors import PotluckError, reason
from potluck.scenario import Scenario
from potluck.scenario.explain import first_fault
from potluck.training.config import (
    SCENARIO,
    RunConfig,
    read_values,
    setup_one,
    warn_of_other_machine,
    write_config,
)
from potluck.training.files import write_text
from potluck.training.job import check_room
from potluck.training.programs import programs
from potluck.training.run import INTERVAL, METRICS, Progress, restart

SWEEP = "sweep.json"
TABLE = "sweep.csv"
MOST_CELLS = 10_000


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    number: int
    values: tuple[float, ...]
    config: RunConfig

    @property
    def labelled(self) -> tuple[str, RunConfig]:
        """With its text in the table."""
        return ",".join([str(self.number), *(f"{value:.15g}" for value in self.values)]), self.config


@dataclass(frozen=True)
class SweepConfig:
    """A run, and which numbers of its scenario take which values; several make a grid."""

    base: RunConfig
    vary: tuple[tuple[str, tuple[float, ...]], ...]
    """Fields by their path, such as mechanism.intensity."""

    def __post_init__(self) -> None:
        if not self.vary:
            raise PotluckError("must name a field and its values, such as mechanism.intensity=0,1,2", field="vary")
        names = [name for name, _ in self.vary]
        if len(set(names)) < len(names):
            raise PotluckError(f": {max(names, key=names.count)} is there twice; give its values once", field="vary")
        count = int(np.prod([len(values) for _, values in self.vary]))
        if count > MOST_CELLS:
            raise PotluckError(f"makes {count} cells; {MOST_CELLS} is the most", field="vary")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.vary)

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the table, that tell cells apart."""
        return "cell", *(f"scenario.{name}" if name == "seed" else name for name in self.names)

    def cells(self) -> list[Cell]:
        """Every combination, the last field fastest; a value that the scenario refuses is named."""
        grid = itertools.product(*(values for _, values in self.vary))
        return [Cell(number, values, self._at(values)) for number, values in enumerate(grid)]

    def _at(self, values: Sequence[float]) -> RunConfig:
        written = self.base.federation.model_dump(mode="json")
        for path, value in zip(self.names, values, strict=True):
            _set(written, path, value)
        try:
            scenario = Scenario.model_validate(written)
        except ValidationError as fault:
            raise PotluckError(f": {first_fault(fault, Scenario)}", field="vary") from None
        return dataclasses.replace(self.base, scenario=scenario)


def _set(written: dict[str, Any], path: str, value: float) -> None:
    """Put a number where the path leads; only what is a number, or holds numbers, can be swept."""
    *tables, name = path.split(".")
    at: Any = written
    for table in tables:
        at = at.get(table) if isinstance(at, dict) else None
    if not isinstance(at, dict) or name not in at:
        known = ", ".join(at) if isinstance(at, dict) else "no table"
        raise PotluckError(f": {path} is no field of the scenario; known there: {known}", field="vary")
    if isinstance(at[name], bool | str):
        raise PotluckError(f": {path} is not a number", field="vary")
    at[name] = int(value) if isinstance(at[name], int | None) and value == int(value) else value


@dataclass(frozen=True)
class SweepProgress:
    """Where a sweep stands."""

    program: int
    """Which of the compiled programs is at work, counted from 1."""
    programs: int
    cells: int
    """Of this program."""
    progress: Progress


def begin_sweep(config: SweepConfig, folder: Path) -> None:
    """Make a folder for it and write down what it is; whoever runs it reads that."""
    cells = config.cells()
    check_room(config.base, setup_one(config.base), len(cells) * config.base.seeds)
    if (folder / SWEEP).exists():
        raise PotluckError(f"{folder}: holds a sweep; go on with `potluck resume {folder}` or name another folder")
    for place in (folder / TABLE, folder / SCENARIO, *folder.glob("program-*")):
        if place.exists():
            raise PotluckError(f"{place}: would be overwritten; name another folder")
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config.base, folder, SWEEP, vary={name: list(values) for name, values in config.vary})


def read_sweep(folder: Path) -> SweepConfig:
    """The sweep that was begun here."""
    values = read_values(folder, SWEEP)
    try:
        vary = tuple((name, tuple(map(float, numbers))) for name, numbers in values.pop("vary").items())
        return SweepConfig(RunConfig(**values), vary)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise PotluckError(f"{folder / SWEEP}: cannot be read as a sweep ({fault})") from None


def run_sweep(folder: Path, *, interval: float = INTERVAL) -> Generator[SweepProgress]:
    """Train every cell that is not done, program by program; closing this keeps what is learnt so far."""
    config = read_sweep(folder)
    warn_of_other_machine(folder, SWEEP)
    jobs = programs([cell.labelled for cell in config.cells()], config.columns, folder)
    for number, job in enumerate(jobs, 1):
        with _writable(folder):
            job.folder.mkdir(exist_ok=True)
        run = restart(job, interval)
        try:
            for progress in run:
                _join(folder, len(jobs))
                yield SweepProgress(number, len(jobs), len(job.labels) // config.base.seeds, progress)
        finally:
            run.close()
    _join(folder, len(jobs))


def _join(folder: Path, programs: int) -> None:
    """One table of what all programs have written so far, cell by cell; a column that a program lacks stays empty."""
    tables = []
    for number in range(1, programs + 1):
        metrics = folder / f"program-{number:02d}" / METRICS
        if metrics.exists():
            with metrics.open(newline="", encoding="utf-8") as file:
                tables.append(list(csv.DictReader(file)))
    columns = list(dict.fromkeys(itertools.chain.from_iterable(table[0] for table in tables if table)))
    rows = sorted((row for table in tables for row in table), key=lambda row: (int(row["cell"]), int(row["seed"])))
    lines = [",".join(columns), *(",".join(row.get(column, "") for column in columns) for row in rows)]
    with _writable(folder):
        write_text(folder / TABLE, "\n".join(lines) + "\n")


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        said = f"not written ({reason(fault)}); what is learnt is kept, mend it and resume"
        raise PotluckError(f"{fault.filename or folder}: {said}") from None
