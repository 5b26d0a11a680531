"""The same mechanisms and agents on a real Flower federation.

    ServerApp:  Incentivized(FedAvg(), scenario="scenario.toml", ledger="ledger.db", …)
    ClientApp:  ClientApp(mods=[contribution(agent="policy.potluck")]), training on contributed(data)

Imported when it is first used: a silo needs nothing of the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from potluck.flower.incentivized import Incentivized
    from potluck.flower.mod import contribution
    from potluck.flower.trim import contributed, contributed_samples

__all__ = ["Incentivized", "contributed", "contributed_samples", "contribution"]

_HOMES = {"Incentivized": "incentivized", "contribution": "mod", "contributed": "trim", "contributed_samples": "trim"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"potluck.flower.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'potluck.flower' has no attribute {name!r}")
