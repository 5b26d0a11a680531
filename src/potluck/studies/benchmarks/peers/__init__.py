"""Other engines on the same work, each a short script in a process of its own.

A rival at federating is any module that takes the data's path and prints one line of JSON with `engine`,
`rounds_per_second`, `accuracy` and `version`; one at remembering takes `sequences.Sizes` and prints `milliseconds`,
`version` and `device`. None of them is a requirement: one that is not installed answers with how to install it.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PEERS", "PYTHON_VARIABLE", "Absent", "Peer", "Timing", "ask", "run"]

PYTHON_VARIABLE = "POTLUCK_PEERS_PYTHON"
PACKAGE = "potluck.studies.benchmarks.peers"


@dataclass(frozen=True)
class Peer:
    """A rival: the module to run, with its arguments, and what pip must install for it."""

    module: str
    install: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """What one run of an engine answers."""

    rounds_per_second: float
    accuracy: float
    version: str
    device: str = "cpu"
    cost_share: float | None = None
    """Where less than all data was contributed: the cost of a round as a share of one with all of it."""


@dataclass(frozen=True)
class Absent:
    """Why an engine has no timing."""

    reason: str


PEERS = {
    "pfl-research": Peer(f"{PACKAGE}.pfl", "pfl==0.6.0 torch==2.13.0"),
    "Flower": Peer(f"{PACKAGE}.flower", "'flwr[simulation]>=1.41' torch==2.13.0"),
    "Flower, polling every 2 ms": Peer(
        f"{PACKAGE}.flower", "'flwr[simulation]>=1.41' torch==2.13.0", ("--pull-interval", "0.002")
    ),
    "FedJAX": Peer(f"{PACKAGE}.fedjax", "fedjax==0.0.17"),
    "torch loop": Peer(f"{PACKAGE}.torch_loop", "torch==2.13.0"),
    "torch batched": Peer(f"{PACKAGE}.torch_batched", "torch==2.13.0"),
}


def run(peer: Peer, data: Path, python: str | None = None, seconds: float = 300) -> Timing | Absent:
    """One run of a rival at the federation's work; see `ask`."""
    output = ask(peer, str(data), python=python, seconds=seconds)
    return output if isinstance(output, Absent) else parse(output)


def ask(peer: Peer, work: str, *, python: str | None = None, seconds: float = 300) -> str | Absent:
    """What a rival prints, run under `python`, by default the interpreter $POTLUCK_PEERS_PYTHON names, or this one.

    Whatever it started ends with it.
    """
    python = python or os.environ.get(PYTHON_VARIABLE) or sys.executable
    command = [python, "-m", peer.module, work, *peer.arguments]
    try:
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    except OSError as fault:
        return Absent(f"{python} does not start: {fault.strerror}")
    with started as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Absent(f"no answer in {seconds:g} s")
        finally:
            end(process)
    return output if process.returncode == 0 else Absent(diagnosis(peer, errors, process.returncode))


def end(process: subprocess.Popen[str]) -> None:
    """Kill what is left of the process and of the group it leads."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def parse(output: str) -> Timing | Absent:
    """The last line of an engine's output, which is its answer."""
    line = (output.strip().splitlines() or [""])[-1]
    try:
        row = json.loads(line)
        return Timing(
            rounds_per_second=float(row["rounds_per_second"]),
            accuracy=float(row["accuracy"]),
            version=str(row["version"]),
            device=str(row.get("device", "cpu")),
            cost_share=None if row.get("cost_share") is None else float(row["cost_share"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Absent(f"no answer, but: {line[:80]!r}")


def diagnosis(peer: Peer, errors: str, code: int) -> str:
    """Why a rival failed, from its last words."""
    last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
    if last.startswith("ModuleNotFoundError") or "PackageNotFoundError" in last:
        return f"not installed: pip install {peer.install}"
    return f"failed: {last[:160]}"
