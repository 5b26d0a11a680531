"""Every command with hostile values: exit code 0 or 2, at most one line of complaint, no traceback, bounded memory."""

import itertools
import os
import re
import resource
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from potluck.cli import app
from tests.cli.person import potluck
from tests.ledger.books import two_runs

HOSTILE = (
    "", " ", "-1", "0", "1.5", "nan", "1e30", "999999999999", "-9223372036854775809", "a" * 300, "💥", ".", "/",
    "[", "null", "1,2,3", "∞", "\udcff", "%s", "..", "0x10", "a=b=c", "1:0:-1",
)  # fmt: skip
MORE_WORK = {"slots", "seeds", "games", "repeats", "seconds", "silos", "deviator_slots", "countersigned"}
"""Where a large number is a wish that takes long to fulfil, and 0 or text is not."""
SECONDS = 90
MEMORY = 2_000_000
"""kB, beside what earlier tests of the process had taken at most."""
SMALL = {
    "train": "--slots 96 --seeds 1 --games 2 --window 4 --agent fixed:0.5 --out {out}",
    "sweep": "--vary mechanism.intensity=0,5 --slots 96 --seeds 1 --games 2 --window 4 --agent fixed:0.5 --out {out}",
    "demo": "--slots 32 --seeds 1 --games 2 --out {out}",
    "resume": "{run}",
    "play": "{run}",
    "export": "{run} --silo 0 --out {out}",
    "certify": "{run} --games 2 --slots 0 --no-bounds",
    "game": "--preset paper",
    "scenario init": "{out}",
    "scenario show": "--preset paper",
    "scenario validate": "{scenario}",
    "federation run": "--slots 1 --games 1 --contributions 1,1",
    "federation curve": "--slots 1 --seeds 1",
    "data fetch": "digits",
    "data path": "digits",
    "list": "agent",
    "ledger show": "{ledger}",
    "ledger balances": "{ledger}",
    "ledger verify": "{ledger}",
    "ledger settle": "{ledger}",
    "ledger export": "{ledger}",
    "ledger keygen": "{out}",
    "study paper": "--seeds 2 --slots 8 --games 2 --out {out}",
    "study report": "{folder}",
    "flower compare": "{run}",
    "bench ledger": "--slots 2 --countersigned 2 --folder {folder}",
}
"""What each command is asked for beside the hostile value, so that what is accepted is soon over."""
LONG = {
    ("demo", "out"), ("federation curve", "plot"), ("flower up", "out"), ("flower compare", "out"),
    ("bench training", "seconds"), ("bench training", "plot"), ("bench training", "silos"), ("study paper", "out"),
    ("study paper", "checkpoint"),
}  # fmt: skip
"""Where almost any text will do, and all of it is then done."""
ONE_IN = int(os.environ.get("FUZZ_ONE_IN", "20"))
"""All cases take half an hour; one in so many is tried."""


def commands() -> Iterator[tuple[str, click.Command]]:
    def inside(name: str, command: Any) -> Iterator[tuple[str, click.Command]]:
        if hasattr(command, "commands"):
            for word, each in command.commands.items():
                yield from inside(f"{name} {word}".strip(), each)
        else:
            yield name, command

    yield from inside("", typer.main.get_command(app))


def cases() -> list[tuple[str, str, str]]:
    """Command, parameter, value."""
    found = []
    for name, command in commands():
        for parameter, value in itertools.product(command.params, HOSTILE):
            large = value in ("999999999999", "1e30")
            if parameter.name in ("help",) or getattr(parameter, "is_flag", False):
                continue
            bounded = name in ("certify", "federation run")
            takes_long = (large and parameter.name in MORE_WORK and not bounded) or (name, parameter.name) in LONG
            if not takes_long:
                found.append((name, str(parameter.name), value))
    return [case for case in found if zlib.crc32(repr(case).encode()) % ONE_IN == 0]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("fuzz")
    run, scenario = folder / "run", folder / "scenario.toml"
    small = SMALL["train"].format(out=run).split()
    assert potluck("train", *small).returncode == 0
    assert potluck("scenario", "init", str(scenario)).returncode == 0
    two_runs(folder / "ledger.db")
    return {"run": str(run), "scenario": str(scenario), "ledger": str(folder / "ledger.db"), "folder": str(folder)}


class TooLongError(BaseException):
    """Nothing on the way may take it for a fault of its own."""


def too_long(*_: object) -> None:
    raise TooLongError


def words_for(name: str, parameter: str, value: str, places: dict[str, str], out: Path) -> list[str]:
    command = dict(commands())[name]
    found = next(each for each in command.params if each.name == parameter)
    base = SMALL.get(name, "").format(**places, out=out).split()
    if isinstance(found, click.Argument) or found.param_type_name == "argument":
        rest = base[1:] if base and not base[0].startswith("--") else base
        return [*name.split(), value, *rest]
    return [*name.split(), *base, f"{found.opts[0]}={value}"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameter", "value"), cases())
def test_a_hostile_value_costs_one_line(
    name: str, parameter: str, value: str, places: dict[str, str], tmp_path: Path
) -> None:
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        answer = potluck(*words_for(name, parameter, value, places, tmp_path / "out"), cwd=tmp_path)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert answer.returncode in (0, 2), answer
    assert "Traceback" not in answer.stderr
    if answer.returncode == 2:
        lines = [line for line in answer.stderr.splitlines() if line]
        assert lines[-1].startswith("potluck: ")
        assert sum(line.startswith("potluck: ") for line in lines) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - taken < MEMORY


UNHEARD = ("demo", "flower compare", "data path", "study paper", "study report")
"""What works for minutes before it says anything, or has nothing to say."""
EVERY = [
    "--help",
    "data list",
    "play {run} --json",
    "flower up --help",
    *(f"{name} {words}" for name, words in SMALL.items() if name not in UNHEARD),
]


SYMBOLS = ("--help", "game --preset paper", "play {run}", "federation run --slots 2 --games 1", "ledger show {ledger}")
"""Commands that print more than ASCII."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "command"),
    [
        *itertools.product(("closed pipe", "full device"), EVERY),
        *(("not UTF-8", command) for command in SYMBOLS),
    ],
)
def test_an_output_that_takes_nothing_costs_one_line(
    command: str, output: str, places: dict[str, str], tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "potluck", *command.format(**places, out=tmp_path / "out").split()]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"} if output == "not UTF-8" else dict(os.environ)
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("wb") as full:
        target: Any = {"closed pipe": writing, "full device": full, "not UTF-8": subprocess.PIPE}[output]
        done = subprocess.run(words, stdout=target, stderr=subprocess.PIPE, env=environment, timeout=300, check=False)
    os.close(writing)
    said = done.stderr.decode(errors="replace")
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    if output == "full device":
        assert done.returncode == 2
        assert re.fullmatch("potluck: (standard output: )?no space left on device", said.splitlines()[-1])
    else:
        assert done.returncode == 0, said
