"""Getting a task's data onto this machine: the cache first, then every other way there is, in order.

A fetch writes to a file of its own and renames it into place, so killing it at any point, or running two at once,
leaves either no file or a whole one. Whatever a way yields is verified before it is kept.
"""

import contextlib
import functools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from potluck.errors import PotluckError
from potluck.federation.data import ARRAYS, CorruptError, Dataset, cache_dir, cached_path, read_npz, verified
from potluck.federation.downloads import ways
from potluck.federation.task import Listener, Task, UnavailableError
from potluck.federation.tasks import TASKS

STALE_SECONDS = 3600.0
SCRATCH = "potluck-fetching-"


def task_named(task: str) -> tuple[Task, str]:
    """The task that a person names, and what follows its name and a colon."""
    name, colon, argument = task.partition(":")
    if name not in TASKS:
        raise PotluckError(f"must be one of {', '.join(map(str, TASKS.values()))}, got {task!r}", field="task")
    found = TASKS[name]
    if colon and not found.usage:
        raise PotluckError(f": {name} takes nothing after its name, got {task!r}", field="task")
    return found, argument


def load(task: str, listener: Listener | None = None) -> Dataset:
    """The data of a task as a person names it, fetched first if need be."""
    found, argument = task_named(task)
    if found.read is None:
        return fetch(found, listener)
    return verified(found.read(argument), found.sha256, f"what {task} read")


def fetch(task: Task, listener: Listener | None = None) -> Dataset:
    """The verified data of a task that is downloaded, from the cache or else by the first way that works."""
    listener, name = listener or Listener(), task.name
    if task.download is None:
        raise PotluckError(f": {name} is not downloaded", field="task")
    with contextlib.suppress(OSError):
        _sweep(cache_dir(), name)
    tried: list[str] = []
    # The cache is read before there is any scratch, so that one which cannot be written still serves what it has.
    if (data := _attempt(f"the cache ({cached_path(name)})", lambda: _from_cache(task), tried, listener)) is not None:
        return data
    for way in ways(task.download):
        with _scratch() as scratch:
            data = _attempt(
                way.description, functools.partial(way.read, task, Path(scratch), listener), tried, listener
            )
        if data is not None:
            listener.say(f"{name}: from {way.description}")
            try:
                keep(data)
            except PotluckError as fault:  # as good for this time
                listener.say(f"{fault}; {name} is used without being kept")
            return data
    raise PotluckError(
        f"{name} could not be fetched. Ways tried: " + "; ".join(f"({i}) {t}" for i, t in enumerate(tried, 1))
    )


def _attempt(description: str, read: Callable[[], Dataset], tried: list[str], listener: Listener) -> Dataset | None:
    """Read one way, or add to `tried` why it did not work."""
    try:
        return read()
    except UnavailableError as reason:
        tried.append(f"{description}: {reason}")
    except CorruptError as fault:
        listener.say(f"{fault}; trying another way")
        tried.append(f"{description}: {fault}")
    return None


def _from_cache(task: Task) -> Dataset:
    try:
        return read_npz(task.name, cached_path(task.name), task.sha256)
    except (FileNotFoundError, NotADirectoryError):
        raise UnavailableError("not there yet") from None


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for downloads, gone afterwards: on the cache's disk, or the system's where that is read-only."""
    for root in (cache_dir(), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryDirectory(prefix=SCRATCH, dir=root, ignore_cleanup_errors=True)
    raise PotluckError(
        f"cache: neither {cache_dir()} nor the system's temporary folder can be written; set POTLUCK_CACHE"
    )


def _sweep(root: Path, name: str) -> None:
    """Delete what fetches that were killed left behind: only names that a fetch gives, untouched for an hour."""
    for pattern in (f"{SCRATCH}*", f"{name}.npz.*.part"):
        for left in root.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # another fetch tidied up first, or is at work in there
                # A folder's own time stands still while a file in it grows.
                newest = max(path.stat().st_mtime for path in (left, *left.rglob("*")))
                if time.time() - newest > STALE_SECONDS:
                    shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def keep(data: Dataset) -> Path:
    """Write the data set into the cache in one step: a reader sees the old file or the new one, never half of it."""
    target = cached_path(data.name)
    part = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(file, **{key: getattr(data, key).astype(np.uint8) for key in ARRAYS})
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as fault:
        raise PotluckError(f"cache: {target} cannot be written ({fault.strerror}); set POTLUCK_CACHE") from fault
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return target
