"""A convolution as a matrix product is a convolution."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.testing import assert_allclose, assert_array_equal

from potluck.errors import PotluckError
from potluck.federation import MODELS, FedAvg, run
from potluck.federation.from_scenario import on_task, precision_source
from potluck.federation.models import CNN, Dense, by_blocks, convolve, patches
from potluck.scenario import FederationConfig, preset
from tests.federation import reference
from tests.federation.conftest import federation, kernel


def direct(image: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    return jax.lax.conv_general_dilated(
        image[None], kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )[0]


@pytest.mark.parametrize("shape", [(12, 12), (13, 10), (15, 15)])
def test_im2col_and_its_gradients_match_direct_convolution(shape: tuple[int, int]) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    image = jax.random.normal(keys[0], (*shape, 3))
    weight = jax.random.normal(keys[1], (4, 48)) / 4

    def by_product(image: jax.Array, weight: jax.Array) -> jax.Array:
        cut: jax.Array = patches(image)
        return cut @ weight.T

    def directly(image: jax.Array, weight: jax.Array) -> jax.Array:
        return direct(image, kernel(Dense(weight, jnp.zeros(4))), 2)

    ours, theirs = by_product(image, weight), directly(image, weight)
    assert_allclose(ours, theirs, atol=1e-5)
    cotangent = jax.random.normal(keys[2], ours.shape)
    mine, other = (jax.vjp(form, image, weight)[1](cotangent) for form in (by_product, directly))
    for a, b in zip(mine, other, strict=True):
        assert_allclose(a, b, atol=1e-5, rtol=1e-5)


def test_gradients_match_a_convolution_written_with_loops() -> None:
    rng = np.random.default_rng(0)
    image, weight = rng.normal(size=(1, 11, 12, 2)), rng.normal(size=(3, 32)) / 5
    error = rng.normal(size=(1, 4, 5, 3))
    layer = Dense(jnp.asarray(weight), jnp.zeros(3))
    to_image, to_kernel, _ = reference.convolve_back(image, np.asarray(kernel(layer)), error, 2)
    _, pullback = jax.vjp(lambda i, w: patches(i) @ w.T, jnp.float32(image[0]), jnp.float32(weight))
    ours = pullback(jnp.float32(error[0]))
    assert_allclose(ours[0], to_image[0], atol=1e-5)
    assert_allclose(kernel(Dense(ours[1], jnp.zeros(3))), to_kernel, atol=1e-5)


def test_features_of_the_cnn_are_the_patches_of_each_image() -> None:
    images = np.random.default_rng(0).integers(0, 256, (50, 13, 14, 2)).astype(np.uint8)
    shape = MODELS["cnn"]((13, 14, 2), 10, FederationConfig())
    features = shape.features(images)
    for n in (0, 1, 49):
        assert_array_equal(features[n], patches(images[n]))


def test_cnn_computes_what_its_layers_say() -> None:
    shape = MODELS["cnn"]((16, 16, 1), 7, FederationConfig(channels=(3, 4)))
    model = shape.init(jax.random.key(0))
    assert isinstance(model, CNN)
    image = np.random.default_rng(0).normal(size=(16, 16, 1))
    first = np.maximum(reference.convolve(image[None], np.asarray(kernel(model.first)), np.zeros(3), 2), 0)
    second = np.maximum(reference.convolve(first, np.asarray(kernel(model.second)), np.zeros(4), 2), 0)
    expected = second.reshape(-1) @ np.asarray(model.head.weight).T
    assert_allclose(model(patches(jnp.float32(image))), expected, atol=1e-5)


def test_a_model_that_does_not_fit_says_so() -> None:
    with pytest.raises(PotluckError, match="cnn needs images of 10 × 10"):
        MODELS["cnn"]((8, 8, 1), 10, FederationConfig())


class Centroids(eqx.Module):
    """Logits −‖x − c_k‖²: a model that the package does not have."""

    centres: Float[Array, "classes pixels"]

    def __call__(self, features: Float[Array, " pixels"]) -> Float[Array, " classes"]:
        return -jnp.mean((features - self.centres) ** 2, axis=1)


class CentroidsArchitecture(eqx.Module):
    pixels: int
    classes: int

    def init(self, key: PRNGKeyArray) -> Centroids:
        return Centroids(0.1 * jax.random.normal(key, (self.classes, self.pixels), jnp.float32))

    def features(self, images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), -1)


def test_a_model_from_outside_trains_by_its_name() -> None:
    MODELS.register("centroids", lambda shape, classes, _: CentroidsArchitecture(math.prod(shape), classes))
    assert run(federation(model="centroids", learning_rate=2.0), np.ones(4), jax.random.key(0), 15).precision[-1] > 0.8
    scenario = on_task(preset("paper"), "digits")
    named = scenario.model_copy(update={"precision": FederationConfig(model="centroids")})
    source = precision_source(named, named.draw(jax.random.key(0)), 0)
    assert isinstance(source, FedAvg)
    assert isinstance(source.init(jax.random.key(0)).model.weights, Centroids)


def test_convolution_by_blocks_or_as_a_cpu_does_it_is_convolution_by_patches_in_value_and_gradient() -> None:
    image = jax.random.normal(jax.random.key(0), (15, 13, 5))
    layer = Dense(jax.random.normal(jax.random.key(1), (7, 80)), jax.random.normal(jax.random.key(2), (7,)))

    def by(function: Callable[[Dense, Array], Array]) -> tuple[Array, tuple[Dense, Array]]:
        return jax.value_and_grad(lambda both: jnp.sum(jnp.sin(function(*both))))((layer, image))

    blocks, patched, either = by(by_blocks), by(lambda layer, image: layer(patches(image))), by(convolve)
    for one, other, chosen in zip(*map(jax.tree.leaves, (blocks, patched, either)), strict=True):
        assert_allclose(one, other, atol=2e-4)
        assert_allclose(chosen, other, atol=2e-4)
