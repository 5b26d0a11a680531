"""The file: its tables, how it is opened, and what its faults are called."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.errors import PotluckError

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises where a file is damaged: its own message may quote bytes that are no text."""

APPLICATION = 0x504F544C
"""SQLite's `application_id` of a ledger: POTL."""
FORMAT = 1
"""SQLite's `user_version`: the format of tables and hashes."""

TABLES = {
    "ledger": """CREATE TABLE ledger (
  number INTEGER PRIMARY KEY CHECK (number = 0),
  identity BLOB NOT NULL,
  coordinator BLOB NOT NULL,
  time INTEGER NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL
) STRICT""",
    "runs": """CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  rules TEXT NOT NULL,
  balanced INTEGER NOT NULL,
  time INTEGER NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL
) STRICT""",
    "silos": """CREATE TABLE silos (
  run INTEGER NOT NULL,
  place INTEGER NOT NULL,
  silo TEXT NOT NULL,
  key BLOB NOT NULL,
  PRIMARY KEY (run, place)
) STRICT, WITHOUT ROWID""",
    "slots": """CREATE TABLE slots (
  number INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  signal REAL NOT NULL,
  precision REAL NOT NULL,
  outside INTEGER NOT NULL,
  time INTEGER NOT NULL,
  hash BLOB NOT NULL,
  signature BLOB NOT NULL,
  UNIQUE (run, slot)
) STRICT""",
    "entries": """CREATE TABLE entries (
  number INTEGER NOT NULL,
  place INTEGER NOT NULL,
  contribution REAL,
  transfer INTEGER NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY (number, place)
) STRICT, WITHOUT ROWID""",
    "countersignatures": """CREATE TABLE countersignatures (
  number INTEGER PRIMARY KEY,
  slot INTEGER NOT NULL,
  place INTEGER NOT NULL,
  signature BLOB NOT NULL,
  hash BLOB NOT NULL,
  UNIQUE (slot, place)
) STRICT""",
}
VIEW = """CREATE VIEW record AS
SELECT runs.run, slots.slot, silos.silo, entries.contribution, slots.signal, slots.precision,
  entries.transfer AS transfer_micro, slots.time, slots.number, entries.place
FROM slots
JOIN runs ON runs.number = slots.run
JOIN entries ON entries.number = slots.number
JOIN silos ON silos.run = slots.run AND silos.place = entries.place"""
TRIGGERS = [
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb.upper()} ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
    for table in TABLES
    for verb in ("update", "delete")
]
SCHEMA = [*TABLES.values(), VIEW, *TRIGGERS]


def open_writer(place: Path) -> sqlite3.Connection:
    """A connection that has committed only what is on the disk (WAL, synchronous=FULL)."""
    db = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    with closed_on_fault(db):
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
    return db


def open_reader(place: Path) -> sqlite3.Connection:
    """A connection that cannot write; one that is beside a writer sees whole slots."""
    if not place.is_file():
        raise PotluckError(f"{place}: there is no such ledger")
    real = place.resolve()
    address = f"{real.as_uri()}?mode=ro"
    beside = real.with_name(f"{real.name}-wal")
    # A file in a folder that one may not write to has no log beside it, and nobody who could start one.
    still = not beside.exists() and not os.access(real.parent, os.W_OK)
    db = sqlite3.connect(address + "&immutable=1" * still, uri=True, isolation_level=None)
    db.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    with closed_on_fault(db), explained(place):
        check_kind(db, place)
    return db


@contextmanager
def closed_on_fault(db: sqlite3.Connection) -> Iterator[None]:
    """Leave nothing open where the beginning fails."""
    try:
        yield
    except BaseException:
        db.close()
        raise


def check_kind(db: sqlite3.Connection, place: Path) -> None:
    """Refuse what is not a ledger of this format."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise PotluckError(f"{place}: is not a ledger")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found != FORMAT:
        raise PotluckError(f"{place}: is a ledger of format {found}, this program reads {FORMAT}; use the one it is of")


def schema_of(db: sqlite3.Connection) -> list[str]:
    """What the file itself says of its tables, triggers and views; SQLite's own indices say nothing."""
    rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL OR type != 'index' ORDER BY rowid")
    return [sql for (sql,) in rows]


@contextmanager
def explained(place: Path, undone: str = "") -> Iterator[None]:
    """Say in one line what SQLite found wrong with the file or the disk, and what was not done for it."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except FAULTS as fault:
        name = getattr(fault, "sqlite_errorname", "")
        if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
            remedy = "the disk is full or failing; make room and do it again, nothing before is lost"
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            remedy = "another program is writing to it; stop that one first"
        elif name.startswith("SQLITE_NOTADB"):
            remedy = "is not a ledger"
        elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            remedy = "cannot be opened here; see who may read and write the file and its folder"
        else:
            remedy = f"is damaged ({fault}); take the last copy of it"
        raise PotluckError(f"{place}: {undone}{remedy}") from None
