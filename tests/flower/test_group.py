"""Processes end with the one that started them, also when that one is killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from potluck.flower.processes import Group

OWNER = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs in the background may have been told to ignore it
from potluck.flower.processes import Group
with Group(Path(sys.argv[1]), {}) as group:
    grandchild = "import subprocess; subprocess.run(['sleep', '600'], start_new_session=True)"
    group.start("child", [sys.executable, "-c", grandchild])
    while len(group.members()) < 2:
        time.sleep(0.05)
    print(*group.members(), flush=True)
    time.sleep(600)
"""


STUBBORN = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from potluck.flower import processes
processes.GRACE = 1.0
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
try:
    with processes.Group(Path(sys.argv[1]), {}) as group:
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
        group.start("child", [sys.executable, "-c", deaf])
        while not group.log("child").read_text():
            time.sleep(0.05)
        print(*group.members(), flush=True)
        time.sleep(600)
finally:
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def owner(logs: Path, script: str = OWNER) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen([sys.executable, "-c", script, str(logs)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        return process, [int(word) for word in said.readline().split()]


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + 30
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, pids))


def test_ctrl_c_ends_all_of_them_and_theirs(tmp_path: Path) -> None:
    process, pids = owner(tmp_path)
    assert len(pids) == 2
    assert all(map(alive, pids))
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert gone(pids)


@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
def test_who_asks_twice_ends_all_of_them_too(again: signal.Signals, tmp_path: Path) -> None:
    process, pids = owner(tmp_path, STUBBORN)
    assert len(pids) == 1
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(again)
    assert process.wait(30) == -signal.SIGINT  # as one request ends it
    assert gone(pids)


def test_what_a_killed_owner_left_is_ended_at_the_next_start_and_no_other(tmp_path: Path) -> None:
    killed, orphans = owner(tmp_path)
    living, kept = owner(tmp_path)
    killed.kill()
    killed.wait()
    assert all(map(alive, orphans))
    with Group(tmp_path, {}):
        assert gone(orphans)
        assert all(map(alive, kept))
    living.send_signal(signal.SIGINT)
    living.wait(30)
    assert gone(kept)
