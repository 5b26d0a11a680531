"""The tasks a federation can train on: one file each, one line each."""

from potluck.federation.task import Task
from potluck.federation.tasks import cifar10, digits, fmnist, folder
from potluck.registry import Registry

__all__ = ["TASKS"]

TASKS: Registry[Task] = Registry(
    "task",
    {
        "digits": digits.TASK,
        "fmnist": fmnist.TASK,
        "cifar10": cifar10.TASK,
        "folder": folder.TASK,
    },
    Task,
)
