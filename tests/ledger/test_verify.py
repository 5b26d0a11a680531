"""Whatever is done to a ledger by somebody who lacks a key, both verifiers find it."""

import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from potluck.errors import PotluckError
from potluck.ledger import Ledger, Statement, public_key, verify
from potluck.ledger.entries import entry_hash, link_hash, run_hash, slot_hash
from potluck.ledger.schema import SCHEMA, TABLES, TRIGGERS
from tests.ledger.books import COORDINATOR, EXAMPLE, KEYS, Federation, independent, key_of

COLUMNS = {
    table: [line.split()[0] for line in sql.splitlines()[1:-1] if line.split()[0].islower()]
    for table, sql in TABLES.items()
}
UNIQUE: dict[str, dict[str, Any]] = {
    "runs": {"run": "aside"},
    "slots": {"slot": -999},
    "countersignatures": {"slot": -999},
}
KEY = {"entries": ("number", "place"), "silos": ("run", "place")}
settings.register_profile("attacks", settings.get_profile("potluck"), suppress_health_check=list(HealthCheck))
attacks = settings(settings.get_profile("attacks"))


@pytest.fixture(scope="module")
def head(whole: Path) -> str:
    found = verify(whole)
    assert (found.fault, found.slots, found.entries, found.countersignatures) == (None, 6, 18, 15)
    return found.head


