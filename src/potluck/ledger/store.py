"""The coordinator's side: one file, one writer, one transaction per slot."""

import fcntl
import math
import secrets
import sqlite3
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from potluck.errors import PotluckError
from potluck.ledger.entries import (
    Countersignature,
    Opening,
    Silo,
    Statement,
    countersigned_hash,
    entry_hash,
    ledger_hash,
    link_hash,
    slot_hash,
)
from potluck.ledger.keys import public_key, signed
from potluck.ledger.money import OUTSIDE, micro
from potluck.ledger.queries import Head, head_of, last_lines, openings, statements
from potluck.ledger.schema import APPLICATION, FORMAT, SCHEMA, check_kind, closed_on_fault, explained, open_writer


class Ledger:
    """A ledger that its coordinator writes to, from any thread; made where there is none. All state is in the file."""

    def __init__(self, place: Path | str, key: Ed25519PrivateKey) -> None:
        self.place, self._key = Path(place).resolve(), key  # one file, one lock, whatever it is called
        self._openings: dict[str, Opening] = {}  # never change once they are written
        self._turn = RLock()
        self._lock = _only_writer(self.place)
        try:
            with explained(self.place):
                if not self.place.exists():
                    _born(self.place, key)
                self._db = open_writer(self.place)
                with closed_on_fault(self._db):
                    self._own()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "Ledger":
        """Close it at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let the next writer in."""
        self._db.close()
        self._lock.close()

    def begin(self, run: str, silos: Mapping[str, bytes], *, balanced: bool = True, rules: str = "") -> Opening:
        """Open a run: the names and public keys of its silos, in the order of what is recorded.

        `balanced` says whether transfers sum to zero; `rules` is any text that says by what they are set. The same
        again gives the same opening.
        """
        members = tuple(Silo.of_fields(name=name, key=key) for name, key in silos.items())
        if not members or OUTSIDE in silos or len(set(silos.values())) < len(silos):
            raise PotluckError(
                f"must be one or more, each with a key of its own, none named {OUTSIDE!r}", field="silos"
            )
        draft = Opening.of_fields(
            number=0, previous=bytes(32), run=run, rules=rules, balanced=balanced, time=_now(), silos=members,
            signature=bytes(64),
        )  # fmt: skip
        with self._transaction(f"run {run} was not opened: "):
            for known in openings(self._db, run):
                if (known.silos, known.balanced, known.rules) != (members, balanced, rules):
                    raise PotluckError(
                        f"run {run} is in the ledger with other silos or rules; give the new one a new name"
                    )
                return known
            head = head_of(self._db)
            opening = draft.model_copy(update={"number": head.number + 1, "previous": head.hash})
            opening = opening.model_copy(update={"signature": self._key.sign(opening.hash)})
            self._db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)",
                (opening.number, run, rules, balanced, opening.time, opening.hash, opening.signature),
            )
            self._db.executemany(
                "INSERT INTO silos VALUES (?, ?, ?, ?)",
                [(opening.number, place, silo.name, silo.key) for place, silo in enumerate(members)],
            )
        return opening

    def last_slot(self, run: str) -> int:
        """Where a coordinator goes on after a restart; 0 before the first slot."""
        with self._turn, explained(self.place):
            return last_lines(self._db, self._opening(run))[0]

    def record(
        self,
        run: str,
        slot: int,
        *,
        signal: float,
        precision: float,
        contributions: Sequence[float | None],
        transfers: Sequence[float],
        countersignatures: Sequence[Countersignature] = (),
    ) -> list[Statement]:
        """Settle a slot: on the disk, or not at all. Gives what each silo is to be told.

        Slots count from 1. Numbers are in the order of the run's silos; a contribution is None where a silo made no
        claim; transfers are in money. The same slot again is accepted if it is equal and refused if not.
        `countersignatures` are those of earlier slots that have come in.
        """
        claims = [None if claim is None else _real("contributions", claim) for claim in contributions]
        common = _real("signal", signal), _real("precision", precision)
        with self._transaction(f"slot {slot} of run {run} was not recorded: "):
            opening = self._opening(run)
            for name, numbers in (("contributions", contributions), ("transfers", transfers)):
                if len(numbers) != len(opening.silos):
                    raise PotluckError(f"must be one per silo, {len(opening.silos)}, got {len(numbers)}", field=name)
            amounts = micro([float(transfer) for transfer in transfers], balanced=opening.balanced)
            head = self._keep(countersignatures)
            last, before = last_lines(self._db, opening)
            if slot == last + 1:
                self._append(opening, slot, head, before, common, claims, amounts)
                return statements(self._db, opening, slot)
            if not 1 <= slot <= last:
                raise PotluckError(f"must be {last + 1}, the one after run {run}'s last, got {slot}", field="slot")
            settled = statements(self._db, opening, slot)
            _check_equal(settled, common, claims, amounts)
        return settled

    def statements(self, run: str, silo: str, after: int = 0, most: int = 2**31) -> list[Statement]:
        """What a silo is told of the slots after the one that it knows."""
        with self._turn, explained(self.place):
            opening = self._opening(run)
            place, last = _place(opening, silo), last_lines(self._db, opening)[0]
            return [
                statements(self._db, opening, slot)[place] for slot in range(after + 1, min(last, after + most) + 1)
            ]

    def check(self, countersignature: Countersignature) -> None:
        """Refuse a countersignature that is not the silo's word for what this ledger holds."""
        with self._turn, explained(self.place):
            self._checked(countersignature)

    def countersign(self, countersignatures: Sequence[Countersignature]) -> None:
        """Keep what has come in, in a transaction of its own; the same again changes nothing."""
        with self._transaction("countersignatures were not recorded: "):
            self._keep(countersignatures)

    def _own(self) -> None:
        """Make an empty file a ledger of this coordinator's; refuse another's."""
        with _committed(self._db):
            if self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
                _make(self._db, self._key)
        check_kind(self._db, self.place)
        owner = self._db.execute("SELECT hex(coordinator) FROM ledger").fetchone()[0].lower()
        if owner != (mine := public_key(self._key).hex()):
            raise PotluckError(
                f"{self.place}: the key does not match: this ledger belongs to {owner}, the key to {mine}"
            )

    @contextmanager
    def _transaction(self, undone: str) -> Iterator[None]:
        with self._turn, explained(self.place, undone), _committed(self._db):
            yield

    def _opening(self, run: str) -> Opening:
        if run not in self._openings:
            found = openings(self._db, run)
            if not found:
                raise PotluckError(f"run {run} is not in the ledger; begin it first")
            self._openings[run] = found[0]
        return self._openings[run]

    def _append(
        self,
        opening: Opening,
        slot: int,
        head: Head,
        before: Sequence[bytes],
        common: tuple[float, float],
        claims: Sequence[float | None],
        amounts: Sequence[int],
    ) -> None:
        """Insert a slot and its lines."""
        number, outside, time = head.number + 1, -sum(amounts), _now()
        hashes = [
            entry_hash(before[place], place, slot, *common, claim, amount)
            for place, (claim, amount) in enumerate(zip(claims, amounts, strict=True))
        ]
        link = slot_hash(head.hash, number, opening.hash, slot, *common, outside, time, hashes)
        self._db.execute(
            "INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, opening.number, slot, *common, outside, time, link, self._key.sign(link)),
        )
        self._db.executemany(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
            [(number, place, *line) for place, line in enumerate(zip(claims, amounts, hashes, strict=True))],
        )

    def _keep(self, words: Sequence[Countersignature]) -> Head:
        """Append those that are not there yet; the chain's head after them.

        A silo can sign the same again in other bytes (Ed25519 with another nonce): that says nothing new.
        """
        head = head_of(self._db)
        for word in words:
            slot, place = self._checked(word)
            query = "SELECT 1 FROM countersignatures WHERE slot = ? AND place = ?"
            if self._db.execute(query, (slot, place)).fetchone() is None:
                number = head.number + 1
                head = Head(number, link_hash(head.hash, number, slot, place, word.signature))
                row = (number, slot, place, word.signature, head.hash)
                self._db.execute("INSERT INTO countersignatures VALUES (?, ?, ?, ?, ?)", row)
        return head

    def _checked(self, word: Countersignature) -> tuple[int, int]:
        """The link of the slot and the place of the silo that the countersignature is about."""
        opening = self._opening(word.run)
        place = _place(opening, word.silo)
        row = self._db.execute(
            """SELECT slots.number, slots.hash, entries.hash FROM slots JOIN entries USING (number)
               WHERE run = ? AND slot = ? AND place = ?""",
            (opening.number, word.slot, place),
        ).fetchone()
        key = opening.silos[place].key
        if row is None or not signed(key, word.signature, countersigned_hash(row[1], row[2])):
            raise PotluckError(
                f"slot {word.slot} of run {word.run}: the countersignature of {word.silo} is not its word for what is "
                "recorded; it is refused"
            )
        return row[0], place


