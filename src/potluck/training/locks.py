"""A folder is one process's while it works there: a lock that ends with the process, however that ends."""

from pathlib import Path
from typing import IO

from potluck.errors import PotluckError

LOCK = "lock"
"""The file that is locked."""


def claim(folder: Path, doing: str = "training") -> IO[bytes]:
    """Make the folder this process's until the file is closed, or the process ends in any way."""
    if (claimed := lock(folder / LOCK)) is None:
        raise PotluckError(f"{folder}: another process is {doing} here; stop it first, or let it finish")
    return claimed


def lock(place: Path, *, wait: bool = False) -> IO[bytes] | None:
    """Lock a file until it is closed; None where another has it, unless this is to `wait` for that one."""
    file = place.open("wb")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except ModuleNotFoundError:  # not on Windows
        pass
    except BlockingIOError:
        file.close()
        return None
    return file
