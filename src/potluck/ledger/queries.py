"""What both sides ask the file: the chain's head, runs, and what a silo is told of a slot."""

import sqlite3
from typing import NamedTuple

from potluck.errors import PotluckError
from potluck.ledger.entries import Opening, Silo, Statement

LINKED = ("ledger", "runs", "slots", "countersignatures")
"""Tables whose rows are links of the chain."""


class Head(NamedTuple):
    """The last link of the chain."""

    number: int
    hash: bytes


def head_of(db: sqlite3.Connection) -> Head:
    """Where the chain ends."""
    last = [db.execute(f"SELECT number, hash FROM {table} ORDER BY number DESC LIMIT 1").fetchone() for table in LINKED]
    return max(Head(*row) for row in last if row)


def openings(db: sqlite3.Connection, run: str | None = None) -> list[Opening]:
    """All runs, or the one of that name."""
    rows = db.execute(
        "SELECT number, run, rules, balanced, time, signature FROM runs WHERE ?1 IS NULL OR run = ?1 ORDER BY number",
        (run,),
    )
    found = []
    for number, name, rules, balanced, time, signature in rows.fetchall():
        members = db.execute("SELECT silo, key FROM silos WHERE run = ? ORDER BY place", (number,))
        found.append(
            Opening.of_fields(
                number=number,
                previous=_link(db, number - 1),
                run=name,
                rules=rules,
                balanced=bool(balanced),
                time=time,
                silos=tuple(Silo.of_fields(name=silo, key=key) for silo, key in members),
                signature=signature,
            )
        )
    return found


def last_lines(db: sqlite3.Connection, opening: Opening) -> tuple[int, list[bytes]]:
    """The run's last slot, and the hash of every silo's line in it; before the first, 0 and the run's hash."""
    row = db.execute(
        "SELECT slot, number FROM slots WHERE run = ? ORDER BY slot DESC LIMIT 1", (opening.number,)
    ).fetchone()
    if row is None:
        return 0, [opening.hash] * len(opening.silos)
    return row[0], [line for *_, line in _lines(db, row[1])]


def statements(db: sqlite3.Connection, opening: Opening, slot: int) -> list[Statement]:
    """What each silo is told of a slot that is in the ledger."""
    found = db.execute(
        """SELECT number, signal, precision, outside, time, signature FROM slots
           WHERE run = ? AND slot IN (?, ?) ORDER BY slot""",
        (opening.number, slot - 1, slot),
    ).fetchall()
    run, number = opening.hash, found[-1][0]
    lines, previous = _lines(db, number), _link(db, number - 1)
    before = [line for *_, line in _lines(db, found[0][0])] if slot > 1 else [run] * len(lines)
    _, signal, precision, outside, time, signature = found[-1]
    hashes = tuple(line for *_, line in lines)
    return [
        Statement(
            run=opening.run,
            opening=run,
            silo=silo.name,
            place=place,
            number=number,
            previous=previous,
            slot=slot,
            signal=signal,
            precision=precision,
            contribution=claim,
            transfer=transfer,
            outside=outside,
            time=time,
            before=before[place],
            entries=hashes,
            signature=signature,
        )
        for place, (silo, (claim, transfer, _)) in enumerate(zip(opening.silos, lines, strict=True))
    ]


def _lines(db: sqlite3.Connection, number: int) -> list[tuple[float | None, int, bytes]]:
    """Contribution, transfer and hash of every silo's line in the slot at that link."""
    query = "SELECT contribution, transfer, hash FROM entries WHERE number = ? ORDER BY place"
    return db.execute(query, (number,)).fetchall()


def _link(db: sqlite3.Connection, number: int) -> bytes:
    """The hash of a link."""
    for table in LINKED:
        for (found,) in db.execute(f"SELECT hash FROM {table} WHERE number = ?", (number,)):
            return bytes(found)
    raise PotluckError(f"the ledger is damaged: link {number} is missing; take the last copy of it")
