"""A sweep as people look at it: one line per cell, and a picture."""

from pathlib import Path
from typing import Any

import numpy as np

from potluck.studies.intervals import interval
from potluck.studies.looks import line_look
from potluck.studies.plain import plain_values
from potluck.training.metrics import LATE
from potluck.training.sweep import SweepConfig


def by_cell(file: Path, config: SweepConfig) -> list[dict[str, Any]]:
    """Each cell's values and, over seeds, where it stood in the last tenth of its windows, while exploring."""
    rows = np.genfromtxt(file, delimiter=",", names=True, ndmin=1, deletechars="", replace_space=" ")
    shares = [name for name in rows.dtype.names or () if name.startswith("contribution_")]
    found = []
    for number, cell in enumerate(config.cells()):
        own = rows[rows["cell"] == number]
        own = own[own["slot"] > (1 - LATE) * own["slot"].max(initial=0)]  # programs may differ in length
        seeds = [own[own["seed"] == seed] for seed in np.unique(own["seed"])]
        columns = {
            "welfare": np.array([seed["welfare"].mean() for seed in seeds]),
            "precision": np.array([seed["precision"].mean() for seed in seeds]),
            "contribution": np.array([np.nanmean([seed[name] for name in shares]) for seed in seeds]),
        }
        measured = {name: plain_values(interval(values)) for name, values in columns.items()}
        found.append({"values": dict(zip(config.names, cell.values, strict=True)), "seeds": len(seeds), **measured})
    return found


def draw_sweep(found: list[dict[str, Any]], config: SweepConfig, path: Path) -> None:
    """Welfare and mean contribution against the first field, a line for every combination of the others."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    first, others = config.names[0], config.names[1:]
    lines: dict[tuple[float, ...], list[dict[str, Any]]] = {}
    for cell in found:
        lines.setdefault(tuple(cell["values"][name] for name in others), []).append(cell)
    units = {"welfare": "money per slot", "contribution": "share of data"}
    for axes, (quantity, unit) in zip(panels, units.items(), strict=True):
        for place, (values, cells) in enumerate(lines.items()):
            at = [cell["values"][first] for cell in cells]
            label = ", ".join(f"{name} {value:g}" for name, value in zip(others, values, strict=True))
            look = line_look(place)
            axes.plot(at, [cell[quantity]["mean"] for cell in cells], marker="o", label=label or None, **look)
            low, high = ([cell[quantity][end] for cell in cells] for end in ("low", "high"))
            axes.fill_between(at, low, high, color=look["color"], alpha=0.2, linewidth=0)
        axes.set(xlabel=first, ylabel=f"{quantity} ({unit})")
        axes.grid(alpha=0.3)
    if others:
        panels[0].legend()
    figure.suptitle(f"{config.base.agent}, {config.base.seeds} seeds, 95% intervals")
    figure.savefig(path, dpi=130)
