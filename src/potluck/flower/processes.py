"""Processes that are started together and end together, whatever becomes of the one that started them.

All of them, and what they start in turn, carry a mark in their environment that names their owner. An owner that was
killed leaves them behind; the next one that starts finds them by the mark and ends them.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from potluck.errors import PotluckError

MARK = "POTLUCK_FEDERATION"
GRACE = 5.0
"""Seconds between the request to end and the end."""


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _born(pid: int) -> str | None:
    """When a process started, in ticks since the machine did; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] == "Z" else fields[19]


def _marked() -> Iterator[tuple[int, str]]:
    """Every process of this user that carries a mark, and the mark."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for word in (entry / "environ").read_bytes().split(b"\0"):
                name, _, value = word.partition(b"=")
                if name == MARK.encode():
                    yield int(entry.name), value.decode(errors="replace")


class Group:
    """Processes of one owner. Leaving it ends them all."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._mark = f"{os.getpid()}-{_born(os.getpid())}-{time.monotonic_ns()}"
        self._logs = logs
        self._environment = {**os.environ, **environment, MARK: self._mark}
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._terminated: Any = None

    def __enter__(self) -> "Group":
        """End what an owner that is gone has left behind; from now on a request to end us is one to end them."""
        if threading.current_thread() is threading.main_thread():
            self._terminated = signal.signal(signal.SIGTERM, _interrupt)
        for pid, mark in list(_marked()):
            owner, _, rest = mark.partition("-")
            if owner.isdecimal() and _born(int(owner)) != rest.partition("-")[0]:
                _signal(pid, signal.SIGKILL)
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End all of ours, their descendants too."""
        with _undisturbed():
            self.stop(list(self._started))
            until = time.monotonic() + GRACE
            while (left := self.members()) and time.monotonic() < until:
                for pid in left:
                    _signal(pid, signal.SIGTERM)
                time.sleep(0.1)
            for pid in self.members():
                _signal(pid, signal.SIGKILL)
        if self._terminated is not None:
            signal.signal(signal.SIGTERM, self._terminated)

    def members(self) -> list[int]:
        """Everything that carries our mark, but for ourselves."""
        return [pid for pid, mark in _marked() if mark == self._mark and pid != os.getpid()]

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a process in a session of its own, so that Ctrl-C reaches only its owner; what it says is kept."""
        with (self._logs / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                [program(command[0]), *command[1:]],
                env={**self._environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def call(self, name: str, command: Sequence[str], timeout: float = 120.0) -> None:
        """Run to the end; what went wrong is the last thing it said."""
        self.start(name, command)
        if (code := self._started[name].wait(timeout)) != 0:
            raise PotluckError(f"{command[0]} failed with {code}: {self.last_words(name)}; see {self.log(name)}")

    def running(self, name: str) -> bool:
        """Whether it is alive."""
        return self._started[name].poll() is None

    def code(self, name: str) -> int | None:
        """How it ended; None while it runs."""
        return self._started[name].poll()

    def pid(self, name: str) -> int:
        """Its number."""
        return self._started[name].pid

    def stop(self, names: Sequence[str]) -> None:
        """Ask to end, wait a little, then insist."""
        for name in names:
            if self.running(name):
                self._started[name].terminate()
        until = time.monotonic() + GRACE
        for name in names:
            try:
                self._started[name].wait(max(until - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                self._started[name].kill()
                self._started[name].wait()

    def log(self, name: str) -> Path:
        """Where what it said is kept."""
        return self._logs / f"{name}.log"

    def last_words(self, name: str) -> str:
        """The last line that it said."""
        lines = [line.strip() for line in self.log(name).read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][-300:] if lines else "it said nothing"

    def check(self, names: Sequence[str]) -> None:
        """Raise if one of them is gone."""
        for name in names:
            if not self.running(name):
                raise PotluckError(
                    f"{name} ended with {self.code(name)}: {self.last_words(name)}; see {self.log(name)}"
                )


def program(name: str) -> str:
    """A program that was installed beside this Python."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Who asks a second time to end us is not heard: he would leave processes behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
