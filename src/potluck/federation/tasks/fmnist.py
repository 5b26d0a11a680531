"""Fashion-MNIST, as its publishers and Debian hand it on."""

import gzip
from pathlib import Path

import numpy as np

from potluck.federation.task import Download, Task

IDX = {
    "images": "train-images-idx3-ubyte.gz",
    "labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}


def read_idx(folder: Path) -> dict[str, np.ndarray]:
    """Decode the four gzipped IDX files: a big-endian header of magic and sizes, then the bytes."""
    arrays = {}
    for key, file in IDX.items():
        raw = gzip.decompress((folder / file).read_bytes())
        dimensions = raw[3]
        shape = np.frombuffer(raw, ">u4", dimensions, 4)
        values = np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape([int(n) for n in shape])
        arrays[key] = values[..., None] if dimensions == 3 else values
    return arrays


TASK = Task(
    name="fmnist",
    summary="Fashion-MNIST, 28 × 28 grey, 60,000 + 10,000",
    download=Download(
        address="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        forms={tuple(IDX.values()): read_idx},
        packages={
            "the Debian package dataset-fashion-mnist (apt-get install dataset-fashion-mnist)": (
                "/usr/share/datasets/fashion-mnist"
            )
        },
    ),
    sha256="0a074df034ba52463844f9ca84a9998b589e4850fce83fd89dfdf9bcdb894610",
    samples=2000,
)
