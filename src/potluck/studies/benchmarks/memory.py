"""How fast a DNC learns: one gradient of ours beside others of the same sizes.

Every engine runs in a process of its own; they take turns, so that a machine that slows down slows all of them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from potluck.studies.benchmarks.peers import Absent, Peer, ask
from potluck.studies.benchmarks.sequences import Sizes

OURS = Peer("potluck.studies.benchmarks.ours_memory", "potluck-fl")


@dataclass(frozen=True)
class Run:
    """What one run of an engine answers."""

    milliseconds: float
    version: str
    device: str


Engine = Callable[[Sizes], Run | Absent]


@dataclass(frozen=True)
class Row:
    """One engine's best run and how many times as long as the first engine's it is, or in `note` why it has none."""

    engine: str
    batch: int
    steps: int
    words: int
    width: int
    heads: int
    device: str | None = None
    milliseconds: float | None = None
    ratio: float | None = None
    version: str | None = None
    note: str | None = None


def run(peer: Peer, sizes: Sizes, python: str | None = None) -> Run | Absent:
    """One run of an engine; see `ask`."""
    output = ask(peer, sizes.text(), python=python)
    return output if isinstance(output, Absent) else parse(output)


def parse(output: str) -> Run | Absent:
    """The last line of an engine's output, which is its answer."""
    line = (output.strip().splitlines() or [""])[-1]
    try:
        row = json.loads(line)
        return Run(float(row["milliseconds"]), str(row["version"]), str(row["device"]))
    except (ValueError, TypeError, KeyError):
        return Absent(f"no answer, but: {line[:80]!r}")


def race(engines: Mapping[str, Engine], sizes: Sizes, *, repeats: int = 3) -> list[Row]:
    """Best of `repeats` for each engine, taking turns: A B, A B, …; an engine that cannot run is asked once."""
    best: dict[str, Run | Absent] = {}
    for _ in range(repeats):
        for name, engine in engines.items():
            last = best.get(name)
            if isinstance(last, Absent):
                continue
            answer = engine(sizes)
            if last is None or isinstance(answer, Absent) or answer.milliseconds < last.milliseconds:
                best[name] = answer
    first = next(iter(best.values()))

    def row(name: str, answer: Run | Absent) -> Row:
        shape = (sizes.batch, sizes.steps, sizes.words, sizes.width, sizes.heads)
        if isinstance(answer, Absent):
            return Row(name, *shape, note=answer.reason)
        ratio = None if isinstance(first, Absent) else answer.milliseconds / first.milliseconds
        return Row(name, *shape, answer.device, answer.milliseconds, ratio, answer.version)

    return [row(name, answer) for name, answer in best.items()]
