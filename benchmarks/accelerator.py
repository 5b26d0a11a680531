"""FedAvg rounds per second on an accelerator, many games side by side; best of three, counted against two floors.

    python benchmarks/accelerator.py --data FOLDER --out results.json

FOLDER holds fmnist.npz and cifar10.npz with X and y, 10,000 samples each: four fifths are trained on (4 silos × 2,000),
one fifth is held out. The floors are the time of the round's matrix products at the device's measured matrix rate, and
the time to read its samples and its weights once per step at the device's measured bandwidth.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from potluck.federation import FedAvg, build, run_games
from potluck.scenario import FederationConfig

SLOTS, REPEATS = 20, 3
WORK = {
    "mlp": ("fmnist", "mlp", (8, 16)),
    "cnn": ("fmnist", "cnn", (8, 16)),
    "cifar": ("cifar10", "cnn", (16, 32)),
}


@dataclass(frozen=True)
class Row:
    """One setting, timed."""

    engine: str
    task: str
    model: str
    games: int
    device: str
    dtype: str
    rounds_per_second: float
    accuracy: float
    compile_seconds: float
    gflop_per_round: float
    megabytes_per_round: float
    arithmetic_floor: float
    memory_floor: float
    """Rounds per second that the products alone, or the bytes alone, would allow."""


def best(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest call."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begun)
    return min(times)


def matrix_rate(dtype: str, size: int = 8192) -> float:
    """Flop/s of a large product of random matrices in this type, at JAX's default precision."""
    a, b = (jax.random.normal(jax.random.key(seed), (size, size), dtype) for seed in (0, 1))
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(a, b))
    return 2 * size**3 / best(lambda: product(a, b))


def bandwidth(count: int = 1 << 30) -> float:
    """Bytes per second read and written by a large copy."""
    source = jnp.ones(count, jnp.float32)
    copy = jax.jit(lambda x: x * 2)
    jax.block_until_ready(copy(source))
    return 2 * 4 * count / best(lambda: copy(source))


def count(fed: FedAvg) -> tuple[float, float]:
    """(flop, bytes) of one game's round.

    Flop: products only, forward and for both gradients, except that of the first layer's input; forward alone for a
    sample held out. Bytes: every sample once, and a silo's weights read and written once in each of its steps.
    """
    weights = jax.eval_shape(fed.architecture.init, jax.random.key(0))
    matrices = [leaf.size for leaf in jax.tree.leaves(weights) if leaf.ndim == 2]
    silos, samples = fed.silos.labels.shape
    sample = fed.silos.features.shape[2:]
    places = [1] * len(matrices)
    if len(sample) == 3:
        places = [sample[0] * sample[1], ((sample[0] - 2) // 2) * ((sample[1] - 2) // 2), 1]
    layers = [2 * size * place for size, place in zip(matrices, places, strict=True)]
    trained, held = silos * samples, fed.test.size
    flop = trained * (3 * sum(layers) - layers[0]) + held * sum(layers)
    size = 4 * sum(leaf.size for leaf in jax.tree.leaves(weights))
    return flop, math.prod(sample) * (trained + held) + 2 * size * trained / fed.batch_size


def rows(data: Path, works: list[str], games: list[int], dtypes: list[str]) -> Iterator[Row]:
    """Time every setting."""
    device = jax.devices()[0].device_kind
    memory = bandwidth()
    print(f"{device}: {memory / 1e9:.0f} GB/s", flush=True)
    for dtype in dtypes:
        rate = matrix_rate(dtype)
        print(f"{dtype}: {rate / 1e12:.0f} Tflop/s", flush=True)
        for work in works:
            task, model, channels = WORK[work]
            config = FederationConfig(
                task=f"folder:{data / task}.npz", model=model, channels=channels, partial_batches="full", dtype=dtype
            )
            fed = build(config, silos=4, samples=2000)
            flop, size = count(fed)
            for side in games:
                contributions, keys = np.ones((side, 4)), jax.random.split(jax.random.key(0), side)
                begun = time.perf_counter()
                trace = jax.block_until_ready(run_games(fed, contributions, keys, SLOTS))
                first = time.perf_counter() - begun
                seconds = best(partial(run_games, fed, contributions, keys, SLOTS))
                row = Row(
                    engine="Potluck",
                    task=task,
                    model=f"{model} {channels[0]}/{channels[1]}" if model == "cnn" else "mlp 784-64-10",
                    games=side,
                    device=device,
                    dtype=dtype,
                    rounds_per_second=side * SLOTS / seconds,
                    accuracy=float(trace.precision[:, -1].mean()),
                    compile_seconds=first - seconds,
                    gflop_per_round=flop / 1e9,
                    megabytes_per_round=size / 1e6,
                    arithmetic_floor=rate / flop,
                    memory_floor=memory / size,
                )
                print(json.dumps(asdict(row)), flush=True)
                yield row


def main() -> None:
    """Run the benchmark; results are saved after every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--works", nargs="+", default=list(WORK), choices=list(WORK))
    parser.add_argument("--games", nargs="+", type=int, default=[64, 256, 1024])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    asked = parser.parse_args()
    done: list[Row] = []
    for row in rows(asked.data, asked.works, asked.games, asked.dtypes):
        done.append(row)
        asked.out.write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")


if __name__ == "__main__":
    main()
