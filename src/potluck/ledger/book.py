"""Reading a ledger, also while its coordinator writes."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from potluck.errors import PotluckError
from potluck.ledger.entries import Opening
from potluck.ledger.money import OUTSIDE
from potluck.ledger.queries import openings
from potluck.ledger.schema import explained, open_reader


@dataclass(frozen=True)
class Row:
    """One silo's line in one slot."""

    run: str
    slot: int
    silo: str
    contribution: float | None
    """As claimed; None where it made no claim."""
    signal: float
    precision: float
    transfer: int
    """In micro-units."""
    time: int
    """Microseconds since 1970, UTC, by the coordinator's clock."""
    countersigned: bool
    """By this silo, in this slot or a later one of the run."""


class Book:
    """A ledger as it stood at one moment."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def runs(self) -> list[Opening]:
        """In the order in which they began."""
        return openings(self._db)

    def rows(
        self, run: str | None = None, silo: str | None = None, slot: int | None = None, last: int = 0
    ) -> Iterator[Row]:
        """Lines in the order in which they were settled; of the `last` so many slots, where that is not 0."""
        signed_to = self.countersigned()
        wanted = {"run": self._known(run), "silo": self._member(silo, run), "slot": slot}
        where = [f"record.{name} = :{name}" for name, value in wanted.items() if value is not None]
        if last:
            of_run = "" if run is None else "WHERE run = (SELECT number FROM runs WHERE run = :run)"
            where.append(f"record.number IN (SELECT number FROM slots {of_run} ORDER BY number DESC LIMIT :last)")
        query = f"SELECT * FROM record {'WHERE' * bool(where)} {' AND '.join(where)} ORDER BY number, place"
        for *line, _, _ in self._db.execute(query, wanted | {"last": last}):
            name, number, member, *_ = line
            yield Row(*(*line, number <= signed_to.get((name, member), 0)))

    def balances(self, run: str | None = None) -> dict[str, int]:
        """What each silo has received in all, in micro-units; `outside` too, where money came from there."""
        names = [name for opening in self.runs() if run in (None, opening.run) for name in opening.names]
        sums = dict.fromkeys(names, 0)
        chosen = "" if self._known(run) is None else "WHERE run = (SELECT number FROM runs WHERE run = :run)"
        query = f"""SELECT silos.silo, transfer FROM entries JOIN (SELECT number, run FROM slots {chosen}) AS slots
          USING (number) JOIN silos ON silos.run = slots.run AND silos.place = entries.place"""
        for name, transfer in self._db.execute(query, {"run": run}):
            sums[name] += transfer
        outside = sum(amount for (amount,) in self._db.execute(f"SELECT outside FROM slots {chosen}", {"run": run}))
        return sums | ({OUTSIDE: outside} if outside else {})

    def countersigned(self) -> dict[tuple[str, str], int]:
        """For each run and silo the last slot that it has countersigned, and with it all before."""
        query = """SELECT runs.run, silos.silo, MAX(slots.slot) FROM countersignatures AS signed
          JOIN slots ON slots.number = signed.slot JOIN runs ON runs.number = slots.run
          JOIN silos ON silos.run = slots.run AND silos.place = signed.place GROUP BY 1, 2"""
        return {(run, silo): slot for run, silo, slot in self._db.execute(query)}

    def _known(self, run: str | None) -> str | None:
        names = [opening.run for opening in self.runs()]
        if run is not None and run not in names:
            raise PotluckError(f"must be a run of this ledger ({', '.join(names)}), got {run!r}", field="run")
        return run

    def _member(self, silo: str | None, run: str | None) -> str | None:
        names = dict.fromkeys(name for opening in self.runs() if run in (None, opening.run) for name in opening.names)
        if silo is not None and names and silo not in names:  # before the first run nobody is known
            raise PotluckError(f"must be a silo of this ledger ({', '.join(names)}), got {silo!r}", field="silo")
        return silo


@contextmanager
def reading(place: Path) -> Iterator[Book]:
    """Open a ledger to read it; what is written meanwhile is not seen."""
    db = open_reader(place)
    try:
        with explained(place):
            db.execute("BEGIN")
            yield Book(db)
    finally:
        db.close()
