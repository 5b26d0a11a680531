"""Two CPU devices for every test of the federation, set before JAX starts."""

import numpy as np

from potluck.federation import Dataset, use_cores

use_cores(2)


def pictures(samples: int, side: int, channels: int, classes: int = 10, seed: int = 0) -> Dataset:
    """Random images whose brightness has something to do with their label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples).astype(np.int32)
    noise = rng.integers(0, 128, (samples, side, side, channels))
    images = (noise + 12 * labels[:, None, None, None]).astype(np.uint8)
    cut = samples * 4 // 5
    return Dataset("folder", images[:cut], labels[:cut], images[cut:], labels[cut:], classes)