def _born(place: Path, key: Ed25519PrivateKey) -> None:
    """A new ledger, made beside its place and then put there: who reads finds a whole one, or none."""
    log = place.with_name(f"{place.name}-wal")
    if log.exists() and log.stat().st_size:
        raise PotluckError(
            f"{log}: holds slots of a ledger that is no longer beside it; put that back, or move this too"
        )
    beside = place.with_name(f"{place.name}-new")
    beside.unlink(missing_ok=True)
    with closing(open_writer(beside)) as db, _committed(db):
        _make(db, key)
    beside.rename(place)


def _make(db: sqlite3.Connection, key: Ed25519PrivateKey) -> None:
    """Make an empty file a ledger of this coordinator's."""
    for command in (*SCHEMA, f"PRAGMA application_id={APPLICATION}", f"PRAGMA user_version={FORMAT}"):
        db.execute(command)
    identity, coordinator, time = secrets.token_bytes(32), public_key(key), _now()
    link = ledger_hash(0, identity, coordinator, time)
    db.execute("INSERT INTO ledger VALUES (0, ?, ?, ?, ?, ?)", (identity, coordinator, time, link, key.sign(link)))


def _only_writer(place: Path) -> IO[bytes]:
    """The lock that one writer holds until its process ends, however that ends."""
    try:
        lock = place.with_name(f"{place.name}-lock").open("ab")
    except OSError as fault:
        raise PotluckError(f"{place}: cannot be written ({fault.strerror}); name another place") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise PotluckError(f"{place}: another coordinator is writing to this ledger; stop that one first") from None
    return lock


@contextmanager
def _committed(db: sqlite3.Connection) -> Iterator[None]:
    """All of it on the disk, or none of it anywhere."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _check_equal(
    settled: Sequence[Statement],
    common: tuple[float, float],
    claims: Sequence[float | None],
    amounts: Sequence[int],
) -> None:
    """Refuse to settle a slot a second time in another way."""
    for statement, claim, amount in zip(settled, claims, amounts, strict=True):
        said = {"signal": common[0], "precision": common[1], "contribution": claim, "transfer": amount}
        for name, value in said.items():
            if getattr(statement, name) != value:
                raise PotluckError(
                    f"slot {statement.slot} of run {statement.run} is settled already, and otherwise: {name} of "
                    f"{statement.silo} is {getattr(statement, name)}, not {value}; what is settled stays"
                )


def _place(opening: Opening, silo: str) -> int:
    names = opening.names
    if silo not in names:
        raise PotluckError(f"must be one of {', '.join(names)}, got {silo!r}", field="silo")
    return names.index(silo)


def _real(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise PotluckError(f"must be finite, got {value}", field=name)
    return float(value) + 0.0  # SQLite knows no negative zero


def _now() -> int:
    """Microseconds since 1970, UTC."""
    return clock.time_ns() // 1000
