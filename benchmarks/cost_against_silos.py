"""What a slot of learning costs against the number of silos: table, JSON and picture.

    python benchmarks/cost_against_silos.py OUT.json --plot OUT.png --agents mbpg mpgd --task digits

Milliseconds of a slot, summed over all silos, with 16 games side by side: best of three stretches after everything is
compiled and MBPG's survey is over, agents by turns in one run. Without `--task` precision follows the curve, so that
nearly all of it is the agents' own.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

from potluck.agents import AGENTS
from potluck.devices import mesh_over, use_cores
from potluck.federation.from_scenario import on_task
from potluck.scenario import Scenario, preset
from potluck.training.config import RunConfig, seeds_of, setup
from potluck.training.loop import TrainConfig, begin, train

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
SURVEYED, STRETCH, REPEATS = 7, 2, 3
"""Windows before anything is timed, windows in a stretch, and stretches."""


def milliseconds(scenario: Scenario, agent: str) -> float:
    """Of a slot."""
    config = RunConfig(scenario, agent, seeds=1, slots=100_000)
    lanes, seeds = setup(config), seeds_of(config)
    training = TrainConfig(lanes, seeds, mesh_over(config.games), config.games, config.depth, 1)
    runs, window, times = begin(lanes, seeds, config.games), 0, []
    for windows in (SURVEYED, *[STRETCH] * REPEATS):
        begun = time.perf_counter()
        for _ in range(windows):
            runs, _ = train(training, runs, jnp.asarray(window * config.depth))
            window += 1
        jax.block_until_ready(runs)
        times.append((time.perf_counter() - begun) / (windows * config.depth * config.games))
    return 1e3 * min(times[1:])


def draw(rows: list[dict[str, Any]], place: Path) -> None:
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for agent, mark in zip(dict.fromkeys(row["agent"] for row in rows), "osD^v", strict=False):
        own = [row for row in rows if row["agent"] == agent]
        axes.loglog(
            [row["silos"] for row in own], [row["milliseconds"] for row in own], marker=mark, label=agent.upper()
        )
    silos, costs = ([row[name] for row in rows] for name in ("silos", "milliseconds"))
    axes.set(xlabel="silos", ylabel="milliseconds per slot (all silos)", ylim=(0.8 * min(costs), 1.25 * max(costs)))
    axes.minorticks_off()
    axes.set_xticks(sorted(set(silos)), map(str, sorted(set(silos))))
    axes.set_yticks([tick for tick in TICKS if min(costs) <= tick <= max(costs)])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(place, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--agents", nargs="+", default=["mbpg", "mpgd"], choices=list(AGENTS))
    parser.add_argument("--silos", nargs="+", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--task", help="real training on it, instead of the curve")
    asked = parser.parse_args()
    use_cores()
    rows: list[dict[str, Any]] = []
    for silos in asked.silos:
        own = preset("paper")
        scenario = own.model_copy(update={"silos": own.silos.model_copy(update={"count": silos})})
        if asked.task:
            scenario = on_task(scenario, asked.task)
        for agent in asked.agents:
            cost = milliseconds(scenario, agent)
            rows.append({"agent": agent, "silos": silos, "task": asked.task or "curve", "milliseconds": cost})
            print(f"| {agent} | {silos} | {cost:.2f} |", flush=True)
            asked.out.write_text(json.dumps(rows, indent=1) + "\n")
    if asked.plot:
        draw(rows, asked.plot)


if __name__ == "__main__":
    main()
