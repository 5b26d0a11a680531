"""The coordinator is killed, and the disk is full: what was acknowledged is there, and nothing else."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from potluck.ledger import reading, verify
from tests.ledger.books import SILOS, independent

ROOT = Path(__file__).parents[2]
KILLS = 20

COORDINATOR = """
import os, sys
from pathlib import Path
from potluck.ledger import Ledger, Statement
from tests.ledger import books

def coordinate(place):
    # settle the last slot again, as one does who does not know whether it was kept, then go on
    with Ledger(place, books.COORDINATOR) as ledger:
        ledger.begin("spring", books.KEYS)
        slot = max(1, ledger.last_slot("spring"))
        words = []
        while True:
            brought = [slot % 7 / 7, slot % 5 / 5, None]
            transfers = [slot / 3, -slot / 7, slot / 7 - slot / 3]
            told = ledger.record("spring", slot, signal=slot / 11, precision=1 - 1 / slot, contributions=brought,
                                 transfers=transfers, countersignatures=words)
            os.write(1, f"{slot}\\n".encode())
            words = [books.Countersignature.of(each, books.key_of(each.silo)) for each in told]
            slot += 1

# Python starts once; each coordinator is a process of its own.
for _ in sys.stdin:
    pid = os.fork()
    if not pid:
        coordinate(Path(sys.argv[1]))
    os.write(1, f"pid {pid}\\n".encode())
    os.waitpid(pid, 0)
    os.write(1, b"dead\\n")
"""


def test_a_coordinator_killed_twenty_times_loses_no_slot_and_settles_none_twice(tmp_path: Path) -> None:
    place, moments, acknowledged = tmp_path / "a.ledger", random.Random(11), 0
    process = subprocess.Popen(
        [sys.executable, "-c", COORDINATOR, str(place)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    with process:
        assert process.stdin
        assert process.stdout
        for _ in range(KILLS):
            process.stdin.write("go\n")
            process.stdin.flush()
            pid, heard, wanted = 0, [0.0], moments.randint(3, 5)
            for line in process.stdout:  # a child may be heard before the parent that names it
                if line.startswith("pid"):
                    pid = int(line.split()[1])
                else:
                    acknowledged = max(acknowledged, int(line))
                    heard.append(time.monotonic())
                if pid and len(heard) > wanted:
                    break
            time.sleep(1.2 * moments.random() * (heard[-1] - heard[-2]))  # somewhere in the next slot
            os.kill(pid, signal.SIGKILL)
            for line in process.stdout:
                if line == "dead\n":
                    break
                acknowledged = max(acknowledged, int(line))
            with reading(place) as book:
                recorded = [row.slot for row in book.rows() if row.silo == "north"]
            assert recorded == list(range(1, len(recorded) + 1))
            assert acknowledged <= len(recorded) <= acknowledged + 1  # the last one's word may be lost
        process.stdin.close()
    found = verify(place, every=True)
    assert (found.fault, independent(place)) == (None, None)
    assert found.slots >= 2 * KILLS
    with reading(place) as book:
        rows = list(book.rows())
        assert len(rows) == found.slots * len(SILOS)
        sums: dict[int, int] = {}
        for row in rows:
            sums[row.slot] = sums.get(row.slot, 0) + row.transfer
        assert not any(sums.values())
        assert sum(book.balances().values()) == 0


FULL = """
import json, os, resource, sys
from pathlib import Path
from potluck.errors import PotluckError
from potluck.ledger import Ledger
from tests.ledger.books import COORDINATOR, Federation

def make_room():
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        os.unlink(ballast)

place = Path(sys.argv[1])
with Ledger(place, COORDINATOR) as ledger:
    federation = Federation(ledger)
    federation.settle()
    if sys.argv[2] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
    else:
        ballast = place.with_name("ballast")
        with ballast.open("wb") as file:
            try:
                while os.statvfs(place.parent).f_bavail > 12:
                    file.write(bytes(4096))
                    file.flush()
            except OSError:
                pass
    slots, refusal = 1, ""
    while not refusal:
        try:
            slots = federation.settle()[0].slot
        except PotluckError as fault:
            refusal = str(fault)
    try:
        federation.settle()
    except PotluckError as fault:
        again = str(fault)
    make_room()
    after = federation.settle()[0].slot
print(json.dumps([slots, refusal, again, after]))
"""
TMPFS = 'mount -t tmpfs -o size=400k none "$1" && "$2" -c "$3" "$1/a.ledger" tmpfs && cp "$1/a.ledger" "$4"'


def check_full(answer: subprocess.CompletedProcess[str], place: Path) -> None:
    assert answer.returncode == 0, answer.stderr
    slots, refusal, again, after = json.loads(answer.stdout)
    for line in (refusal, again):
        assert f"a.ledger: slot {slots + 1} of run spring was not recorded: the disk is full or failing" in line
        assert "nothing before is lost" in line
        assert "\n" not in line
    assert after == slots + 1
    found = verify(place)
    assert (found.fault, found.slots, independent(place)) == (None, after, None)


def test_a_full_disk_costs_the_slot_that_did_not_fit_and_nothing_else(tmp_path: Path) -> None:
    """Files may not grow beyond a limit, until there is room again."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    place = tmp_path / "a.ledger"
    command = [sys.executable, "-c", FULL, str(place), "limit"]
    check_full(subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False), place)


def test_a_file_system_that_is_really_full_costs_no_more(tmp_path: Path) -> None:
    folder, place = tmp_path / "small", tmp_path / "a.ledger"
    folder.mkdir()
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("only root can mount a small file system")
    command = ["unshare", "-m", "sh", "-c", TMPFS, "sh", str(folder), sys.executable, FULL, str(place)]
    check_full(subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False), place)
