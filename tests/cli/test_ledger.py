"""`potluck ledger` as a person meets it."""

import csv
import io
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from potluck.ledger import Ledger, Statement, public_key, read_key, verify
from potluck.ledger.schema import TRIGGERS
from tests.cli.person import potluck, refused
from tests.ledger.books import COORDINATOR, Federation, key_of, two_runs


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli") / "a.ledger"
    two_runs(place)
    return place


def test_slots_are_shown(ledger: Path) -> None:
    shown = potluck("ledger", "show", str(ledger), "--run", "spring", "--slot", "2").stdout
    (west,) = (line.split() for line in shown.splitlines() if "west" in line)
    assert west == ["spring", "west", "2", "no", "claim", "5", "0.666667", "-5.500000", "yes"]
    (row,) = json.loads(potluck("ledger", "show", str(ledger), "--silo", "south", "--last", "1", "--json").stdout)
    assert (row["run"], row["slot"], row["transfer_micro"], row["countersigned"]) == ("autumn", 3, 0, False)


def test_balances_and_payments_agree(ledger: Path) -> None:
    balances = json.loads(potluck("ledger", "balances", str(ledger), "--json").stdout)["micro_units"]
    assert balances == {"north": 19_500_000, "south": 1_500_000, "west": -17_250_000, "outside": -3_750_000}
    payments = json.loads(potluck("ledger", "settle", str(ledger), "--json").stdout)
    assert len(payments) <= 3
    for payment in payments:
        balances[payment["payer"]] += payment["micro_units"]
        balances[payment["payee"]] -= payment["micro_units"]
    assert not any(balances.values())
    shown = potluck("ledger", "settle", str(ledger), "--run", "spring").stdout
    assert [line.split() for line in shown.splitlines() if "west" in line] == [
        ["west", "north", "15.000000"],
        ["west", "south", "1.500000"],
    ]
    assert "-17.250000" in potluck("ledger", "balances", str(ledger)).stdout


def test_what_is_exported_is_what_is_shown(ledger: Path) -> None:
    exported = potluck("ledger", "export", str(ledger), "--format", "json").stdout
    rows = [json.loads(line) for line in exported.splitlines()]
    assert rows == json.loads(potluck("ledger", "show", str(ledger), "--last", "0", "--json").stdout)
    table = list(csv.DictReader(io.StringIO(potluck("ledger", "export", str(ledger)).stdout)))
    assert [row["transfer_micro"] for row in table] == [str(row["transfer_micro"]) for row in rows]
    assert table[8]["contribution"] == ""  # no claim
    assert float(table[3]["precision"]) == rows[3]["precision"] == 0.5


def test_a_silo_that_is_not_there_is_named(ledger: Path) -> None:
    assert "--silo must be a silo of this ledger (north, south, west), got 'nroth'" in refused(
        "ledger", "show", str(ledger), "--silo", "nroth"
    )


