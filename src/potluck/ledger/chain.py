"""A walk along the links of a ledger, each checked against the one before."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import count
from operator import itemgetter
from typing import Any

from potluck.ledger.entries import countersigned_hash, entry_hash, ledger_hash, link_hash, run_hash, slot_hash
from potluck.ledger.keys import signed

EVERY = 1000
"""Links between two reports of progress."""
NOT_ITS_HASH = "its hash is not that of its content"


@dataclass
class Run:
    """A run on the way along the chain."""

    name: str
    hash: bytes
    balanced: bool
    silos: list[tuple[str, bytes]]
    lines: list[bytes]
    slot: int = 0
    signed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By place: the last slot countersigned, and the link that says so."""


class BrokenChainError(Exception):
    """Where the chain breaks, and how."""


class Chain:
    """Walks along the links in their order."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.runs: dict[int, Run] = {}
        self.slots: dict[int, tuple[int, int]] = {}
        """By link: the run's link, and the slot."""
        self.entries = self.countersignatures = 0
        self.coordinator = self.hash = b""
        self.number = self.sealed = 0
        """The last link, and the last that the coordinator signed: with it, all before."""

    def walk(self, trusted: bytes | None, wanted: set[str], progress: Callable[[float], None]) -> None:
        """Check every link; tick off the `wanted` hashes on the way."""
        self._ledger()
        if trusted not in (None, self.coordinator):
            raise BrokenChainError(
                f"the key does not match: it is signed by another coordinator, {self.coordinator.hex()}"
            )
        wanted.discard(self.hash.hex())
        total = self.db.execute("SELECT (SELECT max(number) FROM slots), (SELECT max(number) FROM countersignatures)")
        most = max(filter(None, total.fetchone()), default=1)
        kinds: dict[str, Callable[..., bytes]] = {
            "run": self._run,
            "slot": self._slot,
            "countersignature": self._countersignature,
        }
        for expected, (number, kind, *row) in zip(count(1), self._links(), strict=False):
            if number != expected:
                what = f"link {expected} is missing" if number > expected else f"link {number} is not the next"
                raise BrokenChainError(f"{what}: {self._after()}")
            self.hash = kinds[kind](number, *row)
            self.number = number
            if kind != "countersignature":
                self.sealed = number
            wanted.discard(self.hash.hex())
            if not number % EVERY:
                progress(number / most)
        for table, owner in (("entries", "slots"), ("silos", "runs")):
            column = "number" if table == "entries" else "run"
            query = f"SELECT {column} FROM {table} WHERE {column} NOT IN (SELECT number FROM {owner}) LIMIT 1"
            for (number,) in self.db.execute(query):
                raise BrokenChainError(f"link {number}: there are {table} of it, but it is not among the {owner}")

    def _links(self) -> Iterator[tuple[Any, ...]]:
        queries = (
            "SELECT number, 'run', run, rules, balanced, time, hash, signature FROM runs",
            "SELECT number, 'slot', run, slot, signal, precision, outside, time, hash, signature FROM slots",
            "SELECT number, 'countersignature', slot, place, signature, hash FROM countersignatures",
        )
        return merge(*(self.db.execute(f"{query} ORDER BY number") for query in queries), key=itemgetter(0))

    def _after(self) -> str:
        """Where one is, for a person: the last slot that was found whole."""
        for run, slot in reversed(self.slots.values()):
            return f"something after slot {slot} of run {self.runs[run].name} was removed, repeated or moved"
        return "something at the beginning was removed, repeated or moved"

    def _ledger(self) -> None:
        rows = self.db.execute("SELECT number, identity, coordinator, time, hash, signature FROM ledger").fetchall()
        if len(rows) != 1 or rows[0][0] != 0:
            raise BrokenChainError("the ledger's own first link is missing")
        number, identity, self.coordinator, time, self.hash, signature = rows[0]
        if ledger_hash(number, identity, self.coordinator, time) != self.hash:
            raise BrokenChainError("the ledger's own first link was changed: its hash is not that of its content")
        if not signed(self.coordinator, signature, self.hash):
            raise BrokenChainError("the ledger's own first link is not signed by the coordinator")

    def _run(
        self, number: int, name: str, rules: str, balanced: int, time: int, found: bytes, signature: bytes
    ) -> bytes:
        where = f"run {name} (link {number})"
        rows = self.db.execute("SELECT place, silo, key FROM silos WHERE run = ? ORDER BY place", (number,)).fetchall()
        silos = [(silo, key) for _, silo, key in rows]
        self._check(where, found, run_hash(self.hash, number, name, rules, balanced, time, rows), signature)
        if [place for place, *_ in rows] != list(range(len(rows))):
            raise BrokenChainError(f"{where}: the places of its silos are not 0 to {len(rows) - 1}")
        if name in (run.name for run in self.runs.values()):
            raise BrokenChainError(f"{where}: a run of that name is there already")
        self.runs[number] = Run(name, found, bool(balanced), silos, [found] * len(silos))
        return found

    def _slot(
        self, number: int, opened: int, slot: int, signal: float, precision: float, outside: int, time: int,
        found: bytes, signature: bytes,
    ) -> bytes:  # fmt: skip
        run = self.runs.get(opened)
        if run is None:
            raise BrokenChainError(f"link {number}: slot {slot} belongs to a run that is not there")
        where = f"slot {slot} of run {run.name} (link {number})"
        query = "SELECT place, contribution, transfer, hash FROM entries WHERE number = ? ORDER BY place"
        lines = self.db.execute(query, (number,)).fetchall()
        for expected, (place, contribution, transfer, line) in enumerate(lines):
            if place != expected or place >= len(run.silos):
                raise BrokenChainError(
                    f"{where}: the entry at place {min(place, expected)} was removed, or does not belong there"
                )
            if entry_hash(run.lines[place], place, slot, signal, precision, contribution, transfer) != line:
                raise BrokenChainError(f"{where}, silo {run.silos[place][0]}: the entry was changed: {NOT_ITS_HASH}")
        if len(lines) != len(run.silos):
            raise BrokenChainError(f"{where}, silo {run.silos[len(lines)][0]}: the entry was removed")
        run.lines = [line for *_, line in lines]
        link = slot_hash(self.hash, number, run.hash, slot, signal, precision, outside, time, run.lines)
        self._check(where, found, link, signature)
        if slot != run.slot + 1:
            raise BrokenChainError(f"{where}: it follows slot {run.slot}")
        if outside != -sum(transfer for _, _, transfer, _ in lines) or (run.balanced and outside):
            raise BrokenChainError(f"{where}: its transfers do not sum to zero")
        run.slot = slot
        self.slots[number] = (opened, slot)
        self.entries += len(lines)
        return found

    def _countersignature(self, number: int, slot: int, place: int, signature: bytes, found: bytes) -> bytes:
        opened, of_slot = self.slots.get(slot, (None, 0))
        if opened is None or not 0 <= place < len(self.runs[opened].silos):
            raise BrokenChainError(f"link {number}: it countersigns what is not there (link {slot}, place {place})")
        run = self.runs[opened]
        if link_hash(self.hash, number, slot, place, signature) != found:
            silo = run.silos[place][0]
            raise BrokenChainError(
                f"slot {of_slot} of run {run.name} (link {number}), silo {silo}: the countersignature was changed: "
                f"{NOT_ITS_HASH}"
            )
        if of_slot > run.signed.get(place, (0, 0))[0]:
            run.signed[place] = (of_slot, number)
        self.countersignatures += 1
        return found

    def _check(self, where: str, found: bytes, link: bytes, signature: bytes) -> None:
        if found != link:
            raise BrokenChainError(f"{where}: it was changed, or a link before it removed or moved: {NOT_ITS_HASH}")
        if not signed(self.coordinator, signature, link):
            raise BrokenChainError(f"{where}: it is not signed by the coordinator")

    def check_countersignatures(self, every: bool, progress: Callable[[float], None]) -> None:
        """Check the last of each silo in each run, which stands for those before; or `every` single one.

        After the last link that the coordinator signed, anybody can append some: those are checked in any case.
        """
        last = {link for run in self.runs.values() for _, link in run.signed.values()}
        chosen = sorted(last.union(range(self.sealed + 1, self.number + 1)))
        query = """SELECT signed.slot, signed.place, signed.signature, slots.hash, entries.hash
          FROM countersignatures AS signed JOIN slots ON slots.number = signed.slot
          JOIN entries ON entries.number = signed.slot AND entries.place = signed.place"""
        rows = (
            self.db.execute(f"{query} ORDER BY signed.number")
            if every
            else (row for link in chosen for row in self.db.execute(f"{query} WHERE signed.number = ?", (link,)))
        )
        total = self.countersignatures if every else len(chosen)
        for done, (number, place, signature, slot, entry) in enumerate(rows):
            opened, of_slot = self.slots[number]
            run = self.runs[opened]
            silo, key = run.silos[place]
            if not signed(key, signature, countersigned_hash(slot, entry)):
                raise BrokenChainError(
                    f"slot {of_slot} of run {run.name}, silo {silo}: the countersignature is not this silo's"
                )
            if not done % EVERY:
                progress(done / total)
