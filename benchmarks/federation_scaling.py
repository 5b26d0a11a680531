"""Time and memory of the federation against games and silos; prints JSON, draws docs/figures/federation-scaling.png.

CPU seconds are what is drawn: they count the same work whether or not others use the machine.

Run: python benchmarks/federation_scaling.py [PICTURE]
"""

import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path

SIZES = (4, 8, 16, 32, 64)
SLOTS = 2
REPEATS = 3


def play(games: int, silos: int, samples: int) -> dict[str, float]:
    """Seconds per slot and peak memory of one process that plays so many games of so many silos."""
    import jax
    import numpy as np

    from potluck.devices import use_cores
    from potluck.federation import build, run_games
    from potluck.scenario import FederationConfig

    use_cores()
    fed = build(FederationConfig(task="fmnist"), silos=silos, samples=samples)
    keys = jax.random.split(jax.random.key(0), games)
    plans = np.ones((games, silos))
    jax.block_until_ready(run_games(fed, plans, keys, SLOTS))
    seconds, spent = [], []
    for _ in range(REPEATS):
        start, begun = time.perf_counter(), time.process_time()
        jax.block_until_ready(run_games(fed, plans, keys, SLOTS))
        seconds.append(time.perf_counter() - start)
        spent.append(time.process_time() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "games": games,
        "silos": silos,
        "seconds_per_slot": min(seconds) / SLOTS,
        "cpu_seconds_per_slot": min(spent) / SLOTS,
        "peak_gib": peak,
    }


def main() -> None:
    """Measure each size in a fresh process, so that its peak memory is its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        by_games = [pool.apply(play, (games, 4, 2000)) for games in SIZES]
        by_silos = [pool.apply(play, (4, silos, 500)) for silos in SIZES]
    json.dump({"by_games": by_games, "by_silos": by_silos}, sys.stdout, indent=2)
    if len(sys.argv) > 1:
        draw(by_games, by_silos, Path(sys.argv[1]))


def draw(by_games: list[dict[str, float]], by_silos: list[dict[str, float]], path: Path) -> None:
    """Draw time and memory side by side; a straight line through the origin is what linear looks like."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, rows, across, title in (
        (panels[0], by_games, "games", "games side by side, 4 silos × 2,000 samples"),
        (panels[1], by_silos, "silos", "silos × 500 samples, 4 games side by side"),
    ):
        sizes = [row[across] for row in rows]
        axes.plot(sizes, [row["cpu_seconds_per_slot"] for row in rows], "o-", label="CPU seconds per slot")
        axes.plot(sizes, [row["peak_gib"] for row in rows], "s--", label="peak memory, GiB")
        axes.set(xlabel=across, title=title, xlim=(0, None), ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
