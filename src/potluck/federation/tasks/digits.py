"""scikit-learn's digits: nothing to download."""

import numpy as np

from potluck.federation.data import Dataset
from potluck.federation.task import Task


def read_digits(_: str = "") -> Dataset:
    """Read scikit-learn's bundled digits, shuffled once and for all; 1,400 to train on, 397 held out."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    pixels = images[order].astype(np.uint8).reshape(-1, 8, 8, 1)
    classes = labels[order].astype(np.int32)
    return Dataset("digits", pixels[:1400], classes[:1400], pixels[1400:], classes[1400:], classes=10)


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
