"""What precision a federation reaches at d = 1, seed by seed: best slot, last slot, first slot at a threshold.

    python benchmarks/reach.py --task fmnist --model cnn --learning-rate 0.1 --slots 60 --seeds 5 --at-least 0.84
    python benchmarks/reach.py --task cifar10 --model cnn --channels 16 32 --slots 60 --seeds 3 --at-least 0.45
    python benchmarks/reach.py --task fmnist --slots 30 --seeds 5 --dtype float32 bfloat16 --at-least 0.83

4 silos × 2,000 samples, iid, batch 50, one local epoch of SGD, all held-out samples. A seed decides the split, the
weights and the order of the samples; 95% bootstrap intervals over seeds.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from potluck.devices import use_cores
from potluck.federation import build, federation_config, load, run
from potluck.studies.intervals import interval


def first_at(precision: np.ndarray, least: float) -> int | None:
    """The first slot, counted from 1, whose precision is at least so much."""
    reached = np.flatnonzero(precision >= least)
    return int(reached[0]) + 1 if reached.size else None


def summary(curves: np.ndarray, least: float) -> dict[str, Any]:
    """Best and last precision over seeds, and how many seeds reach the threshold within the game."""
    first = [first_at(curve, least) for curve in curves]
    return {
        "best": asdict(interval(curves.max(axis=1))),
        "last": asdict(interval(curves[:, -1])),
        "reached": sum(slot is not None for slot in first),
    }


def measure(asked: argparse.Namespace, dtype: str) -> dict[str, Any]:
    """Play every seed, and say each as it ends."""
    data, curves, runs = load(asked.task), [], []
    config = federation_config(
        task=asked.task, model=asked.model, channels=asked.channels, batch_size=50, partial_batches="full",
        learning_rate=asked.learning_rate, held_out=10_000, dtype=dtype,
    )  # fmt: skip
    for seed in range(asked.seeds):
        fed = build(config, silos=4, samples=2000, data=data, seed=seed)
        curve = np.asarray(run(fed, np.ones(4), jax.random.key(seed), asked.slots).precision)
        best, first = int(curve.argmax()), first_at(curve, asked.at_least)
        print(
            f"{asked.task} {asked.model} {dtype} seed {seed}: best {curve[best]:.4f} in slot {best + 1}, "
            f"last {curve[-1]:.4f}, {asked.at_least:g} "
            + (f"from slot {first}" if first is not None else "not reached"),
            flush=True,
        )
        curves.append(curve)
        runs.append(
            {
                "seed": seed,
                "best_slot": best + 1,
                "best": round(float(curve[best]), 4),
                "last": round(float(curve[-1]), 4),
                "first_at_least": first,
                "precision": [round(float(value), 4) for value in curve],
            }
        )
    return {"dtype": dtype, **summary(np.stack(curves), asked.at_least), "runs": runs}


def main() -> None:
    """Measure, print a line per seed and one per type, and write all of it if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="fmnist", choices=("fmnist", "cifar10"))
    parser.add_argument("--model", default="mlp", choices=("logistic", "mlp", "cnn"))
    parser.add_argument("--channels", nargs=2, type=int, default=[8, 16], help="of the cnn")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--slots", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--dtype", nargs="+", default=["float32"], choices=("float32", "bfloat16"))
    parser.add_argument("--at-least", type=float, default=0.83, help="the precision asked for")
    parser.add_argument("--out", type=Path, help="write JSON here")
    asked = parser.parse_args()
    use_cores()
    rows = []
    for dtype in asked.dtype:
        row = measure(asked, dtype)
        rows.append(row)
        for name in ("best", "last"):
            found = row[name]
            print(f"{dtype}, {name}: {found['mean']:.4f} ({found['low']:.4f} … {found['high']:.4f})")
        print(f"{dtype}: {row['reached']} of {asked.seeds} seeds reach {asked.at_least:g} within {asked.slots} slots")
    settings = {
        "task": asked.task, "model": asked.model, "channels": asked.channels if asked.model == "cnn" else None,
        "silos": 4, "samples": 2000, "batch": 50, "learning_rate": asked.learning_rate, "slots": asked.slots,
        "seeds": asked.seeds, "at_least": asked.at_least, "jax": jax.__version__,
    }  # fmt: skip
    if asked.out is not None:
        asked.out.write_text(json.dumps({"settings": settings, "rows": rows}) + "\n", encoding="utf-8")
        print(f"written: {asked.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
