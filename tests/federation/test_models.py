"""A convolution as a matrix product is a convolution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from potluck.errors import PotluckError
from potluck.federation.models import CNN, architecture, patches
from tests.federation import reference


def direct(image: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    return jax.lax.conv_general_dilated(
        image[None], kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )[0]


@pytest.mark.parametrize(("side", "size", "stride"), [(12, 5, 2), (13, 5, 2), (9, 3, 1), (10, 2, 3)])
def test_im2col_and_its_gradients_match_direct_convolution(side: int, size: int, stride: int) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    image = jax.random.normal(keys[0], (side, side, 3))
    kernel = jax.random.normal(keys[1], (size, size, 3, 4)) / size

    def by_product(image: jax.Array, kernel: jax.Array) -> jax.Array:
        return patches(image, size, stride) @ kernel.reshape(-1, 4)

    ours, theirs = by_product(image, kernel), direct(image, kernel, stride)
    assert_allclose(ours, theirs, atol=1e-5)
    cotangent = jax.random.normal(keys[2], ours.shape)
    for mine, other in zip(
        jax.vjp(by_product, image, kernel)[1](cotangent),
        jax.vjp(lambda i, k: direct(i, k, stride), image, kernel)[1](cotangent),
        strict=True,
    ):
        assert_allclose(mine, other, atol=1e-5, rtol=1e-5)


def test_gradients_match_a_convolution_written_with_loops() -> None:
    rng = np.random.default_rng(0)
    image, kernel = rng.normal(size=(1, 11, 11, 2)), rng.normal(size=(5, 5, 2, 3)) / 5
    error = rng.normal(size=(1, 4, 4, 3))
    to_image, to_kernel, _ = reference.convolve_back(image, kernel, error, 2)
    _, pullback = jax.vjp(lambda i, k: patches(i, 5, 2) @ k.reshape(-1, 3), jnp.float32(image[0]), jnp.float32(kernel))
    ours = pullback(jnp.float32(error[0]))
    assert_allclose(ours[0], to_image[0], atol=1e-5)
    assert_allclose(ours[1], to_kernel, atol=1e-5)


def test_features_of_the_cnn_are_the_patches_of_each_image() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5000, 13, 14, 2)).astype(np.uint8)
    shape = architecture("cnn", (13, 14, 2), 10)
    features = shape.features(images)
    for n in (0, 1, 4095, 4096, 4999):
        assert_array_equal(features[n], patches(images[n], 5, 2))  # type: ignore[arg-type]


def test_cnn_computes_what_its_layers_say() -> None:
    shape = architecture("cnn", (16, 16, 1), 7, channels=(3, 4))
    model = shape.init(jax.random.key(0))
    assert isinstance(model, CNN)
    image = np.random.default_rng(0).normal(size=(16, 16, 1))
    first = np.maximum(reference.convolve(image[None], np.reshape(model.first.weight, (5, 5, 1, 3)), np.zeros(3), 2), 0)
    second = np.maximum(reference.convolve(first, np.reshape(model.second.weight, (5, 5, 3, 4)), np.zeros(4), 2), 0)
    expected = second.reshape(-1) @ np.asarray(model.head.weight)
    assert_allclose(model(patches(jnp.float32(image), 5, 2)), expected, atol=1e-5)


def test_a_model_that_does_not_fit_says_so() -> None:
    with pytest.raises(PotluckError, match="cnn needs images of 13 × 13"):
        architecture("cnn", (8, 8, 1), 10)
    with pytest.raises(PotluckError, match="'transformer' is not one of logistic, mlp, cnn"):
        architecture("transformer", (8, 8, 1), 10)
