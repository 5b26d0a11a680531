"""What commands show on stderr while they work: drawn where that is a terminal, else a line every few seconds."""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from potluck.training.run import Progress

WIDTH = 66
"""Columns of text: with the time gone by they fit a terminal of 80."""
EVERY = 10.0
"""Seconds between two lines about the same work where there is no terminal to draw on."""
ALMOST = 0.999
HEIGHTS = "▁▂▃▄▅▆▇█"
Step = TypeVar("Step")


def to_the_end(run: "Generator[Step]", show: Callable[[Step], None], stop: Callable[[], None], advice: str) -> None:
    """Follow a run to its end, or to Ctrl-C, which keeps what is learnt so far and says how to go on.

    The work is done on a thread beside, since a compiled program lets no signal through.
    """
    worker, moved = ThreadPoolExecutor(1), False
    try:
        while (step := worker.submit(next, run, None).result()) is not None:
            moved = True
            show(step)
    except KeyboardInterrupt:
        stop()
        _leave(worker, run, advice, whole=moved)
        raise typer.Exit(130) from None


def _leave(worker: Executor, run: Generator[Any], advice: str, *, whole: bool) -> None:
    """Keep the last complete chunk; where there is none of this process yet, or on a second Ctrl-C, go at once."""
    try:
        if whole:
            print("potluck: finishing what is being computed; Ctrl-C again leaves at once", file=sys.stderr, flush=True)
            worker.submit(run.close).result()
            print(advice, file=sys.stderr)
            return
    except KeyboardInterrupt:
        pass
    print(advice, file=sys.stderr, flush=True)
    os._exit(130)  # a thread inside a compiled program cannot be asked to stop


class _Lines:
    """Rows of a live display, one per piece of work."""

    def __init__(self, names: tuple[str, ...], *, bar: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._drawn, self._spoken = console.is_terminal, dict.fromkeys(names, time.monotonic())
        width = max(map(len, names))
        columns = [SpinnerColumn(), *([TextColumn(f"{{task.fields[name]:<{width}}}")] if width else [])]
        columns += [*([BarColumn(20)] if bar else []), TextColumn("{task.description}"), TimeElapsedColumn()]
        self._rows = Progress(*columns, console=console, transient=True, disable=not self._drawn)
        self._tasks = {
            name: self._rows.add_task("compiling… (up to a minute the first time)", total=1.0, name=name)
            for name in names
        }

    def __enter__(self) -> Any:
        self._rows.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._rows.stop()

    def show(self, name: str, text: str, share: float, *, at_once: bool = False) -> None:
        # What has reached its total stops turning, though more may follow.
        self._rows.update(self._tasks[name], completed=min(share, ALMOST), description=text)
        now = time.monotonic()
        if not self._drawn and (at_once or now - self._spoken[name] >= EVERY):
            self._spoken[name] = now
            print(": ".join(filter(None, (name, text.replace("\n", " ")))), file=sys.stderr, flush=True)


class Watching(_Lines):
    """One piece of work after the other, with the share of it that is done."""

    def __init__(self) -> None:
        super().__init__(("",), bar=True)
        self._last = ""

    def __call__(self, what: str, share: float, more: str = "") -> None:
        shown = what if self._drawn or not share else f"{what}: {share:.0%}"
        self.show("", f"{shown}{more}", share, at_once=what != self._last)
        self._last = what

    def say(self, line: str) -> None:
        """Something that stays above the display."""
        self._rows.console.print(line, highlight=False)


class TrainingDisplay(_Lines):
    """Trainings side by side: how far, how fast, what was earned, and how the updates went."""

    def __init__(self, lanes: Mapping[str, int]) -> None:
        super().__init__(tuple(lanes), bar=False)
        self._lanes = dict(lanes)
        self._earned: dict[str, list[tuple[float, float]]] = {name: [] for name in lanes}
        self._first: dict[str, tuple[int, float]] = {}
        self.rate: float | None = None
        """Slots per second over all lanes, without the wait for the compiler."""

    def update(self, name: str, progress: "Progress") -> None:
        """After a call of the compiled program."""
        if len(self._lanes) > 1:
            self._beside(name, progress)
            return
        now, left = time.monotonic(), ""
        slots, begun = self._first.setdefault(name, (progress.slots, now))
        if progress.slots > slots:
            each = (progress.slots - slots) / (now - begun)
            self.rate = round(each * self._lanes[name], 1)
            total = progress.slots * progress.chunks / progress.chunk
            seconds = round((total - progress.slots) / each)
            left = f" {self.rate:,.0f} slots/s {timedelta(seconds=seconds)} left"
        text = (
            f"{progress.chunk / progress.chunks:.0%}{left}: welfare {progress.welfare:.1f} "
            f"d {progress.contribution:.3f}"
        )
        if progress.precision is not None:
            text += f" P {progress.precision:.3f} signal {progress.signal:.2f}"
        numbers = ", ".join(f"{label.replace('_', ' ')} {value:.3g}" for label, value in progress.diagnostics.items())
        self.show(name, "\n".join([text, *textwrap.wrap(numbers, WIDTH)]), progress.chunk / progress.chunks)

    def _beside(self, name: str, progress: "Progress") -> None:
        """One of several: its learning curve so far, on a scale that all of them share."""
        share = progress.chunk / progress.chunks
        self._earned[name].append((share, progress.welfare))
        everyone = [welfare for earned in self._earned.values() for _, welfare in earned]
        so_far = blocks(self._earned[name], min(everyone), max(everyone)) if self._drawn else f"{share:.0%},"
        text = (
            f"{so_far} {progress.slots:,} slots: welfare {progress.welfare:.1f} "
            f"d {progress.contribution:.3f} P {progress.precision:.3f}"
        )
        self.show(name, text, share)

    def restart(self, name: str, lanes: int) -> None:
        """Another program begins: its rate is its own."""
        self._lanes[name] = lanes
        self._first.pop(name, None)


def blocks(curve: Sequence[tuple[float, float]], low: float, high: float, width: int = 12) -> str:
    """A curve of (share of the way, height) from `low` to `high`; dots for what is to come."""
    cells = [next((height for share, height in curve if share >= cell / width), None) for cell in range(1, width + 1)]
    most = len(HEIGHTS) - 1
    return "".join(
        "·" if height is None else HEIGHTS[round(most * (height - low) / ((high - low) or 1.0))] for height in cells
    )