@contextmanager
def attacked(whole: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A copy in which anything goes: no triggers while it lasts, and no trace of that afterwards."""
    place = whole.with_name("attacked.ledger")
    shutil.copy(whole, place)
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "ignore_check_constraints = ON"):
            db.execute(f"PRAGMA {pragma}")
        for trigger in TRIGGERS:
            db.execute(f"DROP TRIGGER {trigger.split()[2]}")
        yield place, db
        for trigger in TRIGGERS:
            db.execute(trigger)


def rows_of(db: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def everything(place: Path) -> list[list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as db:
        return [rows_of(db, table) for table in COLUMNS]


def put(db: sqlite3.Connection, table: str, row: tuple[Any, ...], values: dict[str, Any]) -> None:
    """Change cells of one row."""
    named = dict(zip(COLUMNS[table], row, strict=True))
    where = KEY.get(table, ("number",))
    try:
        db.execute(
            f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in values)} "
            f"WHERE {' AND '.join(f'{name} = ?' for name in where)}",
            [*values.values(), *(named[name] for name in where)],
        )
    except sqlite3.IntegrityError:
        assume(False)  # the file itself cannot hold that


def flipped(value: Any, at: int, bit: int) -> Any:
    """The same value with one bit of one byte turned over."""
    if value is None:
        return 0.5
    if isinstance(value, int | float):
        form = ">d" if isinstance(value, float) else ">q"
        raw = bytearray(struct.pack(form, value))
        raw[at % 8] ^= 1 << bit
        return struct.unpack(form, raw)[0]
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    raw[at % len(raw)] ^= 1 << bit
    return raw.decode("latin-1") if isinstance(value, str) else bytes(raw)


def test_the_columns_are_those_of_the_file(whole: Path) -> None:
    with closing(sqlite3.connect(whole)) as db:
        for table, names in COLUMNS.items():
            assert [row[1] for row in db.execute(f"PRAGMA table_info({table})")] == names


@attacks
@given(data=st.data())
def test_any_changed_byte_of_any_cell_is_found(whole: Path, data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(sorted(COLUMNS)))
    with attacked(whole) as (place, db):
        before = rows_of(db, table)
        row = data.draw(st.sampled_from(before))
        column = data.draw(st.sampled_from(COLUMNS[table]))
        old = row[COLUMNS[table].index(column)]
        new = flipped(old, data.draw(st.integers(0, 63)), data.draw(st.integers(0, 7)))
        put(db, table, row, {column: new})
        assume(rows_of(db, table) != before)  # SQLite has no −0.0
    assert verify(place).fault is not None
    assert independent(place) is not None


def test_every_cell_of_a_small_ledger_is_covered(tmp_path: Path) -> None:
    """Not a sample: every cell of every row, its first byte and its last."""
    whole = tmp_path / "small.ledger"
    with Ledger(whole, COORDINATOR) as ledger:
        federation = Federation(ledger)
        federation.settle()
        ledger.countersign(federation.words[:1])
    tried = 0
    for table, names in COLUMNS.items():
        for number, row in enumerate(everything(whole)[list(COLUMNS).index(table)]):
            for name, value in zip(names, row, strict=True):
                for at in (0, -1):
                    with attacked(whole) as (place, db):
                        try:
                            put(db, table, rows_of(db, table)[number], {name: flipped(value, at, 0)})
                        except BaseException:  # hypothesis' word for what the file cannot hold
                            continue
                    tried += 1
                    assert verify(place).fault is not None, (table, name, at)
                    assert independent(place) is not None, (table, name, at)
    assert tried > 60


@attacks
@given(data=st.data(), close_the_gap=st.booleans())
def test_any_removed_row_is_found(whole: Path, head: str, data: st.DataObject, close_the_gap: bool) -> None:
    table = data.draw(st.sampled_from(sorted(COLUMNS)))
    with attacked(whole) as (place, db):
        row = data.draw(st.sampled_from(rows_of(db, table)))
        named = dict(zip(COLUMNS[table], row, strict=True))
        where = KEY.get(table, ("number",))
        db.execute(
            f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in where)}", [named[key] for key in where]
        )
        if close_the_gap and table in ("slots", "countersignatures"):
            if table == "slots":
                db.execute("DELETE FROM entries WHERE number = ?", (named["number"],))
            for other in ("runs", "slots", "countersignatures", "entries"):
                for number in range(named["number"] + 1, 30):
                    db.execute(f"UPDATE {other} SET number = ? WHERE number = ?", (number - 1, number))
    assert verify(place, heads=[head]).fault is not None
    assert independent(place, public_key(COORDINATOR).hex(), head) is not None


@attacks
@given(data=st.data())
def test_any_repeated_row_is_found(whole: Path, head: str, data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(["runs", "silos", "slots", "entries", "countersignatures"]))
    with attacked(whole) as (place, db):
        row = data.draw(st.sampled_from(rows_of(db, table)))
        copy = dict(zip(COLUMNS[table], row, strict=True))
        last = int(head.partition(":")[0])
        copy[COLUMNS[table][0]] = data.draw(st.sampled_from([last + 1, last + 2, 0, -1]))
        if table == "runs":
            copy["run"] = "again"
        if table in ("slots", "countersignatures"):
            copy["slot"] += data.draw(st.integers(1, 9))
        if table in KEY and data.draw(st.booleans()):
            copy[COLUMNS[table][0]] = row[0]
            copy["place"] = 3
        marks = ", ".join("?" * len(copy))
        try:
            db.execute(f"INSERT INTO {table} VALUES ({marks})", list(copy.values()))
        except sqlite3.IntegrityError:
            assume(False)
    assert verify(place).fault is not None
    assert independent(place) is not None


@attacks
@given(data=st.data(), content_only=st.booleans())
def test_any_two_rows_in_each_others_place_are_found(whole: Path, data: st.DataObject, content_only: bool) -> None:
    table = data.draw(st.sampled_from(["runs", "silos", "slots", "entries", "countersignatures"]))
    with attacked(whole) as (place, db):
        rows = rows_of(db, table)
        one, other = data.draw(st.lists(st.sampled_from(rows), min_size=2, max_size=2, unique=True))
        keys = KEY.get(table, ("number",))
        # Either all content changes places, or all but the hash, the sums staying as they are.
        kept = [name for name in COLUMNS[table] if name not in keys and not (content_only and name == "hash")]
        names = dict(zip(COLUMNS[table], one, strict=True)), dict(zip(COLUMNS[table], other, strict=True))
        assume([names[0][name] for name in kept] != [names[1][name] for name in kept])
        if table in UNIQUE:
            put(db, table, one, UNIQUE[table])  # out of the way of what has to be unique
        put(db, table, other, {name: names[0][name] for name in kept})
        put(db, table, one, {name: names[1][name] for name in kept})
    assert verify(place).fault is not None
    assert independent(place) is not None


@attacks
@given(data=st.data())
def test_a_byte_of_the_file_that_changes_what_it_says_is_found(whole: Path, data: st.DataObject) -> None:
    place = whole.with_name("bytes.ledger")
    raw = bytearray(whole.read_bytes())
    page = data.draw(st.integers(0, len(raw) // 4096 - 1))
    used = [at for at in range(page * 4096, page * 4096 + 4096) if raw[at]]
    at = data.draw(st.sampled_from(used) | st.integers(page * 4096, page * 4096 + 4095))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    place.write_bytes(raw)
    try:
        fault = verify(place).fault
    except PotluckError as refusal:
        fault = str(refusal)
    assert fault is not None or everything(place) == everything(whole)


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        ("UPDATE entries SET transfer = transfer + 1 WHERE number = 3 AND place = 1",
         "slot 1 of run spring (link 3), silo south: the entry was changed"),
        ("UPDATE slots SET precision = 0.9 WHERE number = 3",
         "slot 1 of run spring (link 3), silo north: the entry was changed"),
        ("UPDATE slots SET time = time + 1 WHERE number = 4", "slot 1 of run autumn (link 4): it was changed"),
        ("DELETE FROM entries WHERE number = 3 AND place = 2",
         "slot 1 of run spring (link 3), silo west: the entry was removed"),
        ("DELETE FROM entries WHERE number = 3 AND place = 0",
         "slot 1 of run spring (link 3): the entry at place 0 was removed"),
        ("DELETE FROM slots WHERE number = 4",
         "link 4 is missing: something after slot 1 of run spring was removed, repeated or moved"),
        ("DELETE FROM runs WHERE number = 2", "link 2 is missing: something at the beginning was removed"),
        ("DELETE FROM ledger", "the ledger's own first link is missing"),
        ("UPDATE ledger SET time = 0", "the ledger's own first link was changed"),
        ("UPDATE ledger SET signature = zeroblob(64)", "the ledger's own first link is not signed by the coordinator"),
        ("UPDATE runs SET rules = 'none' WHERE number = 1", "run spring (link 1): it was changed"),
        ("UPDATE silos SET key = zeroblob(32) WHERE run = 1 AND place = 1", "run spring (link 1): it was changed"),
        ("UPDATE slots SET signature = zeroblob(64) WHERE number = 3",
         "slot 1 of run spring (link 3): it is not signed by the coordinator"),
        ("UPDATE countersignatures SET signature = zeroblob(64) WHERE number = 5",
         "slot 1 of run spring (link 5), silo north: the countersignature was changed"),
        ("UPDATE countersignatures SET slot = 99 WHERE number = 5",
         "link 5: it countersigns what is not there (link 99, place 0)"),
        ("UPDATE countersignatures SET place = -9 WHERE number = 5",
         "link 5: it countersigns what is not there (link 3, place -9)"),
        ("UPDATE entries SET place = -9 WHERE number = 3 AND place = 1",
         "slot 1 of run spring (link 3): the entry at place -9 was removed, or does not belong there"),
        ("INSERT INTO entries VALUES (99, 0, 1.0, 0, zeroblob(32))",
         "link 99: there are entries of it, but it is not among the slots"),
        ("CREATE TABLE more (x)", "its tables, triggers or views were altered"),
    ],
)  # fmt: skip
def test_the_first_fault_is_named(whole: Path, attack: str, named: str) -> None:
    with attacked(whole) as (place, db):
        db.execute(attack)
    assert (verify(place).fault or "").startswith(named)
    assert (independent(place) is None) == attack.startswith("CREATE")


def test_what_was_cut_off_at_the_end_is_found_by_a_head_or_a_receipt(whole: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.ledger"
    with Ledger(earlier, COORDINATOR) as ledger:
        federation = Federation(ledger)
        receipts = [federation.settle()[0] for _ in range(3)]
    last = verify(earlier)
    assert last.fault is None
    assert verify(earlier, heads=[last.head], receipts=receipts).fault is None
    with attacked(earlier) as (place, db):
        db.execute("DELETE FROM entries WHERE number = (SELECT max(number) FROM slots)")
        db.execute("DELETE FROM slots WHERE number = (SELECT max(number) FROM slots)")
    assert verify(place).fault is None  # nothing inside can tell
    assert verify(place, receipts=receipts[:2]).fault is None
    assert "is not in the chain: links were cut off or rewritten" in (verify(place, heads=[last.head]).fault or "")
    found = verify(place, receipts=receipts).fault
    assert found == "slot 3 of run spring: north holds a receipt that is not in the chain: it was cut off or rewritten"
    forged = receipts[2].model_copy(update={"signature": bytes(64)})
    assert "the receipt of north is not signed" in (verify(place, receipts=[forged]).fault or "")
    assert independent(place) is None
    assert independent(place, public_key(COORDINATOR).hex(), last.head) is not None
    with pytest.raises(PotluckError, match="head must be as printed by verify, NUMBER:HASH, got '7:abc'"):
        verify(whole, heads=["7:abc"])


@pytest.fixture
def waiting(tmp_path: Path) -> tuple[Path, list[Statement]]:
    """Three slots that all silos countersign at the end only; what north was told."""
    place = tmp_path / "waiting.ledger"
    with Ledger(place, COORDINATOR) as ledger:
        federation, told = Federation(ledger), list[Statement]()
        for _ in range(3):
            federation.words = []
            told += federation.settle()[:1]
        ledger.countersign(federation.words)
    return place, told


def append_word(db: sqlite3.Connection, slot: int, place: int, signature: bytes) -> None:
    """As anybody can who has no key."""
    number, previous = db.execute("SELECT number, hash FROM countersignatures ORDER BY 1 DESC LIMIT 1").fetchone()
    (link,) = db.execute("SELECT number FROM slots WHERE slot = ?", (slot,)).fetchone()
    row = (number + 1, link, place, signature, link_hash(previous, number + 1, link, place, signature))
    db.execute("INSERT INTO countersignatures VALUES (?, ?, ?, ?, ?)", row)


def test_a_countersignature_appended_without_a_key_is_found(waiting: tuple[Path, list[Statement]]) -> None:
    """Though a later slot of that silo is countersigned by itself."""
    with attacked(waiting[0]) as (place, db):
        append_word(db, 1, 0, bytes(64))
    assert verify(place).fault == "slot 1 of run spring, silo north: the countersignature is not this silo's"
    assert independent(place) is not None


def test_a_countersignature_at_a_place_below_zero_is_found(waiting: tuple[Path, list[Statement]]) -> None:
    with attacked(waiting[0]) as (place, db):
        (word,) = db.execute("SELECT signature FROM countersignatures WHERE place = 2").fetchone()
        append_word(db, 3, -1, word)
    assert "it countersigns what is not there" in (verify(place).fault or "")
    assert independent(place) == "link 8 is missing or was changed"


def test_silos_have_places_from_zero_on_though_the_coordinator_signs_others(tmp_path: Path) -> None:
    whole = tmp_path / "a.ledger"
    with Ledger(whole, COORDINATOR) as ledger:
        opening = ledger.begin("spring", KEYS)
    with attacked(whole) as (place, db):
        db.execute("UPDATE silos SET place = -1 WHERE place = 2")
        silos = db.execute("SELECT place, silo, key FROM silos ORDER BY place").fetchall()
        link = run_hash(opening.previous, 1, "spring", "", 1, opening.time, silos)
        db.execute("UPDATE runs SET hash = ?, signature = ?", (link, COORDINATOR.sign(link)))
    assert verify(place).fault == "run spring (link 1): the places of its silos are not 0 to 2"
    assert independent(place) == "link 1 is missing or was changed"


def test_entries_have_places_from_zero_on_though_the_coordinator_signs_others(tmp_path: Path) -> None:
    whole = tmp_path / "a.ledger"
    with Ledger(whole, COORDINATOR) as ledger:
        federation = Federation(ledger)
        (told, *_) = federation.settle()
    with attacked(whole) as (place, db):
        db.execute("UPDATE entries SET place = -1 WHERE place = 2")
        lines = []
        for at, claim, transfer in db.execute(
            "SELECT place, contribution, transfer FROM entries ORDER BY 1"
        ).fetchall():
            lines.append(entry_hash(told.opening, at, 1, told.signal, told.precision, claim, transfer))
            db.execute("UPDATE entries SET hash = ? WHERE place = ?", (lines[-1], at))
        link = slot_hash(told.previous, 2, told.opening, 1, told.signal, told.precision, 0, told.time, lines)
        db.execute("UPDATE slots SET hash = ?, signature = ?", (link, COORDINATOR.sign(link)))
    assert "the entry at place -1 was removed, or does not belong there" in (verify(place).fault or "")
    assert independent(place) == "link 2 is missing or was changed"


@pytest.mark.parametrize(
    ("altered", "named"),
    [
        ({"transfer": 10**12}, "its contribution, transfer, place or line before is not that of its entry"),
        ({"contribution": None}, "its contribution, transfer, place or line before is not that of its entry"),
        ({"before": bytes(32)}, "its contribution, transfer, place or line before is not that of its entry"),
        ({"place": 1}, "its contribution, transfer, place or line before is not that of its entry"),
        ({"place": 9}, "its contribution, transfer, place or line before is not that of its entry"),
        ({"silo": "south"}, "it is that of north in run spring"),
        ({"run": "autumn"}, "it is that of north in run spring"),
        ({"signature": bytes(64)}, "is not signed by this ledger's coordinator, so it proves nothing"),
        ({"precision": 0.125}, "is not signed by this ledger's coordinator, so it proves nothing"),
    ],
)
def test_an_altered_receipt_is_named(
    waiting: tuple[Path, list[Statement]], altered: dict[str, Any], named: str
) -> None:
    place, told = waiting
    assert verify(place, receipts=told).fault is None
    forged = told[1].model_copy(update=altered)
    # the true one of the same slot does not hide it
    fault = verify(place, receipts=[told[0], forged, told[1]]).fault or ""
    assert fault.startswith(f"slot 2 of run {forged.run}: the receipt of {forged.silo} ")
    assert fault.endswith(named)


def test_a_ledger_that_somebody_else_made_up_is_found_by_the_coordinators_key(tmp_path: Path) -> None:
    place, mallory = tmp_path / "mallory.ledger", key_of("mallory")
    with Ledger(place, mallory) as ledger:
        ledger.begin("spring", KEYS)
    assert verify(place).fault is None
    trusted = public_key(COORDINATOR)
    assert "the key does not match" in (verify(place, coordinator=trusted).fault or "")
    assert independent(place, trusted.hex()) is not None
    assert independent(place, public_key(mallory).hex()) is None


def rewritten(whole: Path, *, keep_words: bool) -> Path:
    """The coordinator itself takes one unit from north for west in the first slot, and signs everything anew."""
    with attacked(whole) as (place, db):
        db.execute("UPDATE entries SET transfer = transfer - 1000000 WHERE number = 2 AND place = 0")
        db.execute("UPDATE entries SET transfer = transfer + 1000000 WHERE number = 2 AND place = 2")
        if not keep_words:
            db.execute("DELETE FROM countersignatures")
        (run, previous), number = db.execute("SELECT hash, hash FROM runs").fetchone(), 1
        lines = [run] * 3
        links = "SELECT number, 's' FROM slots UNION SELECT number, 'c' FROM countersignatures ORDER BY number"
        for old, kind in db.execute(links).fetchall():
            number += 1
            if kind == "c":
                slot, place_, signature = db.execute(
                    "SELECT slot, place, signature FROM countersignatures WHERE number = ?", (old,)
                ).fetchone()
                previous = link_hash(previous, number, slot, place_, signature)
                db.execute("UPDATE countersignatures SET hash = ? WHERE number = ?", (previous, old))
                continue
            slot, signal, precision, outside, time = db.execute(
                "SELECT slot, signal, precision, outside, time FROM slots WHERE number = ?", (old,)
            ).fetchone()
            told = db.execute(
                "SELECT place, contribution, transfer FROM entries WHERE number = ? ORDER BY place", (old,)
            ).fetchall()
            lines = [entry_hash(lines[n], n, slot, signal, precision, claim, transfer) for n, claim, transfer in told]
            previous = slot_hash(previous, number, run, slot, signal, precision, outside, time, lines)
            db.execute(
                "UPDATE slots SET number = ?, hash = ?, signature = ? WHERE number = ?",
                (number, previous, COORDINATOR.sign(previous), old),
            )
            for n, line in enumerate(lines):
                db.execute(
                    "UPDATE entries SET number = ?, hash = ? WHERE number = ? AND place = ?", (number, line, old, n)
                )
    return place


def test_the_coordinator_cannot_rewrite_alone(tmp_path: Path) -> None:
    whole = tmp_path / "a.ledger"
    with Ledger(whole, COORDINATOR) as ledger:
        federation = Federation(ledger)
        receipts = [federation.settle()[0] for _ in range(3)]
        ledger.countersign(federation.words)
    kept = rewritten(whole, keep_words=True)
    assert verify(kept).fault == "slot 3 of run spring, silo north: the countersignature is not this silo's"
    assert verify(kept, every=True).fault == "slot 1 of run spring, silo north: the countersignature is not this silo's"
    assert independent(kept) is not None
    dropped = rewritten(whole, keep_words=False)
    found = verify(dropped)
    assert (found.fault, found.countersigned["spring"]["north"]) == (None, (0, 3))
    assert "north holds a receipt that is not in the chain" in (verify(dropped, receipts=receipts).fault or "")


def test_a_slot_that_does_not_sum_to_zero_is_found_though_it_is_signed(tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    with Ledger(place, COORDINATOR) as ledger:
        ledger.begin("spring", KEYS, balanced=False)
        ledger.record("spring", 1, signal=0.0, precision=0.0, contributions=[None] * 3, transfers=[1.0, 0.0, 0.0])
    with attacked(place) as (forged, db):
        number, previous, time = db.execute("SELECT number, (SELECT hash FROM runs), time FROM slots").fetchone()
        lines = [line for (line,) in db.execute("SELECT hash FROM entries ORDER BY place")]
        link = slot_hash(previous, number, previous, 1, 0.0, 0.0, 0, time, lines)
        db.execute("UPDATE slots SET outside = 0, hash = ?, signature = ?", (link, COORDINATOR.sign(link)))
    assert verify(forged).fault == "slot 1 of run spring (link 2): its transfers do not sum to zero"
    assert independent(forged) is not None


def test_the_independent_verifier_is_short_and_its_own() -> None:
    source = EXAMPLE.read_text()
    assert len(source.splitlines()) <= 60
    assert "import potluck" not in source
    assert "from potluck" not in source


def test_triggers_that_were_dropped_are_missed(whole: Path) -> None:
    place = whole.with_name("untriggered.ledger")
    shutil.copy(whole, place)
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("DROP TRIGGER slots_update")
    assert verify(place).fault == "its tables, triggers or views were altered"
    assert len(SCHEMA) == len(TABLES) + len(TRIGGERS) + 1
