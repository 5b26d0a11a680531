"""One validated description of a run, its presets, and the private terms it draws."""

from potluck.scenario.description import CurvePrecision, Scenario, Silos, mechanism_of
from potluck.scenario.federation import FederationConfig
from potluck.scenario.fields import Normal
from potluck.scenario.files import load, parse, render
from potluck.scenario.mechanism import MechanismConfig
from potluck.scenario.presets import PRESETS, preset
from potluck.scenario.terms import Drawn, Terms, TermsDraw

__all__ = [
    "PRESETS",
    "CurvePrecision",
    "Drawn",
    "FederationConfig",
    "MechanismConfig",
    "Normal",
    "Scenario",
    "Silos",
    "Terms",
    "TermsDraw",
    "load",
    "mechanism_of",
    "parse",
    "preset",
    "render",
]
