"""Training from Python, in one call."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from potluck.agents import Options
from potluck.devices import use_cores
from potluck.scenario import Scenario
from potluck.training.config import RunConfig
from potluck.training.environments import EnvironmentConfig
from potluck.training.run import Progress, Trained, train_in, trained


def train(
    scenario: Scenario | EnvironmentConfig,
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

    What they learn is a scenario, or a game of one's own, `potluck.environment(…)`.

    Every core becomes a device where JAX has not started yet. `watch` is told of every chunk of windows.
    """
    use_cores()
    config = RunConfig(scenario, agent, options or Options(), slots, seeds, games, window)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run" if out is None else Path(out)
        for progress in train_in(folder, config):
            watch(progress)
        return trained(folder)
