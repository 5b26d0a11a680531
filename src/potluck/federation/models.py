"""The models a federation trains: logistic regression, a multi-layer perceptron, a small strided CNN.

A model maps the features of *one* sample to logits; batching over samples, silos and games is `vmap` outside.
Features are what the engine stores per sample as uint8: pixels, or for the CNN the patches of its first layer,
cut out once per data set instead of once per step.
"""

from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from potluck.errors import PotluckError

__all__ = ["CNN", "MODELS", "Architecture", "Dense", "Model", "Perceptron", "architecture", "patches"]


class Model(Protocol):
    """Weights as a pytree, applied to one sample."""

    def __call__(self, features: Float[Array, "..."]) -> Float[Array, " classes"]:
        """Logits of one sample."""
        ...


class Architecture(Protocol):
    """What is fixed about a model before its weights are: how to draw them, and what it reads of an image."""

    def init(self, key: PRNGKeyArray) -> Model:
        """Fresh weights."""
        ...

    def features(self, images: UInt8[np.ndarray, "samples height width channels"]) -> UInt8[np.ndarray, "samples ..."]:
        """What one sample looks like to the model, still uint8."""
        ...


class Dense(eqx.Module):
    """y = xW + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
        """Apply the layer in the type of its input: float32, or bfloat16 where that was asked for."""
        return x @ self.weight.astype(x.dtype) + self.bias.astype(x.dtype)


def dense(inputs: int, outputs: int, key: PRNGKeyArray, gain: float = 2.0) -> Dense:
    """Draw He-normal weights, W ~ N(0, gain / inputs), and zero biases."""
    weight = jax.random.normal(key, (inputs, outputs)) * jnp.sqrt(gain / inputs)
    return Dense(weight=weight, bias=jnp.zeros(outputs))


class Perceptron(eqx.Module):
    """Dense layers with rectifiers between them; with one layer it is logistic regression."""

    layers: tuple[Dense, ...]

    def __call__(self, features: Float[Array, " inputs"]) -> Float[Array, " classes"]:
        """Logits of one sample."""
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

    def features(self, images: UInt8[np.ndarray, "samples height width channels"]) -> UInt8[np.ndarray, "samples inputs"]:
        """Return the pixels in a row."""
        return np.ascontiguousarray(images.reshape(len(images), -1))


def patches(
    image: Float[Array, "height width channels"], kernel: int, stride: int
) -> Float[Array, "rows columns patch"]:
    """im2col: the kernel × kernel patches of an image at every stride, each flattened in (row, column, channel) order.

    Strided slices and one concatenation: a convolution then is one matrix product, which stays a batched matrix
    product under `vmap` over weights, where a convolution primitive is 10-30 times slower.
    """
    rows, columns = ((size - kernel) // stride + 1 for size in image.shape[:2])
    cut = [
        image[i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]
        for i in range(kernel)
        for j in range(kernel)
    ]
    stack = np.concatenate if isinstance(image, np.ndarray) else jnp.concatenate
    return stack(cut, axis=-1)


class CNN(eqx.Module):
    """Two strided convolutions without padding, each a product with patches, and one dense layer."""

    first: Dense
    second: Dense
    head: Dense
    kernel: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __call__(self, features: Float[Array, "rows columns patch"]) -> Float[Array, " classes"]:
        """Logits of one sample, given the patches of its first layer."""
        hidden = jax.nn.relu(self.first(features))
        hidden = jax.nn.relu(self.second(patches(hidden, self.kernel, self.stride)))
        return self.head(hidden.reshape(-1))


class CNNArchitecture(eqx.Module):
    """A CNN for images of one shape."""

    shape: tuple[int, int, int]
    classes: int
    channels: tuple[int, int]
    kernel: int = 5
    stride: int = 2

    def init(self, key: PRNGKeyArray) -> CNN:
        """Fresh weights."""
        area = self.kernel**2
        keys = jax.random.split(key, 3)
        rows, columns = self._after(self._after(self.shape[:2]))
        return CNN(
            first=dense(area * self.shape[2], self.channels[0], keys[0]),
            second=dense(area * self.channels[0], self.channels[1], keys[1]),
            head=dense(rows * columns * self.channels[1], self.classes, keys[2], 1.0),
            kernel=self.kernel,
            stride=self.stride,
        )

    def features(self, images: UInt8[np.ndarray, "samples height width channels"]) -> UInt8[np.ndarray, "samples ..."]:
        """Return the first layer's patches: more bytes per sample, and no cutting in any training step."""
        rows, columns = self._after(self.shape[:2])
        out = np.empty((len(images), rows, columns, self.kernel**2 * self.shape[2]), np.uint8)
        for at in range(0, len(images), 4096):
            block = np.moveaxis(images[at : at + 4096], 0, -1)
            cut = patches(block.reshape(*block.shape[:2], -1), self.kernel, self.stride)  # type: ignore[arg-type]
            cut = np.asarray(cut).reshape(rows, columns, self.kernel**2 * self.shape[2], -1)
            out[at : at + 4096] = np.moveaxis(cut, -1, 0)
        return out

    def _after(self, size: tuple[int, int]) -> tuple[int, int]:
        rows, columns = ((s - self.kernel) // self.stride + 1 for s in size)
        return rows, columns


MODELS = ("logistic", "mlp", "cnn")


def architecture(
    name: str, shape: tuple[int, int, int], classes: int, hidden: int = 64, channels: tuple[int, int] = (8, 16)
) -> Architecture:
    """Fit the named model to the images of a task."""
    pixels = shape[0] * shape[1] * shape[2]
    if name == "logistic":
        return PerceptronArchitecture((pixels, classes))
    if name == "mlp":
        return PerceptronArchitecture((pixels, hidden, classes))
    if name == "cnn":
        if min(shape[:2]) < 13:
            raise PotluckError(
                f"model: cnn needs images of 13 × 13 pixels or more, got {shape[0]} × {shape[1]}; take mlp or logistic"
            )
        return CNNArchitecture(shape, classes, channels)
    raise PotluckError(f"model: {name!r} is not one of {', '.join(MODELS)}")
