"""How fast agents learn the long-term game here, updates included, and how long its program takes to compile.

Each measurement is a process of its own: one finds an empty compilation cache, the next finds what the first left.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import jax

from potluck.devices import use_cores
from potluck.errors import PotluckError, file_faults
from potluck.federation.from_scenario import on_task
from potluck.scenario import preset
from potluck.training.config import RunConfig
from potluck.training.run import start

LEAST = 2
"""Calls of the compiled program that are timed, at least."""


@dataclass(frozen=True)
class Work:
    """What is trained: preset `paper` on a task, or on the curve."""

    agent: str = "mpgd"
    task: str = "digits"
    silos: int = 4
    games: int = 16
    seeds: int = 1
    seconds: float = 10.0
    """To keep training after the first call."""


@dataclass(frozen=True, kw_only=True)
class Row(Work):
    """One work on one machine."""

    device: str
    slots_per_second: float
    """Over all seeds; the median call of the compiled program."""
    compile_seconds: float
    """From nothing: tracing, lowering and compiling."""
    compile_seconds_cached: float
    """With what an earlier process compiled."""


@dataclass(frozen=True)
class Timing:
    """What one process found."""

    device: str
    slots_per_second: float
    compile_seconds: float


def run_config(work: Work) -> RunConfig:
    """The paper's silos, as many as asked for; far more slots than anybody waits for."""
    scenario = preset("paper")
    scenario = scenario.model_copy(update={"silos": scenario.silos.model_copy(update={"count": work.silos})})
    if work.task != "curve":
        scenario = on_task(scenario, work.task)
    return RunConfig(scenario, work.agent, slots=10**9, seeds=work.seeds, games=work.games)


def timing(work: Work) -> Timing:
    """Train as `potluck train` does, in this process."""
    devices = use_cores()
    chosen = run_config(work)
    per_call = chosen.seeds * chosen.games * chosen.depth * chosen.chunk
    with tempfile.TemporaryDirectory() as folder:
        run = start(chosen, Path(folder) / "run")
        waits = list(_waits(run, work.seconds))
        run.close()
    usual = median(waits[1:])
    kind = jax.devices()[0].device_kind
    return Timing(f"{kind} × {devices}" if devices > 1 else kind, per_call / usual, max(waits[0] - usual, 0.0))


def _waits(run: Iterator[object], seconds: float) -> Iterator[float]:
    """Seconds of the first call, then of others until the time is up."""
    until = float("inf")
    for count in range(10**9):
        begun = time.perf_counter()
        next(run)
        now = time.perf_counter()
        yield now - begun
        until = now + seconds if count == 0 else until
        if count >= LEAST and now >= until:
            return


def measure(work: Work) -> Row:
    """Time the work twice, without and with compiled programs to find; the faster play counts."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_elsewhere(work, cache) for _ in range(2))
    return Row(
        **asdict(work),
        device=cold.device,
        slots_per_second=max(cold.slots_per_second, warm.slots_per_second),
        compile_seconds=cold.compile_seconds,
        compile_seconds_cached=warm.compile_seconds,
    )


def _elsewhere(work: Work, cache: str) -> Timing:
    done = subprocess.run(
        [sys.executable, "-m", "potluck.studies.benchmarks.training", json.dumps(asdict(work)), cache],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PotluckError(f"bench training: {last.removeprefix('potluck.errors.PotluckError: ')}")
    return Timing(**json.loads(done.stdout.splitlines()[-1]))


def draw_cost(rows: Sequence[Row], place: Path) -> None:
    """A slot's cost against the number of silos."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.loglog([row.silos for row in rows], [1000 / row.slots_per_second for row in rows], "o-")
    axes.set(xlabel="silos N", ylabel="milliseconds a slot, updates included", title=f"{rows[0].agent}, {rows[0].task}")
    axes.set_xticks([row.silos for row in rows], [str(row.silos) for row in rows], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    with file_faults(place, "choose another place"):
        figure.savefig(place)


if __name__ == "__main__":
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    print(json.dumps(asdict(timing(Work(**json.loads(sys.argv[1]))))))
