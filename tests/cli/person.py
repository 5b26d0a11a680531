"""The command line in this process: a process for every command would spend its seconds importing."""

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import jax

from potluck.cli import main

SETTINGS = ("jax_enable_x64", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


class Answer(NamedTuple):
    """What a process would have left."""

    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def as_it_was() -> Iterator[None]:
    """What a command sets for its process is put back."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    with warnings.catch_warnings():
        yield
    for name, value in before.items():
        jax.config.update(name, value)


def potluck(*words: str | Path, cwd: Path | None = None, **environment: str) -> Answer:
    """Ask the command line."""
    out, err = io.StringIO(), io.StringIO()
    with (
        as_it_was(),
        contextlib.chdir(cwd or Path.cwd()),
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["potluck", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def refused(*words: str, cwd: Path | None = None) -> str:
    """The one line that a mistake costs."""
    answer = potluck(*words, cwd=cwd)
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("potluck: ")
    return line
