"""What a run did, one row per lane and window: a CSV file that pandas opens in one call."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from potluck.training.loop import Outcome

LATE = 0.1
"""Share of a run's windows that tell where it ended."""


def columns(outcome: Outcome) -> dict[str, Float[np.ndarray, "windows lanes"]]:
    """Every number that is worth following, by name: the slots' means, then how the updates went (silos' mean)."""
    report = outcome.report
    told = {name: getattr(report, name) for name in ("welfare", "precision", "signal")}
    found = {name: np.asarray(values) for name, values in told.items() if values is not None}
    own = {"contribution": report.contributions, "payoff": report.payoffs, "transfer": report.transfers}
    for name, values in own.items():
        if values is not None:
            found |= {f"{name}_{silo}": np.asarray(values)[..., silo] for silo in range(values.shape[-1])}
    found |= {name: np.asarray(values) for name, values in getattr(report, "more", {}).items()}
    return found | {name: np.asarray(values).mean(-1) for name, values in outcome.diagnostics.items()}


def rows(
    numbers: Mapping[str, Float[np.ndarray, "windows lanes"]], lanes: Sequence[str], first: int, slots: int
) -> str:
    """A chunk's numbers as lines, each beginning with its lane's text; `slot` counts a seed's slots over its games."""
    lines = []
    for window in range(len(next(iter(numbers.values())))):
        for at, lane in enumerate(lanes):
            # The shortest text that reads back as the same float32.
            texts = [np.format_float_positional(column[window, at], trim="0") for column in numbers.values()]
            lines.append(",".join([lane, str(first + (window + 1) * slots), *texts]) + "\n")
    return "".join(lines)


def summary(file: Path) -> dict[str, Any]:
    """Where a run stands: each seed's welfare, and means over seeds, of the last tenth of its windows."""
    if not file.exists() or not file.stat().st_size:
        return {"slots": 0}
    table = np.genfromtxt(file, delimiter=",", names=True, ndmin=1)
    slot = table["slot"]
    late = table[slot > (1 - LATE) * slot.max()]
    silos = [name for name in table.dtype.names or () if name.startswith("contribution_")]
    return {
        "slots": int(slot.max()),
        "welfare": float(late["welfare"].mean()),
        **{name: float(late[name].mean()) for name in ("precision", "signal") if name in (table.dtype.names or ())},
        "contribution": [float(late[name].mean()) for name in silos],
        "welfare_by_seed": {
            str(int(seed)): float(late["welfare"][late["seed"] == seed].mean()) for seed in np.unique(late["seed"])
        },
    }
