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
        figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
        for agent, mark in zip(asked.agents, "osD^v", strict=False):
            costs = [row["milliseconds"] for row in rows if row["agent"] == agent]
            axes.loglog(asked.silos, costs, marker=mark, label=agent.upper())
        axes.set(xlabel="silos", ylabel="milliseconds per slot (all silos)")
        axes.set_xticks(asked.silos, [str(silos) for silos in asked.silos])
        axes.legend()
        figure.savefig(asked.plot, dpi=150)


if __name__ == "__main__":
    main()
