"""One study, several processes: each takes what nobody else is at. A claim is a lock on a file, so it ends with its
process, however that ends.
"""

import time
from collections.abc import Generator, Sequence
from pathlib import Path

from potluck.studies.paper.pace import Unit
from potluck.training.locks import lock

AGAIN = 1.0
"""Seconds until one who can only wait looks again."""


def shared(units: Sequence[Unit], folder: Path) -> Generator[Unit | None]:
    """Each unit that is this process's to do, claimed until the next is asked for; None while there is only waiting."""
    while left := [unit for unit in units if not unit.done]:
        for unit in left:
            if unit.ready and (claimed := lock(folder / unit.name)) is not None:
                with claimed:
                    if not unit.done:  # another may have done it since
                        yield unit
                break
        else:
            yield None
            time.sleep(AGAIN)


def free(units: Sequence[Unit], present: Unit, folder: Path) -> Unit | None:
    """What this process would do after the present unit, as things stand."""
    for unit in units:
        if unit is not present and not unit.done and unit.ready and (claimed := lock(folder / unit.name)) is not None:
            claimed.close()
            return unit
    return None
