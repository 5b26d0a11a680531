"""One validated description of a run, its presets, and the private terms it draws for each silo."""

from potluck.scenario.description import (
    CurvePrecision,
    FedAvgPrecision,
    Mechanism,
    Normal,
    Observation,
    Scenario,
    Schedule,
    Silos,
)
from potluck.scenario.files import load, parse, render
from potluck.scenario.presets import PRESETS, preset

__all__ = [
    "PRESETS",
    "CurvePrecision",
    "FedAvgPrecision",
    "Mechanism",
    "Normal",
    "Observation",
    "Scenario",
    "Schedule",
    "Silos",
    "load",
    "parse",
    "preset",
    "render",
]
