"""Training from Python, in one call."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from potluck.agents import Options
from potluck.devices import use_cores
from potluck.errors import PotluckError
from potluck.scenario import Scenario
from potluck.training.config import RUN, RunConfig, read_config
from potluck.training.run import Progress, Trained, resume, start, trained


def train(
    scenario: Scenario,
    agent: str = "mpgd",
    *,
    slots: int = 100_000,
    seeds: int = 5,
    games: int = 16,
    window: int = 0,
    options: Options | None = None,
    out: str | Path | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Trained:
    """Let agents learn, as `potluck train` does; with `out`, a run that was begun there goes on to its end.

    Every core becomes a device where JAX has not started yet. `watch` is told of every chunk of windows.
    """
    use_cores()
    config = RunConfig(scenario, agent, options or Options(), slots, seeds, games, window)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run" if out is None else Path(out)
        begun = (folder / RUN).exists()
        if begun and read_config(folder) != config:
            raise PotluckError(f"{folder}: holds another run; name another folder")
        for progress in resume(folder) if begun else start(config, folder):
            watch(progress)
        return trained(folder)
