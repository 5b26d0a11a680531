"""What the evaluation consists of: worlds, schemes, and what is varied. Written down at the start, read to go on."""

import contextlib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from potluck.agents import AGENTS
from potluck.errors import PotluckError, file_faults
from potluck.mechanisms.redistribution import RedistributionConfig
from potluck.scenario import Scenario, render
from potluck.studies.paper import adapt
from potluck.training.config import RunConfig, computed_with, setup_one, values_of
from potluck.training.files import write_text
from potluck.training.job import check_room
from potluck.training.locks import LOCK, lock

STUDY = "study.json"
SCENARIO = "scenario.toml"

SCHEMES = ("mpgd", "maa2c", "mappo", "greedy", "wpr")
"""The paper's."""
INTENSITIES = (0.0, 1.0, 2.0, 4.0, 5.0, 8.0, 16.0, 32.0)
"""α0 of the paper's third figure."""
SCHEDULES = ("constant", "gain", "printed")
PARTS = ("schemes", "intensities", "schedules", "adaptivity")
"""Of a study: the comparison, α0, the rules for α, and a federation that changes."""
LOOKS = 20
"""At every training, at least: between them it is measured, and the federation changes."""
MILESTONES = (0.1, 0.25, 0.5, 1.0)
"""Shares of a training after which what is learnt is measured."""


