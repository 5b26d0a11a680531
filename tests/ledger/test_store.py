"""One writer, one transaction per slot, nothing twice and nothing changed."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from hashlib import sha512
from pathlib import Path
from threading import Event, Thread

import pytest

from potluck.errors import PotluckError
from potluck.ledger import Countersignature, Ledger, public_key, reading, verify
from potluck.ledger.entries import countersigned_hash
from tests.ledger.books import COORDINATOR, KEYS, SILOS, Federation, key_of

SLOT = {"signal": 5.0, "precision": 0.5, "contributions": [1.0, 0.25, 0.0], "transfers": [5.0, 0.5, -5.5]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


def test_what_is_recorded_is_read_back(whole: Path) -> None:
    with reading(whole) as book:
        rows = list(book.rows())
        assert [opening.run for opening in book.runs()] == ["spring", "autumn"]
        assert len(rows) == 18
        second = [row for row in rows if (row.run, row.slot) == ("spring", 2)]
        assert [row.silo for row in second] == list(SILOS)
        assert [row.contribution for row in second] == [1.0, 0.25, None]
        assert [row.transfer for row in second] == [5_000_000, 500_000, -5_500_000]
        assert {(row.signal, row.precision) for row in second} == {(5.0, 1 - 1 / 3)}
        assert [row.countersigned for row in rows if row.run == "spring"] == [True] * 9
        assert [row.countersigned for row in rows if row.run == "autumn"] == [True] * 6 + [False] * 3
        assert list(book.rows(last=2)) == rows[-6:]
        assert list(book.rows(run="spring", last=1)) == [row for row in rows if (row.run, row.slot) == ("spring", 3)]
        assert list(book.rows(run="spring", silo="west", slot=2)) == second[2:]


def test_balances_sum_to_zero_with_what_came_from_outside(whole: Path) -> None:
    with reading(whole) as book:
        assert book.balances("spring") == {"north": 15_000_000, "south": 1_500_000, "west": -16_500_000}
        both = {"north": 19_500_000, "south": 1_500_000, "west": -17_250_000, "outside": -3_750_000}
        assert book.balances() == both
        with pytest.raises(PotluckError, match=r"run must be a run of this ledger \(spring, autumn\), got 'winter'"):
            book.balances("winter")


def test_the_same_slot_again_is_accepted_if_equal_and_refused_by_name_if_not(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        ledger.begin("spring", KEYS)
        first = ledger.record("spring", 1, **SLOT)  # type: ignore[arg-type]
        for changed, named in (
            ({"signal": 4.0}, "signal of north is 5.0, not 4.0"),
            ({"precision": 0.25}, "precision of north is 0.5, not 0.25"),
            ({"contributions": [1.0, None, 0.0]}, "contribution of south is 0.25, not None"),
            ({"transfers": [5.0, 0.25, -5.25]}, "transfer of south is 500000, not 250000"),
        ):
            with pytest.raises(PotluckError, match=f"slot 1 of run spring is settled already, and otherwise: {named}"):
                ledger.record("spring", 1, **(SLOT | changed))  # type: ignore[arg-type]
        ledger.record("spring", 2, **SLOT)  # type: ignore[arg-type]
        assert ledger.record("spring", 1, **SLOT) == first  # type: ignore[arg-type]
        assert ledger.last_slot("spring") == 2
    assert verify(place).slots == 2


def test_the_same_run_again_is_accepted_if_equal_and_refused_if_not(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        opening = ledger.begin("spring", KEYS, rules="a")
        assert ledger.begin("spring", KEYS, rules="a") == opening
        turned = dict(reversed(KEYS.items()))
        for silos, rules, balanced in ((turned, "a", True), (KEYS, "b", True), (KEYS, "a", False)):
            with pytest.raises(PotluckError, match="run spring is in the ledger with other silos or rules"):
                ledger.begin("spring", silos, rules=rules, balanced=balanced)


@pytest.mark.parametrize(
    ("slot", "changed", "refusal"),
    [
        (3, {}, "slot must be 2, the one after run spring's last, got 3"),
        (0, {}, "slot must be 2"),
        (-1, {}, "slot must be 2"),
        (2, {"signal": float("nan")}, "signal must be finite, got nan"),
        (2, {"precision": float("inf")}, "precision must be finite, got inf"),
        (2, {"contributions": [1.0, 0.5]}, "contributions must be one per silo, 3, got 2"),
        (2, {"contributions": [1.0, 0.5, float("nan")]}, "contributions must be finite, got nan"),
        (2, {"transfers": [1.0, 1.0, 1.0]}, "transfers must sum to zero"),
        (2, {"transfers": [0.0] * 4}, "transfers must be one per silo, 3, got 4"),
    ],
)
def test_a_slot_that_cannot_be_is_refused_and_the_next_one_is_not_harmed(
    place: Path, slot: int, changed: dict[str, object], refusal: str
) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        ledger.begin("spring", KEYS)
        ledger.record("spring", 1, **SLOT)  # type: ignore[arg-type]
        with pytest.raises(PotluckError, match=refusal):
            ledger.record("spring", slot, **(SLOT | changed))  # type: ignore[arg-type]
        ledger.record("spring", 2, **SLOT)  # type: ignore[arg-type]
    assert (verify(place).fault, verify(place).slots) == (None, 2)


def test_zero_below_zero_is_zero(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        federation = Federation(ledger)
        (first, *_) = federation.ledger.record(
            "spring", 1, signal=-0.0, precision=-0.0, contributions=[-0.0, 0.0, -0.0], transfers=[-0.0, 0.0, 0.0]
        )
        assert ledger.statements("spring", "north") == [first]
    assert verify(place).fault is None


def test_silos_need_names_and_keys_of_their_own(place: Path) -> None:
    key = KEYS["north"]
    with Ledger(place, COORDINATOR) as ledger:
        for silos in ({}, {"a": key, "b": key}, {"outside": key}):
            with pytest.raises(PotluckError, match="silos must be one or more, each with a key of its own, none named"):
                ledger.begin("spring", silos)
        for silos, field in (
            ({"a": b"short"}, "key"),
            ({"": key}, "name"),
            ({"a\nb": key}, "name"),
            ({"a\x9b2Jb": key}, "name"),
        ):
            with pytest.raises(PotluckError, match=f"{field} is not as it should be"):
                ledger.begin("spring", silos)
        with pytest.raises(PotluckError, match="run is not as it should be"):
            ledger.begin("", KEYS)
        with pytest.raises(PotluckError, match="run spring is not in the ledger; begin it first"):
            ledger.record("spring", 1, **SLOT)  # type: ignore[arg-type]


def test_a_countersignature_is_kept_once_and_must_be_the_silos_own(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        federation = Federation(ledger)
        told = federation.settle()
        word = federation.words[0]
        mallory = Countersignature.of(told[0], key_of("mallory"))
        for wrong in (
            mallory,
            word.model_copy(update={"silo": "south"}),
            word.model_copy(update={"slot": 2}),
        ):
            for refuse in (ledger.check, lambda word: ledger.countersign([word])):
                with pytest.raises(PotluckError, match=f"the countersignature of {wrong.silo} is not its word"):
                    refuse(wrong)
        with pytest.raises(PotluckError, match="silo must be one of north, south, west, got 'east'"):
            ledger.check(word.model_copy(update={"silo": "east"}))
        ledger.check(word)
        ledger.countersign([word, word])
        ledger.countersign([word])
    assert verify(place).countersignatures == 1


def signed_otherwise(seed: bytes, message: bytes, nonce: int) -> bytes:
    """RFC 8032, 5.1.6, with a nonce of one's own: as valid as the one that `cryptography` makes, in other bytes."""
    p, order = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
    d = -121665 * pow(121666, -1, p) % p

    def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        (x1, y1), (x2, y2) = one, other
        t = d * x1 * x2 * y1 * y2
        return (x1 * y2 + x2 * y1) * pow(1 + t, -1, p) % p, (y1 * y2 + x1 * x2) * pow(1 - t, -1, p) % p

    def times_base(k: int) -> bytes:
        y = 4 * pow(5, -1, p) % p
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
        x = pow(square, (p + 3) // 8, p)
        x = x if x * x % p == square else x * pow(2, (p - 1) // 4, p) % p
        point, found = (x if x % 2 == 0 else p - x, y), (0, 1)
        while k:
            found, point, k = add(found, point) if k & 1 else found, add(point, point), k >> 1
        return (found[1] | (found[0] & 1) << 255).to_bytes(32, "little")

    secret = int.from_bytes(sha512(seed).digest()[:32], "little") & ((1 << 254) - 8) | 1 << 254
    commitment = times_base(nonce)
    challenge = int.from_bytes(sha512(commitment + times_base(secret) + message).digest(), "little")
    return commitment + ((nonce + challenge * secret) % order).to_bytes(32, "little")


def test_a_second_valid_countersignature_of_a_slot_changes_nothing(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        federation = Federation(ledger)
        (told, *_) = federation.settle()
        message, word = countersigned_hash(told.hash, told.entry), federation.words[0]
        seed = key_of("north").private_bytes_raw()
        other, third = (
            word.model_copy(update={"signature": signed_otherwise(seed, message, nonce)}) for nonce in (12345, 678)
        )
        assert len({word.signature, other.signature, third.signature}) == 3
        federation.words = [word, other]
        federation.settle()
        ledger.countersign([other, third])
        ledger.record("spring", 3, **SLOT, countersignatures=[third])  # type: ignore[arg-type]
    found = verify(place, every=True)
    assert (found.fault, found.slots, found.countersignatures) == (None, 3, 1)


def test_a_silo_that_missed_slots_gets_them_in_order(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        federation = Federation(ledger)
        told = [federation.settle()[1] for _ in range(4)]
        assert ledger.statements("spring", "south", after=1) == told[1:]
        assert ledger.statements("spring", "south", after=4) == []


@pytest.mark.parametrize("table", ["ledger", "runs", "silos", "slots", "entries", "countersignatures"])
def test_rows_can_be_added_only(whole: Path, table: str) -> None:
    db = sqlite3.connect(whole)
    column = {"silos": "silo", "entries": "transfer", "countersignatures": "place"}.get(table, "time")
    for change in (f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            db.execute(change)
    db.close()


def test_it_is_durable_and_lets_readers_in(place: Path) -> None:
    with Ledger(place, COORDINATOR) as ledger:
        assert ledger._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ledger._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_another_coordinators_key_does_not_match(place: Path, whole: Path) -> None:
    shutil.copy(whole, place)
    head = verify(place).head
    with pytest.raises(
        PotluckError, match=f"the key does not match: this ledger belongs to {public_key(COORDINATOR).hex()}"
    ):
        Ledger(place, key_of("mallory"))
    with Ledger(place, COORDINATOR):
        assert verify(place).head == head


def test_who_reads_while_a_ledger_is_made_finds_a_whole_one_or_none(tmp_path: Path) -> None:
    made, faults = Event(), list[Exception]()

    def look() -> None:
        for number in range(40):
            place = tmp_path / f"{number}.db"
            while not place.exists():
                if made.is_set():
                    return
            try:
                with reading(place) as book:
                    assert list(book.runs()) == []
            except Exception as fault:
                faults.append(fault)

    reader = Thread(target=look)
    reader.start()
    for number in range(40):
        Ledger(tmp_path / f"{number}.db", COORDINATOR).close()
    reader.join(60)
    made.set()
    reader.join()
    assert faults == []
    assert not list(tmp_path.glob("*-new*"))


def test_what_is_not_a_ledger_is_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("buy milk\n" * 1000)
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE t (x)")
    db.close()
    for place in (text, other):
        before = place.read_bytes()
        for attempt in (lambda place=place: Ledger(place, COORDINATOR), lambda place=place: verify(place)):
            with pytest.raises(PotluckError, match=f"{place.name}: is not a ledger"):
                attempt()
        if place is text:
            assert place.read_bytes() == before
    with pytest.raises(PotluckError, match="nowhere: there is no such ledger"):
        verify(tmp_path / "nowhere")
    with pytest.raises(PotluckError, match="no/a: cannot be written"):
        Ledger(tmp_path / "no" / "a", COORDINATOR)


def test_a_ledger_of_a_later_format_is_refused(place: Path, whole: Path) -> None:
    shutil.copy(whole, place)
    db = sqlite3.connect(place)
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(PotluckError, match="is a ledger of format 2, this program reads 1"):
        verify(place)


def test_an_empty_file_that_a_crash_left_becomes_a_ledger(place: Path) -> None:
    place.touch()
    Ledger(place, COORDINATOR).close()
    assert verify(place).fault is None


WRITER = """
import sys
from pathlib import Path
from threading import Event, Thread
from potluck.ledger import Ledger
from tests.ledger.books import COORDINATOR, Federation
with Ledger(Path(sys.argv[1]), COORDINATOR) as ledger:
    federation = Federation(ledger)
    for command in sys.stdin:
        print(federation.settle()[0].slot, flush=True)
"""


def test_while_one_process_writes_others_read_whole_slots_and_none_else_writes(place: Path) -> None:
    root = Path(__file__).parents[2]
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert writer.stdin
    assert writer.stdout
    with writer:
        for slot in range(1, 6):
            writer.stdin.write("settle\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == f"{slot}\n"
            with pytest.raises(
                PotluckError, match="another coordinator is writing to this ledger; stop that one first"
            ):
                Ledger(place, COORDINATOR)
            assert (verify(place).fault, verify(place).slots) == (None, slot)
        with reading(place) as book:
            seen = list(book.rows())
            writer.stdin.write("settle\n" * 20)
            writer.stdin.close()
            assert writer.stdout.read().split() == [str(slot) for slot in range(6, 26)]
            assert list(book.rows()) == seen
    assert writer.returncode == 0
    with Ledger(place, COORDINATOR) as ledger:
        assert ledger.last_slot("spring") == 25
    assert verify(place).fault is None


BYSTANDER = """
import os, sys
from pathlib import Path
from threading import Event, Thread
from potluck.ledger import verify
os.setuid(65534)
print(verify(Path(sys.argv[1])).fault)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_ledger_is_read_where_one_may_not_write(whole: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "a.ledger"

        def found() -> tuple[str, str]:
            command = [sys.executable, "-c", BYSTANDER, str(place)]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            return answer.stdout, answer.stderr

        shutil.copy(whole, place)
        assert found() == ("None\n", "")
        with Ledger(place, COORDINATOR):
            assert found() == ("None\n", "")


def test_a_log_without_its_ledger_is_never_taken_for_a_new_ones(place: Path, tmp_path: Path) -> None:
    words = (
        "import os, sys; from pathlib import Path; from tests.ledger.books import *\n"
        "Federation(Ledger(Path(sys.argv[1]), COORDINATOR)); os._exit(9)"  # as if it were killed: the log stays
    )
    subprocess.run([sys.executable, "-c", words, str(place)], cwd=Path(__file__).parents[2], check=False)
    log = place.with_name(f"{place.name}-wal")
    assert log.stat().st_size
    place.rename(tmp_path / "archived.ledger")
    with pytest.raises(PotluckError, match=r"-wal: holds slots of a ledger that is no longer beside it"):
        Ledger(place, key_of("another"))
    log.rename(tmp_path / "archived.ledger-wal")
    with Ledger(place, key_of("another")) as fresh:
        fresh.begin("summer", KEYS)
    assert verify(place).fault is None
    assert verify(tmp_path / "archived.ledger").fault is None


def test_a_ledger_has_one_writer_by_whatever_name(place: Path, tmp_path: Path) -> None:
    with Ledger(place, COORDINATOR) as book:
        other = tmp_path / "elsewhere"
        other.mkdir()
        alias = other / "b.ledger"
        alias.symlink_to(place)
        with pytest.raises(PotluckError, match="another coordinator is writing"):
            Ledger(alias, COORDINATOR)
        book.begin("spring", KEYS)
        book.record("spring", 1, **SLOT)  # type: ignore[arg-type]
        with reading(alias) as seen:  # the log lies beside the file, not beside its alias
            assert len(list(seen.rows())) == len(SILOS)
