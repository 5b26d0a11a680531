"""Rounds of a small CNN on a CPU: as the engine makes them, and with nothing cut to what a core's caches hold.

    python benchmarks/cnn_on_cpu.py OUT.json

4 silos × 2,000 samples, batch 50, one local epoch, 2,000 held-out samples, 4 games side by side, 8 and 16 channels.
Both ways take turns in processes of their own, and the best of each counts. In one piece means: precision measured on
all samples at once, eight silos or more in step, convolutions by blocks.
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

GAMES, SILOS, SLOTS, REPEATS = 4, 4, 3, 3
WORK = [(task, contribution) for task in ("fmnist", "cifar10") for contribution in (1.0, 0.3)]


def rounds_per_second(task: str, contribution: float, *, whole: bool) -> float:
    """The faster of two runs after compilation."""
    if whole:
        workers.CACHE = measuring.PART = 1 << 60
        models.convolve = models.by_blocks
    use_cores()
    fed = build(FederationConfig(task=task, model="cnn"), silos=SILOS, samples=2_000)
    keys, seconds = jax.random.split(jax.random.key(0), GAMES), []
    for _ in range(3):
        begun = time.perf_counter()
        jax.block_until_ready(run_games(fed, np.full((GAMES, SILOS), contribution), keys, SLOTS).precision)
        seconds.append(time.perf_counter() - begun)
    return GAMES * SLOTS / min(seconds[1:])


def in_its_own_process(task: str, contribution: float, *, whole: bool) -> float:
    words = [sys.executable, __file__, "-", "--task", task, "--contribution", str(contribution)]
    found = subprocess.run([*words, *(["--whole"] if whole else [])], check=True, capture_output=True, text=True)
    return float(found.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", help="a file, or - with a task to time one way in this process")
    parser.add_argument("--task")
    parser.add_argument("--contribution", type=float, default=1.0)
    parser.add_argument("--whole", action="store_true", help="in one piece")
    asked = parser.parse_args()
    if asked.task:
        print(rounds_per_second(asked.task, asked.contribution, whole=asked.whole))
        return
    rows: list[dict[str, Any]] = []
    print("| task | d | rounds/s | in one piece | ratio |\n|---|---|---|---|---|")
    for task, contribution in WORK:
        turns = [
            [in_its_own_process(task, contribution, whole=whole) for whole in (False, True)] for _ in range(REPEATS)
        ]
        ours, whole = map(max, zip(*turns, strict=True))
        rows.append({"task": task, "contribution": contribution, "rounds_per_second": ours, "in_one_piece": whole})
        print(f"| {task} | {contribution:g} | {ours:.1f} | {whole:.1f} | {ours / whole:.1f} × |", flush=True)
        Path(asked.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
