"""Torch with as many threads as serve an engine best."""

from collections.abc import Callable

import torch

__all__ = ["at_best_threads"]


def at_best_threads(measure: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """The faster of one thread and two: small products often lose more to a second thread than they gain."""
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(measure())
    return max(runs)
