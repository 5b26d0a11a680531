"""How a task's data is brought here from a folder or from its publishers, and decoded."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from potluck.errors import PotluckError
from potluck.federation.data import CorruptError, Dataset, assemble, in_one_line, read_npz, verified
from potluck.federation.task import Decode, Download, Listener, Task, UnavailableError, Way

CHUNK = 1 << 18
PATIENCE_SECONDS = 15.0


def ways(source: Download) -> list[Way]:
    """Every way but the cache, in the order they are tried."""
    here = os.environ.get("POTLUCK_DATA")
    return [
        Way(f"$POTLUCK_DATA ({here or 'not set'})", partial(from_folder, here)),
        *(Way(package, partial(from_folder, folder)) for package, folder in source.packages.items()),
        Way("the official download", partial(from_publishers, source)),
        *source.others,
    ]


def from_folder(folder: str | None, task: Task, scratch: Path, listener: Listener) -> Dataset:
    """Read from a folder that has the task as `NAME.npz` or in a form in which it is handed on."""
    del scratch, listener
    if not folder:
        raise UnavailableError("name a folder there that has the files")
    root = Path(folder)
    source = task.download or Download("", {})
    places = (root, root / task.name, *(root / Path(package).name for package in source.packages.values()))
    try:
        if (root / f"{task.name}.npz").exists():
            return read_npz(task.name, root / f"{task.name}.npz", task.sha256)
        for place in places:
            for files, decode in source.forms.items():
                if all((place / file).exists() for file in files):
                    return decoded(task, place, decode)
    except OSError as fault:  # a folder that may not be searched, a name too long, a file gone since
        raise UnavailableError(f"it cannot be read ({in_one_line(fault)})") from fault
    raise UnavailableError("the files are not there")


def from_publishers(source: Download, task: Task, scratch: Path, listener: Listener) -> Dataset:
    """Download what the publishers offer."""
    files, decode = next(iter(source.forms.items()))
    for file in files:
        download(source.address + file, scratch / file, listener)
    return decoded(task, scratch, decode)


def download(address: str, target: Path, listener: Listener) -> None:
    """Stream an address into a file.

    pooch streams; what it brings is kept by `fetching`, since the cache holds decoded arrays under a SHA-256 of their
    own, whichever way they came, and pooch would keep the publishers' files.
    """
    from pooch import HTTPDownloader

    # Asked for as they are: an archive that is unpacked on the way is not the file that was published.
    bring = HTTPDownloader(
        progressbar=Progress(partial(listener.progress, target.name)),
        chunk_size=CHUNK,
        timeout=PATIENCE_SECONDS,
        headers={"Accept-Encoding": "identity"},
    )
    try:
        bring(address, str(target), None)
    except (OSError, ValueError) as fault:  # all that requests raises is one of them
        raise UnavailableError(f"{target.name} could not be downloaded ({in_one_line(fault)})") from fault


class Progress:
    """The progress bar that pooch asks for: it counts whole chunks, so the last one is cut to what there is."""

    def __init__(self, tell: Callable[[int, int | None], None]) -> None:
        self.tell, self.total, self.done = tell, 0, 0

    def update(self, count: int) -> None:
        self.done += count
        self.tell(min(self.done, self.total) if self.total else self.done, self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing is held open."""


def decoded(task: Task, folder: Path, decode: Decode) -> Dataset:
    """Decode and verify; whatever goes wrong on the way is a fault of the files, which are named."""
    try:
        return verified(assemble(task.name, decode(folder)), task.sha256, str(folder))
    except PotluckError:
        raise
    except Exception as fault:
        # Damage makes the decoders of gzip, tar and PNG raise nearly anything.
        raise CorruptError(f"{folder}: not a readable copy of {task.name} ({in_one_line(fault)})") from fault
