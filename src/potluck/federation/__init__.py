"""Where precision comes from: tasks, data, partitions, models, FedAvg, and the curve that stands in for it."""

from potluck.federation.aggregations import AGGREGATIONS
from potluck.federation.build import build, check_contributions, federation_config
from potluck.federation.data import Dataset
from potluck.federation.fedavg import FedAvg, State, samples_of
from potluck.federation.fetching import load
from potluck.federation.models import MODELS
from potluck.federation.optimisers import OPTIMISERS
from potluck.federation.runs import run, run_games, shard
from potluck.federation.source import Measurement, PrecisionSource
from potluck.federation.task import Task
from potluck.federation.tasks import TASKS

__all__ = [
    "AGGREGATIONS",
    "MODELS",
    "OPTIMISERS",
    "TASKS",
    "Dataset",
    "FedAvg",
    "Measurement",
    "PrecisionSource",
    "State",
    "Task",
    "build",
    "check_contributions",
    "federation_config",
    "load",
    "run",
    "run_games",
    "samples_of",
    "shard",
]
