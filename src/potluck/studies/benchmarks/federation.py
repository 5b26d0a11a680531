"""How fast a federation trains: our engine beside others, on the same data from the same initial weights.

Every engine runs in a process of its own; they take turns, so that a machine that slows down slows all of them.
"""

import math
import statistics
import sys
import timeit
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.errors import PotluckError
from potluck.federation import load
from potluck.studies.benchmarks.peers import Absent, Peer, take_turns
from potluck.studies.benchmarks.work import Timing

Engine = Callable[[Path], Timing | Absent]

OURS = Peer("potluck.studies.benchmarks.ours", "potluck-fl", python=sys.executable)
OURS_AT_A_TENTH = replace(OURS, arguments=("--contribution", "0.1"))
OURS_ABREAST = replace(OURS, arguments=("--games", "16", "--batch-size", "25"))


@dataclass(frozen=True)
class Contest:
    """The work: `silos` × `samples` in the games played side by side, a perceptron of `sizes`, `tests` to evaluate."""

    task: str = "fmnist"
    sizes: tuple[int, ...] = (784, 64, 10)
    silos: int = 4
    samples: int = 2000
    tests: int = 2000
    games: int = 1
    contribution: float = 1.0

    @property
    def model(self) -> str:
        """The perceptron by its layers."""
        return "mlp " + "-".join(map(str, self.sizes))


@dataclass(frozen=True)
class Row:
    """One engine's best run, or in `note` why it has none."""

    engine: str
    task: str
    model: str
    games: int
    device: str | None = None
    rounds_per_second: float | None = None
    accuracy: float | None = None
    peak_share: float | None = None
    version: str | None = None
    note: str | None = None
    contribution: float = 1.0
    cost_share: float | None = None
    """What a slot at this contribution costs as a share of one at d = 1, both timed in turns by the same process."""


A_TENTH = Contest(contribution=0.1)
DIGITS = Contest(task="digits", sizes=(64, 32, 10), samples=350, tests=397, games=16)
"""What agents learn on: 16 games side by side, batch 25."""


def flops(contest: Contest) -> int:
    """Operations of one round in matrix products: 2·Σ m·k a sample forward, as many again for each gradient.

    The first layer needs no gradient of its input, and a test sample only goes forward.
    """
    layers = [2 * m * k for m, k in zip(contest.sizes, contest.sizes[1:], strict=False)]
    trained = 3 * sum(layers) - layers[0]
    return contest.games * (contest.silos * contest.samples * trained + contest.tests * sum(layers))


def race(
    engines: Mapping[str, Engine],
    data: Path,
    contest: Contest,
    *,
    peak: float | None = None,
    repeats: int = 3,
    tolerance: float = 0.02,
) -> list[Row]:
    """Best of `repeats` for each engine; see `take_turns`. `peak` is the machine's, in flop/s.

    Engines that end further than `tolerance` from the median accuracy did other work, and then no row is worth
    anything.
    """
    runs = take_turns(engines, data, repeats)
    check_agreement({name: timings for name, timings in runs.items() if not isinstance(timings, Absent)}, tolerance)

    def row(name: str, timings: list[Timing] | Absent) -> Row:
        asked = Row(name, contest.task, contest.model, contest.games, contribution=contest.contribution)
        if isinstance(timings, Absent):
            return replace(asked, note=timings.reason)
        best = max(timings, key=lambda timing: timing.rounds_per_second)
        share = None if peak is None else best.rounds_per_second * flops(contest) / contest.games / peak
        return replace(asked, **asdict(best), peak_share=share)

    return [row(name, timings) for name, timings in runs.items()]


def check_agreement(runs: Mapping[str, list[Timing]], tolerance: float) -> None:
    """Refuse a comparison of engines that do not end at the same accuracy."""
    ends = [(timing.accuracy, name) for name, timings in runs.items() for timing in timings]
    if not ends:
        return
    median = statistics.median([accuracy for accuracy, _ in ends if math.isfinite(accuracy)] or [math.nan])
    worst, name = max(ends, key=lambda end: abs(end[0] - median) if math.isfinite(end[0]) else math.inf)
    if not abs(worst - median) <= tolerance:  # true of NaN too
        raise PotluckError(
            f"{name} ends at accuracy {worst:.3f} and the others at {median:.3f}: "
            "they did not do the same work, so their speeds cannot be compared"
        )


def prepare(path: Path, contest: Contest, seed: int = 0) -> Path:
    """Write the data and the initial weights all engines start from; weights ~ U(−1/√inputs, 1/√inputs)."""
    held = load(contest.task)
    rng = np.random.default_rng(seed)
    shares = rng.permutation(len(held.labels))[: contest.silos * contest.samples].reshape(
        contest.silos, contest.samples
    )
    weights: dict[str, NDArray[np.float32]] = {}
    for layer, (inputs, outputs) in enumerate(zip(contest.sizes, contest.sizes[1:], strict=False), start=1):
        bound = inputs**-0.5
        weights[f"w{layer}"] = rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        weights[f"b{layer}"] = rng.uniform(-bound, bound, outputs).astype(np.float32)
    arrays: dict[str, NDArray[Any]] = {
        "x_train": held.images[shares].reshape(*shares.shape, -1),
        "y_train": held.labels[shares],
        "x_test": held.test_images[: contest.tests].reshape(contest.tests, -1),
        "y_test": held.test_labels[: contest.tests],
    }
    np.savez(path, allow_pickle=False, **arrays, **weights)
    return path


def sgemm_peak(size: int = 2048, repeats: int = 10) -> float:
    """Flop/s of the fastest large float32 product that JAX or NumPy makes on this machine."""
    import jax
    import jax.numpy as jnp

    a, b = np.random.default_rng(0).standard_normal((2, size, size), dtype=np.float32)
    device_a, device_b = jnp.asarray(a), jnp.asarray(b)
    product = jax.jit(jnp.matmul)

    def seconds(multiply: Callable[[], object]) -> float:
        multiply()
        return min(timeit.repeat(multiply, number=1, repeat=repeats))

    fastest = min(seconds(lambda: a @ b), seconds(lambda: product(device_a, device_b).block_until_ready()))
    return 2 * size**3 / fastest
