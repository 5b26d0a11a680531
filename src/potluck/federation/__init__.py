"""Where precision comes from: tasks, data, partitions, models, FedAvg, and the curve that stands in for it."""

from potluck.federation.build import build, check_contributions
from potluck.federation.data import TASKS, Dataset, Task
from potluck.federation.fedavg import FedAvg, Global, Silo, State, samples_of
from potluck.federation.fetching import fetch, load
from potluck.federation.runs import Trace, run, run_games, spread, use_cores
from potluck.federation.source import PrecisionSource

__all__ = [
    "TASKS",
    "Dataset",
    "FedAvg",
    "Global",
    "PrecisionSource",
    "Silo",
    "State",
    "Task",
    "Trace",
    "build",
    "check_contributions",
    "fetch",
    "load",
    "run",
    "run_games",
    "samples_of",
    "spread",
    "use_cores",
]
