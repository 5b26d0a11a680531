"""scikit-learn's digits: nothing to download."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from potluck.errors import PotluckError
from potluck.federation.data import Dataset
from potluck.federation.task import Task


def read_digits(_: str = "") -> Dataset:
    """Read scikit-learn's bundled digits, shuffled once and for all; 1,400 to train on, 397 held out."""
    numbers = np.loadtxt(gzip.decompress(_bundled().read_bytes()).decode().splitlines(), np.int32, delimiter=",")
    order = np.random.default_rng(0).permutation(len(numbers))
    pixels = numbers[order, :-1].astype(np.uint8).reshape(-1, 8, 8, 1)
    classes = numbers[order, -1]
    return Dataset("digits", pixels[:1400], classes[:1400], pixels[1400:], classes[1400:], classes=10)


def _bundled() -> Path:
    """The file in scikit-learn's package; to import the package would take seconds, of every command."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise PotluckError(
            "the digits come with scikit-learn, which is not there; install it with: pip install scikit-learn"
        )
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"


TASK = Task(
    name="digits",
    summary="8 × 8 grey digits, 1,400 + 397, comes with scikit-learn",
    read=read_digits,
    sha256="5db59a17b80f910d07383636a6f10d82aaf89a640ba53f5536a2384d24cbb47a",
    samples=350,
    hidden=32,
    batch_size=25,
    learning_rate=0.2,
)
