"""One validated description of a run, its presets, and the private terms it draws for each silo."""

from potluck.scenario.description import CurvePrecision, Mechanism, Normal, Scenario, Schedule, Silos
from potluck.scenario.files import load, parse, render
from potluck.scenario.presets import PRESETS, preset

__all__ = [
    "PRESETS",
    "CurvePrecision",
    "Mechanism",
    "Normal",
    "Scenario",
    "Schedule",
    "Silos",
    "load",
    "parse",
    "preset",
    "render",
]
