"""The tables and the picture of docs/learning.md from what `agents.py` wrote: one JSON file per agent in a folder.

    python benchmarks/tables.py FOLDER --plot docs/figures/agents.png --together docs/data/agents.json

Files called form-… are forms of MPGD, the others are agents. The picture shows the mean over seeds, smoothed over a
thirtieth of the run.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

NAMES = {
    "mpgd": "MPGD",
    "maa2c": "MAA2C",
    "mappo": "MAPPO (its critic sees all)",
    "wpr": "WPR (no redistribution)",
    "planner": "planner (one learner for all)",
    "greedy": "Greedy",
}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """One line of Markdown per agent, the best in evaluation first."""
    lines = ["| | exploring | slots to 95% | in evaluation | mean d | gain |", "|---|---|---|---|---|---|"]
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["evaluation"]["mean"]):
        share = row.get("constant_gain_share")
        gain = "" if share is None else f"{share:.0%}"
        rises = row["final"]["mean"] > np.mean(row["curve"]["welfare"], axis=0)[0]
        arrival = f"{np.median(row['slots_to_95']):,.0f}" if rises else "falls"
        exploring, evaluation = (
            f"{row[key]['mean']:.1f} ({row[key]['low']:.1f} … {row[key]['high']:.1f})"
            for key in ("final", "evaluation")
        )
        lines.append(f"| {name} | {exploring} | {arrival} | {evaluation} | {row['contribution']:.2f} | {gain} |")
    return "\n".join(lines)


def draw(rows: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Welfare while learning."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    whole, closer = figure.subplots(1, 2)
    for name, row in rows.items():
        welfare = np.mean(row["curve"]["welfare"], axis=0)
        width = max(len(welfare) // 30, 1)
        smooth = np.convolve(welfare, np.ones(width) / width, mode="valid")
        slots = (np.arange(len(smooth)) + width) * row["curve"]["slots_per_window"]
        for axes in (whole, closer):
            axes.plot(slots, smooth, label=name)
    best = max(row["final"]["mean"] for row in rows.values())
    closer.set(ylim=(best - 50, best + 10), title="The same, closer")
    whole.set(title=f"What agents learn on the digits: mean of {next(iter(rows.values()))['seeds']} seeds")
    for axes in (whole, closer):
        axes.set(xlabel="slots played by each seed", ylabel="welfare per slot, exploring")
        axes.grid(alpha=0.3)
    closer.legend(loc="lower right")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--together", type=Path, help="all rows in one file")
    asked = parser.parse_args()
    found = {file.stem: json.loads(file.read_text()) for file in sorted(asked.folder.glob("*.json"))}
    agents = {title: found[name] for name, title in NAMES.items() if name in found}
    forms = {", ".join(name.split("-")[1:]): row for name, row in found.items() if name.startswith("form-")}
    print(table(agents), table(forms), sep="\n\n")
    if asked.plot:
        draw(agents, asked.plot)
    if asked.together:
        asked.together.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
