"""The work every engine does, from the same arrays and the same initial weights, and the line it prints."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 50
LEARNING_RATE = 0.05
ROUNDS = 20
WARM_UP = 2

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Timing:
    """What one run of an engine answers."""

    rounds_per_second: float
    accuracy: float
    version: str
    device: str = "cpu"
    cost_share: float | None = None
    """Where less than all data was contributed: the cost of a round as a share of one with all of it."""


@dataclass(frozen=True)
class Work:
    """Silos of pixels in [0, 1] with labels, a held-out test set, and the weights of x → relu(x·w1 + b1)·w2 + b2."""

    x: Floats  # silo, sample, pixel
    y: Labels  # silo, sample
    x_test: Floats
    y_test: Labels
    w1: Floats  # pixel, hidden
    b1: Floats
    w2: Floats  # hidden, class
    b2: Floats

    @classmethod
    def load(cls, path: Path | str) -> "Work":
        """Read what `federation.prepare` wrote; pixels become floats here, before any clock runs."""
        with np.load(path) as file:
            arrays: dict[str, NDArray[Any]] = dict(file)
        return cls(
            x=arrays["x_train"].astype(np.float32) / np.float32(255),
            y=arrays["y_train"].astype(np.int64),
            x_test=arrays["x_test"].astype(np.float32) / np.float32(255),
            y_test=arrays["y_test"].astype(np.int64),
            **{name: arrays[name].astype(np.float32) for name in ("w1", "b1", "w2", "b2")},
        )


def timed(play: Callable[[int], float]) -> tuple[float, float]:
    """(rounds/s, accuracy) of `play(rounds)`, which starts from the initial weights each time it is called."""
    play(WARM_UP)
    start = perf_counter()
    accuracy = play(ROUNDS)
    return ROUNDS / (perf_counter() - start), accuracy


def report(
    engine: str, version: str, speed: float, accuracy: float, device: str = "cpu", cost_share: float | None = None
) -> None:
    """Print the one line by which an engine answers."""
    print(json.dumps({"engine": engine} | asdict(Timing(speed, accuracy, version, device, cost_share))), flush=True)
