"""Small federations, and what tests have compiled kept for the next."""

import numpy as np

from potluck.federation import Dataset, FedAvg, build


def pictures(samples: int, side: int, channels: int, classes: int = 10, seed: int = 0) -> Dataset:
    """Random images whose brightness has something to do with their label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples).astype(np.int32)
    noise = rng.integers(0, 128, (samples, side, side, channels))
    images = (noise + 12 * labels[:, None, None, None]).astype(np.uint8)
    cut = samples * 4 // 5
    return Dataset("folder", images[:cut], labels[:cut], images[cut:], labels[cut:], classes)


def fashion(seed: int = 0) -> FedAvg:
    """A federation of the perceptron 784-64-10, batch 50, on pictures of Fashion-MNIST's size."""
    return build(pictures(samples=600, side=28, channels=1), samples=100, hidden=64, batch=50, seed=seed)
