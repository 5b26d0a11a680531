"""Runs of the trial app on a real federation."""

import time
from collections.abc import Callable
from pathlib import Path

from potluck.flower.consortium import Consortium
from potluck.flower.federation import Federation

APP = Path(__file__).parent / "app"
LONG = 900.0
"""Seconds; a test that waits so long has failed."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Look again and again until it holds."""
    until = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.2)


def start(federation: Federation, consortium: Consortium, name: str, slots: int, **config: str | float) -> None:
    """Submit a run, named in Flower's log and in the ledger."""
    run = str(config.pop("run", name))
    files = {"scenario": str(consortium.scenario), "ledger": str(consortium.ledger), "run": run}
    federation.start_run(APP, {**files, "num-server-rounds": slots, **config}, name)


def finish(federation: Federation, name: str) -> str:
    """Wait for a run's end; what it said."""
    wait_for(lambda: not federation.group.running(name), f"the end of {name}")
    said = federation.group.log(name).read_text(errors="replace")
    assert federation.group.code(name) == 0, said[-3000:]
    return said
