"""Learning curves of Fashion-MNIST at sustained contributions: the measurement behind the precision law.

    python benchmarks/learning_curves.py curves.json

Writes what docs/data/fmnist-learning-curves.json holds: MLP 784-64-10, 4 silos × 2,000 samples, iid, batch 50, SGD
0.05, one local epoch, 30 slots, all 10,000 held-out samples, 8 seeds (split and weights).
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

from potluck.devices import use_cores
from potluck.federation import build, run, shard
from potluck.scenario import FederationConfig

SLOTS, SEEDS = 30, 8
COMMON = [(share,) * 4 for share in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)]
UNEQUAL = [
    (1.0, 0.0, 0.0, 0.0),
    (1.0, 1.0, 0.0, 0.0),
    (1.0, 1.0, 1.0, 0.0),
    (0.5, 0.0, 0.0, 0.0),
    (0.5, 0.5, 0.0, 0.0),
    (1.0, 0.5, 0.5, 0.1),
    (1.0, 0.1, 0.1, 0.1),
    (0.25, 0.0, 0.0, 0.0),
    (0.1, 0.0, 0.0, 0.0),
]


def main(path: Path) -> None:
    """Measure, and say the mean over seeds and slots for each contribution."""
    use_cores()
    config = FederationConfig(task="fmnist", partial_batches="full", held_out=10_000)
    runs, means = [], {play: list[float]() for play in COMMON + UNEQUAL}
    for seed in range(SEEDS):
        source = shard(build(config, silos=4, samples=2000, seed=seed))
        for play in COMMON + UNEQUAL:
            trace = run(source, np.array(play), jax.random.key(seed), SLOTS)
            precision = [round(float(value), 4) for value in trace.precision]
            initial = round(float(trace.initial), 4)
            runs.append({"contributions": play, "seed": seed, "initial": initial, "precision": precision})
            means[play].append(float(np.mean(precision)))
        print(f"seed {seed} done", file=sys.stderr)
    settings = {"task": "fmnist", "model": "mlp 784-64-10", "silos": 4, "samples": 2000, "batch": 50, "slots": SLOTS}
    path.write_text(json.dumps({"settings": settings, "runs": runs}) + "\n")
    for play, over_seeds in means.items():
        print(f"{play}: {np.mean(over_seeds):.4f} ± {2.365 * np.std(over_seeds, ddof=1) / SEEDS**0.5:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
