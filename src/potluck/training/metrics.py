"""What a run did, one row per seed and window: a CSV file that pandas opens in one call."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["header", "rows", "summary"]

LATE = 0.1
"""Share of a run's windows that tell where it ended."""


def header(silos: int) -> str:
    """Column names."""
    own = [f"{name}_{n}" for name in ("contribution", "payoff") for n in range(silos)]
    return ",".join(["seed", "slot", "welfare", "precision", "intensity", *own]) + "\n"


def rows(report: Any, seeds: Iterable[int], first: int, slots: int) -> str:
    """A chunk's report, [windows, seeds, …], as lines; `slot` counts a seed's slots over all its games."""
    parts = [np.asarray(part) for part in (report.welfare, report.precision, report.intensity)]
    own = [np.asarray(part) for part in (report.contributions, report.payoffs)]
    lines = []
    for window in range(len(parts[0])):
        for at, seed in enumerate(seeds):
            numbers = [part[window, at] for part in parts] + [value for part in own for value in part[window, at]]
            # The shortest text that reads back as the same float32.
            texts = [np.format_float_positional(number, trim="0") for number in numbers]
            lines.append(",".join([str(seed), str(first + (window + 1) * slots), *texts]) + "\n")
    return "".join(lines)


def summary(file: Path) -> dict[str, Any]:
    """Where a run stands: each seed's welfare, and means over seeds, of the last tenth of its windows."""
    table = np.genfromtxt(file, delimiter=",", names=True, ndmin=1)
    slot = table["slot"]
    if not len(slot):
        return {"slots": 0}
    late = table[slot > (1 - LATE) * slot.max()]
    silos = [name for name in table.dtype.names or () if name.startswith("contribution_")]
    return {
        "slots": int(slot.max()),
        "welfare": float(late["welfare"].mean()),
        "precision": float(late["precision"].mean()),
        "intensity": float(late["intensity"].mean()),
        "contribution": [float(late[name].mean()) for name in silos],
        "welfare_by_seed": {
            str(int(seed)): float(late["welfare"][late["seed"] == seed].mean()) for seed in np.unique(late["seed"])
        },
    }