@dataclass(frozen=True)
class StudyConfig:
    """The same budget for every scheme."""

    worlds: dict[str, Scenario]
    """The first is the one that everything is varied in."""
    seeds: int = 10
    """Of the main world."""
    slots: int = 100_000
    games: int = 16
    """That a seed learns in at once, and in which what is learnt is measured."""
    schemes: tuple[str, ...] = SCHEMES
    """Agents that are compared, those without which nothing can be judged among them."""
    parts: tuple[str, ...] = PARTS
    """What is done; the schemes always are."""

    def __post_init__(self) -> None:
        own = [name for name, spec in AGENTS.items() if not spec.joint and spec.usage is None and name != "random"]
        for scheme in self.schemes:
            if scheme not in own or self.schemes.count(scheme) > 1:
                raise PotluckError(f"must be of {', '.join(own)}, each once, got {scheme!r}", field="schemes")
        for needed in ("mpgd", "wpr"):
            if needed not in self.schemes:
                raise PotluckError(f"must name {needed}: the claims are about it", field="schemes")
        for part in self.parts:
            if part not in PARTS or self.parts.count(part) > 1:
                raise PotluckError(f"must be of {', '.join(PARTS)}, each once, got {part!r}", field="parts")
        if PARTS[0] not in self.parts:
            raise PotluckError(f"must name {PARTS[0]}: everything is measured against them", field="parts")
        for name, least in (("seeds", 2), ("games", 2), ("slots", 1)):
            if getattr(self, name) < least:
                raise PotluckError(f"must be {least} or more, got {getattr(self, name)}", field=name)
        RunConfig(self.scenario, slots=self.slots, seeds=self.seeds, games=self.games)

    @property
    def main(self) -> str:
        """The world that everything is varied in."""
        return next(iter(self.worlds))

    @property
    def scenario(self) -> Scenario:
        return self.worlds[self.main]

    @property
    def fewer(self) -> int:
        """Seeds in the worlds beside it, and of adaptivity."""
        return max(2, self.seeds // 2)

    def run(self, scenario: Scenario, scheme: str, seeds: int) -> RunConfig:
        """A scheme's training. WPR is MPGD at α0 = 0, where there is an α0: no money moves, and it is one program.

        Who plays at random learns nothing, and need not play as long.
        """
        if scheme == "wpr" and one_intensity(scenario):
            scenario, scheme = _changed(scenario, intensity=0.0), "mpgd"
        enough = LOOKS * self.games * RunConfig(scenario).depth if scheme == "random" else self.slots
        return RunConfig(scenario, scheme, slots=min(enough, self.slots), seeds=seeds, games=self.games, looks=LOOKS)

    @property
    def sweeps(self) -> bool:
        """Whether α0 is varied."""
        return "intensities" in self.parts and one_intensity(self.scenario)

    @property
    def changes(self) -> bool:
        """Whether there is a federation that changes."""
        return "adaptivity" in self.parts and adapt.obstacle(self.scenario) is None

    @property
    def obstacles(self) -> dict[str, str]:
        """Parts that this scenario cannot have, and why."""
        found = {} if (why := adapt.obstacle(self.scenario)) is None else {"adaptivity": why}
        if not one_intensity(self.scenario):
            found |= dict.fromkeys(("intensities", "schedules"), "there is no one α0 for all")
        return {part: found[part] for part in self.parts if part in found}

    def cells(self) -> dict[str, RunConfig]:
        """Every training but those of adaptivity, by name."""
        found = {}
        for world, scenario in self.worlds.items():
            seeds = self.seeds if world == self.main else self.fewer
            for scheme in (*self.schemes, "random"):
                found[f"{world}/{scheme}"] = self.run(scenario, scheme, seeds)
            for rule in self.rules(world):
                found[schedule_cell(world, rule)] = self.run(_changed(scenario, schedule=rule), "mpgd", seeds)
        if self.sweeps:
            for level in INTENSITIES:
                found[intensity_cell(level)] = self.run(_changed(self.scenario, intensity=level), "mpgd", self.seeds)
        return found

    def results(self) -> list[str]:
        """Names of all that is found: of cells, those that train the same once."""
        cells = self.cells()
        found = list(dict.fromkeys(same_as(cells, name) for name in cells))
        found += [f"{world}/{bound}" for world in self.worlds for bound in ("planner", "equilibrium")]
        if self.changes:
            found += [f"adapt/{scheme}" for scheme in self.schemes]
            found += [f"adapt/planner-{stage}" for stage in range(len(adapt.STAGES))]
        return found

    def rules(self, world: str) -> tuple[str, ...]:
        """For α, that are compared in a world; the printed one, which nobody would use, in the main one only."""
        if "schedules" not in self.parts or not one_intensity(self.worlds[world]):
            return ()
        return SCHEDULES if world == self.main else SCHEDULES[:2]

    @property
    def digest(self) -> str:
        """Of all that decides what is found."""
        return hashlib.sha256(json.dumps(_written(self), sort_keys=True).encode()).hexdigest()


def same_as(cells: dict[str, RunConfig], name: str) -> str:
    """The first cell that trains the same: α0 as it is, and the schedule as it is, are trained once."""
    return next(first for first, run in cells.items() if values_of(run) == values_of(cells[name]))


def moves_money(scenario: Scenario) -> bool:
    """Whether silos are paid at all: WPR is the same otherwise."""
    mechanism = scenario.mechanism
    return mechanism.kind != "none" and getattr(mechanism, "intensity", 1.0) != 0.0


def one_intensity(scenario: Scenario) -> bool:
    """Whether payoff is redistributed at one α0 for all."""
    mechanism = scenario.mechanism
    return isinstance(mechanism, RedistributionConfig) and isinstance(mechanism.intensity, int | float)


def _changed(scenario: Scenario, **numbers: float | str) -> Scenario:
    return scenario.model_copy(update={"mechanism": scenario.mechanism.model_copy(update=numbers)})


def intensity_cell(level: float) -> str:
    return f"intensity/{level:g}"


def schedule_cell(world: str, rule: str) -> str:
    return f"schedule-{world}/{rule}"


def _written(config: StudyConfig) -> dict[str, Any]:
    worlds = {name: world.model_dump(mode="json") for name, world in config.worlds.items()}
    numbers = {name: getattr(config, name) for name in ("seeds", "slots", "games")}
    return {"worlds": worlds, **numbers, "schemes": list(config.schemes), "parts": list(config.parts)}


def begin_study(config: StudyConfig, folder: Path) -> None:
    """Write down what the study is, or find it written down already; another study is refused."""
    if _begun(config, folder):
        return
    setups = {scheme: setup_one(config.run(config.scenario, scheme, 2)) for scheme in config.schemes}
    lanes = config.seeds * (len(INTENSITIES) if config.sweeps else 2) + 2 * config.fewer * (len(config.worlds) - 1)
    check_room(config.run(config.scenario, "mpgd", config.seeds), setups["mpgd"], lanes)
    with file_faults(folder, "name a folder to write to"):
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / LOCK, wait=True) or contextlib.nullcontext():
            if not _begun(config, folder):  # another process may have begun it since
                write_text(folder / SCENARIO, render(config.scenario))
                written = {**_written(config), "computed_with": computed_with()}
                write_text(folder / STUDY, json.dumps(written, indent=1) + "\n")


def _begun(config: StudyConfig, folder: Path) -> bool:
    if not (folder / STUDY).exists():
        return False
    if read_study(folder).digest != config.digest:
        raise PotluckError(f"{folder}: holds another study; name another folder", field="out")
    return True


def read_study(folder: Path) -> StudyConfig:
    """The study that was begun here."""
    place = folder / STUDY
    try:
        written = json.loads(place.read_text(encoding="utf-8"))
        worlds = {name: Scenario.model_validate(world) for name, world in written["worlds"].items()}
        numbers = {name: int(written[name]) for name in ("seeds", "slots", "games")}
        return StudyConfig(worlds, **numbers, schemes=tuple(written["schemes"]), parts=tuple(written["parts"]))
    except FileNotFoundError:
        raise PotluckError(f"{folder}: no study here; begin one with `potluck study paper --out {folder}`") from None
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as fault:
        raise PotluckError(f"{place}: cannot be read as a study ({fault})") from None
