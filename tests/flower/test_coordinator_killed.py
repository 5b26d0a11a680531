"""A coordinator that is killed while it writes slots: no slot lost, none twice, the chain valid, every slot zero."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from potluck.flower.consortium import Consortium
from potluck.ledger import reading, verify
from tests.flower.local import START, LocalGrid, client_app, consortium_in, incentivized, rows, scenario_of

KILLS = 20
ROOT = Path(__file__).parents[2]


def coordinate(folder: Path) -> None:
    """Settle slots for ever, in a process of its own."""
    consortium = Consortium(folder, ("silo-0", "silo-1", "silo-2"))
    grid = LocalGrid(consortium, [client_app() for _ in consortium.names])
    incentivized(consortium).start(grid, START, num_rounds=100_000)


def slots(consortium: Consortium) -> int:
    if not consortium.ledger.exists():
        return 0
    with reading(consortium.ledger) as book:
        return len(list(book.rows(silo="silo-0")))


@pytest.mark.slow
def test_a_coordinator_killed_twenty_times_loses_nothing(tmp_path: Path) -> None:
    consortium = consortium_in(tmp_path, scenario_of(3), [1.0, 0.5, 0.1])
    chance = random.Random(0)
    seen = 0
    words = f"from tests.flower.{Path(__file__).stem} import *; coordinate(Path({str(consortium.folder)!r}))"
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        wanted = seen + chance.randint(1, 5)
        try:
            while slots(consortium) < wanted:
                assert process.poll() is None, "the coordinator failed"
                time.sleep(0.02)
            time.sleep(chance.random() * 0.2)  # any moment of the slot after
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        known = slots(consortium)
        assert known >= wanted
        seen = known
    found = verify(consortium.ledger)
    assert found.fault is None
    settled = rows(consortium)
    assert Counter(row.slot for row in settled) == dict.fromkeys(range(1, seen + 1), 3)
    sums: Counter[int] = Counter()
    for row in settled:
        sums[row.slot] += row.transfer
    assert set(sums.values()) == {0}
    assert all(row.contribution == share for row, share in zip(settled, [1.0, 0.5, 0.1] * seen, strict=True))
