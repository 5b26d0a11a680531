"""What has to be done around a strategy of Flower's so that it does not wait for ever."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

LOOKING = 0.2
"""Seconds between two looks at who is connected."""


def layers(strategy: Strategy) -> list[Strategy]:
    """A strategy and those that it wraps; the last one samples nodes."""
    found = [strategy]
    while isinstance(inner := getattr(found[-1], "strategy", None), Strategy):
        found.append(inner)
    return found


def who_is_there(grid: Grid, wanted: int, patience: float) -> list[int]:
    """Which nodes are connected, once they are `wanted` or `patience` seconds are over."""
    until = time.monotonic() + patience
    while len(nodes := list(grid.get_node_ids())) < wanted and time.monotonic() < until:
        time.sleep(LOOKING)
    return nodes


class _Snapshot:
    """A grid on which nobody comes or goes while a strategy samples."""

    def __init__(self, grid: Grid, nodes: list[int]) -> None:
        self._grid, self._nodes = grid, nodes

    def get_node_ids(self) -> list[int]:
        """Those who were there."""
        return list(self._nodes)

    def __getattr__(self, name: str) -> Any:
        """As the grid."""
        return getattr(self._grid, name)


@contextmanager
def with_those(nodes: list[int], strategy: Strategy, grid: Grid) -> Iterator[Any]:
    """A grid on which the strategy finds these nodes, and needs no more than them: below its minimum it would wait."""
    names = ("min_available_nodes", "min_train_nodes", "min_evaluate_nodes")
    wanted = {name: getattr(strategy, name) for name in names if hasattr(strategy, name)}
    for name, number in wanted.items():
        setattr(strategy, name, min(number, len(nodes)))
    try:
        yield _Snapshot(grid, nodes)
    finally:
        for name, number in wanted.items():
            setattr(strategy, name, number)
