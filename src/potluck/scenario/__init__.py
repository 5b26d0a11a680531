"""One validated description of a run, its presets, the private terms it draws, and what a mechanism is."""

from potluck.scenario.description import CurvePrecision, Scenario, Silos, mechanism_of
from potluck.scenario.federation import FederationConfig
from potluck.scenario.fields import Normal
from potluck.scenario.files import load, parse, render
from potluck.scenario.mechanism import Declared, Facts, Mechanism, MechanismConfig, Separable
from potluck.scenario.presets import PRESETS, preset
from potluck.scenario.terms import Drawn, Terms, TermsDraw

__all__ = [
    "PRESETS",
    "CurvePrecision",
    "Declared",
    "Drawn",
    "Facts",
    "FederationConfig",
    "Mechanism",
    "MechanismConfig",
    "Normal",
    "Scenario",
    "Separable",
    "Silos",
    "Terms",
    "TermsDraw",
    "load",
    "mechanism_of",
    "parse",
    "preset",
    "render",
]
