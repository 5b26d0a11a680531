"""Where a study keeps what was found: one JSON file per cell, from which everything else is made."""

import json
from pathlib import Path
from typing import Any

from potluck.errors import PotluckError, file_faults
from potluck.training.files import write_text

RESULTS = "results"


def result_file(folder: Path, cell: str) -> Path:
    return folder / RESULTS / f"{cell.replace('/', '.')}.json"


def read_result(folder: Path, cell: str) -> Any:
    """What was found in a cell."""
    place = result_file(folder, cell)
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PotluckError(f"{folder}: {cell} is not done yet; go on with `potluck resume {folder}`") from None
    except (OSError, ValueError) as fault:
        raise PotluckError(f"{place}: cannot be read ({fault}); remove it and go on") from None


def keep(place: Path, found: Any) -> None:
    """Whole or not at all."""
    with file_faults(place, "make room and go on", failed="not written"):
        write_text(place, json.dumps(found) + "\n")