def test_a_name_that_looks_like_a_formula_is_only_a_name(tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    with Ledger(place, COORDINATOR) as book:
        book.begin("=1+1", {"@SUM(A1)": public_key(key_of("north"))})
        book.record("=1+1", 1, signal=0.0, precision=0.5, contributions=[1.0], transfers=[0.0])
    (row,) = csv.DictReader(io.StringIO(potluck("ledger", "export", str(place)).stdout))
    assert (row["run"], row["silo"]) == ("'=1+1", "'@SUM(A1)")
    assert json.loads(potluck("ledger", "export", str(place), "--format", "json").stdout)["run"] == "=1+1"


def test_a_whole_ledger_is_verified(ledger: Path, tmp_path: Path) -> None:
    key = public_key(COORDINATOR).hex()
    found = json.loads(potluck("ledger", "verify", str(ledger), "--coordinator", key, "--json").stdout)
    assert (found["valid"], found["slots"], found["entries"], found["countersignatures"]) == (True, 6, 18, 15)
    shown = potluck("ledger", "verify", str(ledger), "--head", found["head"]).stdout
    assert "6 slots, 18 entries and 15 countersignatures in 2 runs are as they were signed" in shown
    assert "run autumn: north has countersigned slots up to 2 of 3" in shown
    assert "run spring:" not in shown
    assert f"head {found['head']}" in shown
    (tmp_path / "key.pub").write_text(f"{key}\n")
    assert potluck("ledger", "verify", str(ledger), "--coordinator", str(tmp_path / "key.pub")).returncode == 0


def test_a_changed_ledger_costs_one_line_and_exit_code_2(ledger: Path, tmp_path: Path) -> None:
    place = tmp_path / "b.ledger"
    shutil.copy(ledger, place)
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("DROP TRIGGER entries_update")
        db.execute("UPDATE entries SET transfer = 0 WHERE number = 3 AND place = 2")
        db.execute("DROP TRIGGER entries_delete")  # put back in their order
        for name in ("countersignatures_update", "countersignatures_delete"):
            db.execute(f"DROP TRIGGER {name}")
        for trigger in TRIGGERS[-4:]:
            db.execute(trigger)
    fault = "slot 1 of run spring (link 3), silo west: the entry was changed: its hash is not that of its content"
    assert refused("ledger", "verify", str(place)) == f"potluck: {place}: {fault}"
    answer = potluck("ledger", "verify", str(place), "--json")
    assert (answer.returncode, json.loads(answer.stdout)["fault"]) == (2, fault)


def test_a_receipt_shows_what_was_cut_off(tmp_path: Path) -> None:
    place, copy, receipts = tmp_path / "a.ledger", tmp_path / "b.ledger", tmp_path / "north.jsonl"
    with Ledger(place, COORDINATOR) as ledger:
        federation = Federation(ledger)
        told = [federation.settle()[0]]
    shutil.copy(place, copy)
    with Ledger(place, COORDINATOR) as ledger:
        told += [Federation(ledger).ledger.record("spring", 2, signal=0.0, precision=0.0, contributions=[None] * 3,
                                                  transfers=[0.0] * 3)[0]]  # fmt: skip
    receipts.write_bytes(b"".join(statement.to_bytes() + b"\n" for statement in told))
    assert potluck("ledger", "verify", str(place), "--receipts", str(receipts)).returncode == 0
    assert verify(copy).fault is None
    assert "slot 2 of run spring: north holds a receipt that is not in the chain" in refused(
        "ledger", "verify", str(copy), "--receipts", str(receipts)
    )
    receipts.write_text("{}\n\n{}")
    assert "north.jsonl: statement is not well-formed: run: Field required" in refused(
        "ledger", "verify", str(place), "--receipts", str(receipts)
    )


def test_a_torn_line_costs_one_receipt_and_a_warning(tmp_path: Path) -> None:
    place, receipts = tmp_path / "a.ledger", tmp_path / "north.jsonl"
    with Ledger(place, COORDINATOR) as ledger:
        federation = Federation(ledger)
        lines = [federation.settle()[0].to_bytes() for _ in range(4)]
    receipts.write_bytes(b"\n".join([lines[0], lines[1][:200] + lines[1], lines[2], lines[3][:-1]]))
    answer = potluck("ledger", "verify", str(place), "--receipts", str(receipts))
    assert (answer.returncode, answer.stderr) == (
        0,
        f"potluck: {receipts}: 2 of 4 lines cannot be read and are skipped\n",
    )
    forged = Statement.from_bytes(lines[2]).model_copy(update={"transfer": 10**12}).to_bytes()
    receipts.write_bytes(lines[0][:200] + b"\n" + forged)
    answer = potluck("ledger", "verify", str(place), "--receipts", str(receipts))
    warning, fault = answer.stderr.splitlines()
    assert (answer.returncode, "1 of 2 lines cannot be read and is skipped" in warning) == (2, True)
    assert "the receipt of north was altered" in fault


def test_names_are_printed_as_they_are(tmp_path: Path) -> None:
    place, names = tmp_path / "a.ledger", ("[bold]a", ":smile:")
    with Ledger(place, COORDINATOR) as ledger:
        ledger.begin("[/red]", {name: public_key(key_of(name)) for name in names})
        ledger.record("[/red]", 1, signal=1.0, precision=0.5, contributions=[1.0, 0.0], transfers=[1.0, -1.0])
    shown = potluck("ledger", "show", str(place)).stdout
    assert [line.split()[:2] for line in shown.splitlines()[-3:-1]] == [["[/red]", name] for name in names]
    balances = potluck("ledger", "balances", str(place)).stdout
    assert [line.split()[0] for line in balances.splitlines()[-3:-1]] == list(names)
    payments = potluck("ledger", "settle", str(place), "--run", "[/red]").stdout
    assert payments.splitlines()[-2].split() == [":smile:", "[bold]a", "1.000000"]
    verified = potluck("ledger", "verify", str(place)).stdout
    assert "run [/red]: [bold]a has countersigned slots up to 0 of 1" in verified
    assert "([/red]), got '[x]'" in refused("ledger", "settle", str(place), "--run", "[x]")


@pytest.mark.parametrize("command", ["show", "balances", "settle"])
def test_a_name_that_no_ledger_may_hold_costs_one_line(command: str, tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    two_runs(place)
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("DROP TRIGGER silos_update")
        db.execute("UPDATE silos SET silo = char(155) || '2Jnorth' WHERE place = 0")
    assert "name is not as it should be" in refused("ledger", command, str(place))


def test_keys_are_made_once(tmp_path: Path) -> None:
    shown = potluck("ledger", "keygen", "silo.key", cwd=tmp_path).stdout.strip()
    assert public_key(read_key(tmp_path / "silo.key")).hex() == shown
    assert (tmp_path / "silo.key").stat().st_mode & 0o777 == 0o600
    assert "silo.key.pub: there is a key already" in refused("ledger", "keygen", "silo.key", cwd=tmp_path)


@pytest.mark.parametrize("command", ["show", "balances", "verify", "settle", "export"])
def test_what_is_no_ledger_costs_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("buy milk\n" * 100)
    assert refused("ledger", command, "notes", cwd=tmp_path) == "potluck: notes: is not a ledger"


def test_mistakes_are_named(ledger: Path, tmp_path: Path) -> None:
    assert refused("ledger", "verify", "nowhere", cwd=tmp_path) == "potluck: nowhere: there is no such ledger"
    mallory = "0" * 64
    assert "the key does not match" in refused("ledger", "verify", str(ledger), "--coordinator", mallory)
    assert "--head must be as printed by verify" in refused("ledger", "verify", str(ledger), "--head", "7")
    assert "--run must be a run of this ledger (spring, autumn)" in refused("ledger", "show", str(ledger), "--run", "x")
    damaged = tmp_path / "damaged.ledger"
    damaged.write_bytes(ledger.read_bytes()[:-5000])
    assert "damaged" in refused("ledger", "verify", str(damaged))


def test_a_bench_of_a_small_ledger(tmp_path: Path) -> None:
    words = ("bench", "ledger", "--slots", "20", "--countersigned", "10", "--silos", "3", "--folder", ".", "--json")
    end, each = json.loads(potluck(*words, cwd=tmp_path).stdout)
    assert (end["slots"], each["slots"], end["silos"]) == (20, 10, 3)
    assert min(end["slots_per_second"], end["floor_per_second"], each["every_per_cpu_second"]) > 0
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_wait_for_cryptography() -> None:
    import subprocess
    import sys

    script = "import sys, potluck.cli; assert not {'cryptography', 'jax', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
