"""What a task is: a data set by name, how to get its data, and the settings that suit it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from potluck.federation.data import Dataset

Decode: TypeAlias = Callable[[Path], dict[str, np.ndarray]]
"""From a folder with the files of one form to the arrays of a data set."""


class UnavailableError(Exception):
    """One way does not work here; the reason is for the list that people get when none does."""


class Listener:
    """Hears how a fetch is getting on; this one keeps it to itself."""

    def say(self, message: str) -> None:
        """One line for a person."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """So many bytes of so many."""


@dataclass(frozen=True)
class Way:
    """One way to get a task's data: what to tell people it is, and how to read it."""

    description: str
    read: Callable[["Task", Path, Listener], Dataset]
    """Given a scratch folder; raises UnavailableError or CorruptError when this way does not work here."""


@dataclass(frozen=True)
class Download:
    """Data that is fetched once and kept in the cache."""

    address: str
    """The publishers' folder, which has the files of the first form."""
    forms: Mapping[tuple[str, ...], Decode]
    """The files in which the data is handed on, and how to decode them."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """System packages and the folders in which they put the files."""
    others: tuple[Way, ...] = ()
    """What to try after the publishers."""


@dataclass(frozen=True)
class Task:
    """What is known about a task before its data is here. It has either `read` or `download`."""

    name: str
    summary: str
    read: Callable[[str], Dataset] | None = None
    """The data, given what follows `name:`; where there is nothing to give, an empty text."""
    download: Download | None = None
    sha256: str | None = None
    """Of the decoded arrays (`data.digest`): what is read or fetched must have it."""
    usage: str = ""
    """How a person names it, where that is more than its name."""
    samples: int | None = None
    """Default size of a silo's local set, four silos; all there is if left out."""
    model: str = "mlp"
    """What agents' games train on it, where nobody chose."""
    hidden: int = 64
    batch_size: int = 50
    learning_rate: float = 0.05
    """Of SGD in the long-term game, at which thirty slots are enough to learn the task."""

    def __str__(self) -> str:
        return self.usage or self.name
