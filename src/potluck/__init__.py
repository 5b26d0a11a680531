"""Potluck makes a cross-silo federation pay its members fairly for the data they bring.

What a person needs in ten lines, imported when it is first used:

    import potluck

    scenario = potluck.preset("paper")
    run = potluck.train(scenario, agent="mpgd", slots=20_000, seeds=2, out="runs/x")
    potluck.certify(run).nash_conv
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from potluck import game, mechanisms, scenario
    from potluck.agents.known_games import ENVIRONMENTS
    from potluck.federation.from_scenario import on_task
    from potluck.mechanisms import MECHANISMS
    from potluck.scenario import Scenario, load, preset
    from potluck.studies.certificate import certify
    from potluck.training.api import train
    from potluck.training.environments import environment
    from potluck.training.export import export_policy, load_policy

__all__ = [
    "ENVIRONMENTS",
    "MECHANISMS",
    "Scenario",
    "__version__",
    "certify",
    "environment",
    "export_policy",
    "game",
    "load",
    "load_policy",
    "mechanisms",
    "on_task",
    "preset",
    "scenario",
    "train",
]

__version__ = version("potluck-fl")

_HOMES = {
    "potluck.agents.known_games": ("ENVIRONMENTS",),
    "potluck.federation.from_scenario": ("on_task",),
    "potluck.mechanisms": ("MECHANISMS",),
    "potluck.scenario": ("Scenario", "load", "preset"),
    "potluck.studies.certificate": ("certify",),
    "potluck.training.api": ("train",),
    "potluck.training.environments": ("environment",),
    "potluck.training.export": ("export_policy", "load_policy"),
}


def __getattr__(name: str) -> Any:
    if name in ("game", "mechanisms", "scenario"):
        return import_module(f"potluck.{name}")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'potluck' has no attribute {name!r}")
