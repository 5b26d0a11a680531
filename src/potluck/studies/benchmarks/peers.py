"""Other engines on the same work, each a short script in a process of its own.

A rival at federating is any module that takes the data's path and prints one line of JSON, a `work.Timing`; one at
remembering takes `sequences.Sizes` and prints a `sequences.Timing`. None of them is a requirement: one that is not
installed answers with how to install it. Rivals lie in a folder of their own that lists them in `peers.toml`; the
repository's is benchmarks/peers.
"""

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from potluck.errors import PotluckError, reason

PYTHON_VARIABLE = "POTLUCK_PEERS_PYTHON"
Answer = TypeVar("Answer")
Work = TypeVar("Work")


@dataclass(frozen=True)
class Peer:
    """A rival: the module to run, with its arguments, and what pip must install for it."""

    module: str
    install: str
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    """The package that the module is in, where Python would not find it by itself."""
    python: str | None = None
    """Its own interpreter."""


@dataclass(frozen=True)
class Absent:
    """Why an engine has no timing."""

    reason: str


def peers_in(folder: Path, work: str) -> dict[str, Peer]:
    """The engines that a folder's `peers.toml` lists for this work, by name."""
    listed = folder / "peers.toml"
    try:
        tables = tomllib.loads(listed.read_text(encoding="utf-8")).get(work, {})
        return {
            name: Peer(
                f"{folder.resolve().name}.{row['module']}", row["install"], tuple(row.get("arguments", ())), folder
            )
            for name, row in tables.items()
        }
    except OSError as fault:
        raise PotluckError(f": {listed}: {reason(fault)}", field="peers") from None
    except (ValueError, AttributeError, TypeError, KeyError) as fault:
        raise PotluckError(f": {listed} needs tables with module and install ({fault})", field="peers") from None


def run(
    peer: Peer, work: str | Path, kind: type[Answer], *, python: str | None = None, seconds: float = 300
) -> Answer | Absent:
    """One run of a rival at its work; its answer is the last line that it prints. Whatever it started ends with it.

    It runs under `python`: by default its own interpreter, the one that $POTLUCK_PEERS_PYTHON names, or this one.
    """
    python = python or peer.python or os.environ.get(PYTHON_VARIABLE) or sys.executable
    home = None if peer.folder is None else str(peer.folder.resolve().parent)
    try:
        started = subprocess.Popen(
            [python, "-m", peer.module, str(work), *peer.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))},
        )
    except OSError as fault:
        return Absent(f"{python} does not start: {fault.strerror}")
    with started as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Absent(f"no answer in {seconds:g} s")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return parse(output, kind) if process.returncode == 0 else Absent(diagnosis(peer, errors, process.returncode))


def parse(output: str, kind: type[Answer]) -> Answer | Absent:
    """The last line of an engine's output, read as what it should answer."""
    line = (output.strip().splitlines() or [""])[-1]
    try:
        return TypeAdapter(kind).validate_json(line)
    except ValidationError:
        return Absent(f"no answer, but: {line[:80]!r}")


def take_turns(
    engines: Mapping[str, Callable[[Work], Answer | Absent]], work: Work, repeats: int
) -> dict[str, list[Answer] | Absent]:
    """Each engine's answers, taking turns: A B C, A B C, …; an engine that cannot run is asked once."""
    found: dict[str, list[Answer] | Absent] = {name: [] for name in engines}
    for _ in range(repeats):
        for name, engine in engines.items():
            so_far = found[name]
            if not isinstance(so_far, Absent):
                answer = engine(work)
                found[name] = answer if isinstance(answer, Absent) else [*so_far, answer]
    return found


def diagnosis(peer: Peer, errors: str, code: int) -> str:
    """Why a rival failed, from its last words."""
    last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
    if last.startswith("ModuleNotFoundError") or "PackageNotFoundError" in last:
        return f"not installed: pip install {peer.install}"
    return f"failed: {last[:160]}"
