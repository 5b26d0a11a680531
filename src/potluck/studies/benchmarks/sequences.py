"""The work of a memory network: one gradient over a batch of sequences; and the line an engine answers with."""

import json
import statistics
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass

WARM_UP = 3
CALLS = 30


@dataclass(frozen=True)
class Sizes:
    """A DNC of so many words × width and read heads around one LSTM layer, which says as much as it hears."""

    batch: int = 16
    steps: int = 16
    words: int = 16
    width: int = 16
    heads: int = 4
    inputs: int = 8
    hidden: int = 64

    @classmethod
    def parse(cls, text: str) -> "Sizes":
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Timing:
    """What one run of an engine answers."""

    milliseconds: float
    version: str
    device: str


def median_milliseconds(gradient: Callable[[], object]) -> float:
    """Of one call among many, after a warm-up."""
    return 1000 * statistics.median(timeit.repeat(gradient, number=1, repeat=WARM_UP + CALLS)[WARM_UP:])


def report(milliseconds: float, version: str, device: str) -> None:
    """Print the one line by which an engine answers."""
    print(json.dumps(asdict(Timing(milliseconds, version, device))), flush=True)
