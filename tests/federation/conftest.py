"""Small federations."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from potluck.federation import Dataset, FedAvg, Measurement, build, federation_config
from potluck.federation.build import Sizes
from potluck.federation.dynamics import Dynamics
from potluck.federation.models import Dense


def pictures(samples: int, side: int, channels: int, classes: int = 10, seed: int = 0) -> Dataset:
    """Random images whose brightness has something to do with their label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples).astype(np.int32)
    noise = rng.integers(0, 128, (samples, side, side, channels))
    images = (noise + 12 * labels[:, None, None, None]).astype(np.uint8)
    cut = samples * 4 // 5
    return Dataset("folder", images[:cut], labels[:cut], images[cut:], labels[cut:], classes)


def federation(
    data: Dataset | None = None,
    *,
    silos: int = 4,
    samples: Sizes | None = None,
    dynamics: str | Dynamics = "static",
    seed: int = 0,
    **config: Any,
) -> FedAvg:
    """The federation of a config's fields, on the digits unless there is data."""
    if isinstance(dynamics, str):
        return build(federation_config(dynamics=dynamics, **config), silos=silos, samples=samples, data=data, seed=seed)
    return build(federation_config(**config), silos=silos, samples=samples, data=data, dynamics=dynamics, seed=seed)


def marginals(measured: Measurement) -> np.ndarray:
    """What was measured without each silo."""
    assert measured.marginal is not None
    return np.asarray(measured.marginal)


def fashion(seed: int = 0) -> FedAvg:
    """A federation of the perceptron 784-64-10, batch 50, on pictures of Fashion-MNIST's size."""
    return federation(pictures(samples=600, side=28, channels=1), samples=100, hidden=64, batch_size=50, seed=seed)


def kernel(layer: Dense) -> Float[Array, "4 4 inputs outputs"]:
    """A convolution layer's weights as the kernel of a direct convolution."""
    outputs = layer.weight.shape[0]
    blocks = layer.weight.T.reshape(2, 2, 2, 2, -1, outputs)
    return blocks.swapaxes(1, 2).reshape(4, 4, -1, outputs)
