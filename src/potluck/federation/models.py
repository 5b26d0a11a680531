"""The models a federation trains: logistic regression, a multi-layer perceptron, a small strided CNN.

A model maps the features of *one* sample to logits; batching over samples, silos and games is `vmap` outside.
Features are what the engine stores per sample as uint8: pixels, or for the CNN the patches of its first layer,
cut out once per data set instead of once per step.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt8

from potluck.errors import PotluckError
from potluck.registry import Registry
from potluck.scenario import FederationConfig

HIDDEN = 64


@runtime_checkable
class Model(Protocol):
    """Weights as a pytree, applied to one sample."""

    def __call__(self, features: Float[Array, "..."]) -> Float[Array, " classes"]:
        """Logits of one sample."""


@runtime_checkable
class Architecture(Protocol):
    """What is fixed about a model before its weights are: how to draw them, and what it reads of an image."""

    def init(self, key: PRNGKeyArray) -> Model:
        """Fresh weights."""

    def features(self, images: UInt8[np.ndarray, "samples height width channels"]) -> UInt8[np.ndarray, "samples ..."]:
        """What one sample looks like to the model, still uint8."""


class Dense(eqx.Module):
    """y = xWᵀ + b. One row of W per output: the gradient of W is then 10% faster on a CPU than with one per input.

    `eqx.nn.Linear` is as fast (1.00 to 1.03 ×, 784-64-10), but takes one vector, no bfloat16, and rounds otherwise.
    """

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        """Apply the layer in the type of its input: float32, or bfloat16 where that was asked for."""
        return x @ self.weight.astype(x.dtype).T + self.bias.astype(x.dtype)


def dense(inputs: int, outputs: int, key: PRNGKeyArray, gain: float = 2.0) -> Dense:
    """Draw He-normal weights, W ~ N(0, gain / inputs), and zero biases."""
    weight = jax.random.normal(key, (outputs, inputs), jnp.float32) * (gain / inputs) ** 0.5
    return Dense(weight=weight, bias=jnp.zeros(outputs, jnp.float32))


class Perceptron(eqx.Module):
    """Dense layers with rectifiers between them; with one layer it is logistic regression."""

    layers: tuple[Dense, ...]

    def __call__(self, features: Float[Array, " inputs"]) -> Float[Array, " classes"]:
        hidden = features
        for layer in self.layers[:-1]:
            hidden = jax.nn.relu(layer(hidden))
        return self.layers[-1](hidden)


class PerceptronArchitecture(eqx.Module):
    """Sizes of a perceptron from the pixels of one image to the classes."""

    sizes: tuple[int, ...]

    def init(self, key: PRNGKeyArray) -> Perceptron:
        """Fresh weights; the last layer starts with gain 1 so that the first loss is near log(classes)."""
        pairs = list(zip(self.sizes, self.sizes[1:], strict=False))
        keys = jax.random.split(key, len(pairs))
        gains = [2.0] * (len(pairs) - 1) + [1.0]
        layers = [dense(a, b, k, gain) for (a, b), k, gain in zip(pairs, keys, gains, strict=True)]
        return Perceptron(layers=tuple(layers))

    def features(
        self, images: UInt8[np.ndarray, "samples height width channels"]
    ) -> UInt8[np.ndarray, "samples inputs"]:
        """Return the pixels in a row."""
        return np.ascontiguousarray(images.reshape(len(images), -1))


def patches(image: Num[Any, "height width channels"]) -> Num[Any, "rows columns patch"]:
    """im2col for 4 × 4 kernels at stride 2: every patch in a row, so that a convolution is one matrix product.

    Under `vmap` over weights that stays a batched matrix product, where a convolution primitive is 10-30 times
    slower. The image is first folded into 2 × 2 blocks, of which a patch is 2 × 2: four slices instead of sixteen,
    and a cheap gradient. A patch is ordered (block row, block column, row in block, column in block, channel).
    """
    blocks = folded(image)
    rows, columns = blocks.shape[0] - 1, blocks.shape[1] - 1
    cut = [blocks[i : i + rows, j : j + columns] for i in (0, 1) for j in (0, 1)]
    return (np.concatenate if isinstance(image, np.ndarray) else jnp.concatenate)(cut, axis=-1)


def folded(image: Num[Any, "height width channels"]) -> Num[Any, "rows columns block"]:
    """Fold an image into its 2 × 2 blocks, each one row; what is left over at the far edges is dropped."""
    rows, columns, channels = image.shape[0] // 2, image.shape[1] // 2, image.shape[2]
    even = image[: 2 * rows, : 2 * columns]
    return even.reshape(rows, 2, columns, 2, channels).swapaxes(1, 2).reshape(rows, columns, -1)


def by_blocks(layer: Dense, image: Float[Array, "height width channels"]) -> Float[Array, "rows columns outputs"]:
    """Convolve without cutting patches: multiply every block once, add what belongs together.

    A patch is 2 × 2 blocks, so the product with a kernel is the sum of four products with its quarters, taken at
    neighbouring blocks. On an H200 this is a quarter faster than patches (16 and 32 channels on 32 × 32 × 3).
    """
    blocks: Float[Array, "rows columns block"] = folded(image)
    rows, columns, outputs = blocks.shape[0] - 1, blocks.shape[1] - 1, layer.weight.shape[0]
    quarters = layer.weight.astype(image.dtype).reshape(4 * outputs, -1)
    products = (blocks @ quarters.T).reshape(rows + 1, columns + 1, outputs, 4)
    parts = [products[i : i + rows, j : j + columns, :, 2 * i + j] for i in (0, 1) for j in (0, 1)]
    return sum(parts[1:], parts[0]) + layer.bias.astype(image.dtype)


@jax.custom_vjp
def convolve(layer: Dense, image: Float[Array, "height width channels"]) -> Float[Array, "rows columns outputs"]:
    """Convolve 4 × 4 at stride 2, as a CPU does fastest: by blocks, but by patches where a gradient is asked for."""
    return by_blocks(layer, image)


def _convolved(layer: Dense, image: Array) -> tuple[Array, Any]:
    found: tuple[Array, Any] = jax.vjp(lambda layer, image: layer(patches(image)), layer, image)
    return found


def _pulled_back(pullback: Any, error: Array) -> tuple[Dense, Array]:
    layer, image = pullback(error)
    return layer, image


convolve.defvjp(_convolved, _pulled_back)


class CNN(eqx.Module):
    """Two 4 × 4 convolutions at stride 2 without padding, and one dense layer; the first reads patches cut before."""

    first: Dense
    second: Dense
    head: Dense

    def __call__(self, features: Float[Array, "rows columns patch"]) -> Float[Array, " classes"]:
        """Logits of one sample, given the patches of its first layer."""
        hidden = jax.nn.relu(self.first(features))
        second = convolve if jax.default_backend() == "cpu" else by_blocks
        hidden = jax.nn.relu(second(self.second, hidden))
        return self.head(hidden.reshape(-1))


class CNNArchitecture(eqx.Module):
    """A CNN for images of one shape."""

    shape: tuple[int, int, int]
    classes: int
    channels: tuple[int, int]

    def init(self, key: PRNGKeyArray) -> CNN:
        keys = jax.random.split(key, 3)
        rows, columns = (((side - 2) // 2 - 2) // 2 for side in self.shape[:2])
        return CNN(
            first=dense(16 * self.shape[2], self.channels[0], keys[0]),
            second=dense(16 * self.channels[0], self.channels[1], keys[1]),
            head=dense(rows * columns * self.channels[1], self.classes, keys[2], 1.0),
        )

    def features(self, images: UInt8[np.ndarray, "samples height width channels"]) -> UInt8[np.ndarray, "samples ..."]:
        """Return the first layer's patches: four times the bytes per sample, and no cutting in any training step."""
        return np.stack([patches(image) for image in images])


Constructor: TypeAlias = Callable[[tuple[int, int, int], int, FederationConfig], Architecture]
"""From the images' shape, the number of classes and the numbers of a config to a model that fits them."""


def logistic(shape: tuple[int, int, int], classes: int, config: FederationConfig) -> PerceptronArchitecture:
    """Logistic regression."""
    del config
    return PerceptronArchitecture((math.prod(shape), classes))


def mlp(shape: tuple[int, int, int], classes: int, config: FederationConfig) -> PerceptronArchitecture:
    """One hidden layer of `hidden` units."""
    return PerceptronArchitecture((math.prod(shape), config.hidden or HIDDEN, classes))


def cnn(shape: tuple[int, int, int], classes: int, config: FederationConfig) -> CNNArchitecture:
    """Two convolutions of `channels`; they need something to stride over."""
    if min(shape[:2]) < 10:
        raise PotluckError(
            f": cnn needs images of 10 × 10 pixels or more, got {shape[0]} × {shape[1]}; take mlp or logistic",
            field="model",
        )
    return CNNArchitecture(shape, classes, config.channels)


MODELS: Registry[Constructor] = Registry("model", {"logistic": logistic, "mlp": mlp, "cnn": cnn})
