"""Pieces of work, and how long those that are left will take."""

import os
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLAY = 0.4
"""What a slot of play costs beside one of learning, about."""
LEARNING = 4.0
"""What compiling a program that learns costs beside one that plays, about."""


def nothing() -> None:
    """Needs no preparation."""


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece of work."""

    what: str
    cost: float
    """In slots of learning."""
    results: tuple[Path, ...]
    """Files that are there when it is done."""
    work: Callable[[Any], Generator[float]]
    """Does it with what was prepared; yields the share that is done."""
    prepare: Callable[[], Any] = nothing
    """What can be done on a thread beside, before its turn: compiling."""
    seconds: float = 0.0
    """That it takes besides, whatever slots cost, about."""

    @property
    def done(self) -> bool:
        return all(place.exists() for place in self.results)


@dataclass(frozen=True, eq=False)
class Unit:
    """Pieces that one process does, one after the other."""

    name: str
    pieces: tuple[Piece, ...]
    needs: tuple[Path, ...] = ()
    """Files that others leave."""

    @property
    def done(self) -> bool:
        return all(piece.done for piece in self.pieces)

    @property
    def ready(self) -> bool:
        return all(place.exists() for place in self.needs)


@dataclass(frozen=True)
class Trial:
    """What this machine made of play at random."""

    slot: float
    """Seconds of a slot, where as many games as usual are side by side."""
    compiling: float
    """Seconds of compiling what plays."""


class Pace:
    """How long the rest will take, by how fast slots went so far and how long the first program took to compile.

    The first stretch of a piece is not counted as slots: it may have compiled. Until there are others, a trial tells.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._whole = sum(piece.cost for piece in pieces)
        self._left = {piece for piece in pieces if not piece.done}
        self._behind = sum(piece.cost for piece in pieces if piece.done)
        self._here = self._spent = self._slots = 0.0
        self._compiling: float | None = None
        self._share, self._then = 0.0, 0.0
        self._now: Piece | None = None
        self._trial: Trial | None = None

    def expects(self, trial: Trial) -> None:
        """What to go by as long as nothing else is known."""
        self._trial = trial

    def meanwhile(self) -> None:
        """What others have done is done."""
        for piece in [piece for piece in self._left if piece.done]:
            self.over(piece)

    def begins(self) -> None:
        """The next piece begins: time counts from here."""
        self._share, self._then = 0.0, time.monotonic()

    def at(self, piece: Piece, share: float) -> None:
        """So much of it is done now."""
        now = time.monotonic()
        if self._share:
            self._spent += now - self._then
            self._slots += (share - self._share) * piece.cost
        elif share and self._compiling is None:
            self._compiling = now - self._then
        self._share, self._then, self._here, self._now = share, now, share * piece.cost, piece

    def over(self, piece: Piece) -> None:
        """It is done."""
        self._left.discard(piece)
        self._behind += piece.cost
        self._here, self._now = 0.0, None

    def share(self) -> float:
        """Of the whole study."""
        return (self._behind + self._here) / self._whole

    def left(self) -> float | None:
        """Seconds, about; None where there was no trial, before any slots were counted."""
        if self._slots and self._compiling is not None:
            slot, program = self._spent / self._slots, self._compiling
        elif self._trial is not None:
            slot, program = self._trial.slot / PLAY, self._trial.compiling * LEARNING
        else:
            return None
        programs = sum(piece.prepare is not nothing for piece in self._left)
        compiling = programs * program / (os.cpu_count() or 1)
        besides = sum(piece.seconds * (1 - self._share * (piece is self._now)) for piece in self._left)
        return compiling + besides + (self._whole - self._behind - self._here) * slot
