"""What went wrong, said to the person who can mend it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PotluckError(Exception):
    """A fault of the input, not of the program: one line that names the field and the remedy.

    `PotluckError("must be 1 or more, got 0", field="games")` reads "games must be 1 or more, got 0". The command line
    prints it without a traceback, says `--games` where that is what the person typed, and exits with 2.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message, self.field = message, field

    def __str__(self) -> str:
        return self.named(self.field)

    def named(self, name: str | None) -> str:
        """The same, the field called by another name."""
        if name is None:
            return self.message
        return f"{name}{'' if self.message.startswith((':', '.')) else ' '}{self.message}"


def reason(fault: OSError) -> str:
    """Why the system refused, in its own words."""
    return (fault.strerror or str(fault)).lower()


@contextmanager
def file_faults(place: str | Path, remedy: str = "", *, failed: str = "") -> Iterator[None]:
    """What the system refuses becomes `place: reason; remedy`, or `place: failed (reason); remedy`."""
    try:
        yield
    except OSError as fault:
        said = f"{failed} ({reason(fault)})" if failed else reason(fault)
        raise PotluckError("; ".join(filter(None, (f"{place}: {said}", remedy)))) from None
