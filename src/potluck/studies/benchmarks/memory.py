"""How fast a DNC learns: one gradient of ours beside others of the same sizes.

Every engine runs in a process of its own; they take turns, so that a machine that slows down slows all of them.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from potluck.studies.benchmarks.peers import Absent, Peer, take_turns
from potluck.studies.benchmarks.sequences import Sizes, Timing

OURS = Peer("potluck.studies.benchmarks.ours_memory", "potluck-fl", python=sys.executable)
Engine = Callable[[Sizes], Timing | Absent]


@dataclass(frozen=True, kw_only=True)
class Row(Sizes):
    """One engine's best run and how many times as long as the first engine's it is, or in `note` why it has none."""

    engine: str
    device: str | None = None
    milliseconds: float | None = None
    ratio: float | None = None
    version: str | None = None
    note: str | None = None


def race(engines: Mapping[str, Engine], sizes: Sizes, *, repeats: int = 3) -> list[Row]:
    """Best of `repeats` for each engine; see `take_turns`."""
    best = {
        name: answers if isinstance(answers, Absent) else min(answers, key=lambda timing: timing.milliseconds)
        for name, answers in take_turns(engines, sizes, repeats).items()
    }
    first = next(iter(best.values()))

    def row(name: str, answer: Timing | Absent) -> Row:
        if isinstance(answer, Absent):
            return Row(**asdict(sizes), engine=name, note=answer.reason)
        ratio = None if isinstance(first, Absent) else answer.milliseconds / first.milliseconds
        return Row(**asdict(sizes), engine=name, ratio=ratio, **asdict(answer))

    return [row(name, answer) for name, answer in best.items()]
