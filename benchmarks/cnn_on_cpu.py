"""Rounds of a small CNN on a CPU, as the engine makes them and without each of the things that make them fast.

    python benchmarks/cnn_on_cpu.py OUT.json

4 silos × 2,000 samples at d = 0.3, batch 50, one local epoch, 2,000 held-out samples, 4 games of 10 slots side by side,
8 and 16 channels. All ways take turns in processes of their own; the best of each counts.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from potluck.devices import use_cores
from potluck.federation import build, measuring, models, run_games, workers
from potluck.scenario import FederationConfig

GAMES, SILOS, SLOTS, CONTRIBUTION, REPEATS = 4, 4, 10, 0.3, 3
WITHOUT = {
    "all that there is": (),
    "precision measured in one piece": ("parts",),
    "all silos of a device in step": ("blocks",),
    "gradients by blocks of the image": ("patches",),
    "none of the three": ("parts", "blocks", "patches"),
}


def rounds_per_second(task: str, without: list[str]) -> float:
    """The faster of two runs after compilation."""
    endless: Any = 1 << 60
    if "parts" in without:
        measuring.PART = endless
    if "blocks" in without:
        workers.CACHE = endless
    if "patches" in without:
        vars(models)["convolve"] = models.by_blocks
    use_cores()
    fed = build(FederationConfig(task=task, model="cnn"), silos=SILOS, samples=2_000)
    keys, seconds = jax.random.split(jax.random.key(0), GAMES), []
    for _ in range(3):
        begun = time.perf_counter()
        jax.block_until_ready(run_games(fed, np.full((GAMES, SILOS), CONTRIBUTION), keys, SLOTS).precision)
        seconds.append(time.perf_counter() - begun)
    return GAMES * SLOTS / min(seconds[1:])


def in_its_own_process(task: str, without: tuple[str, ...]) -> float:
    words = [sys.executable, __file__, "--task", task, "--without", *without]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", default=Path("cnn-on-cpu.json"))
    parser.add_argument("--task", help="time one way in this process, and print no more than that")
    parser.add_argument("--without", nargs="*", default=[], choices=["parts", "blocks", "patches"])
    asked = parser.parse_args()
    if asked.task:
        print(rounds_per_second(asked.task, asked.without))
        return
    rows: list[dict[str, Any]] = []
    print("| task | | rounds/s | the first is |\n|---|---|---|---|")
    for task in ("fmnist", "cifar10"):
        turns = [[in_its_own_process(task, without) for without in WITHOUT.values()] for _ in range(REPEATS)]
        best = [max(runs) for runs in zip(*turns, strict=True)]
        for name, rate in zip(WITHOUT, best, strict=True):
            rows.append({"task": task, "way": name, "rounds_per_second": rate, "first_is": best[0] / rate})
            print(f"| {task} | {name} | {rate:.1f} | {best[0] / rate:.2f} × |", flush=True)
        asked.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
