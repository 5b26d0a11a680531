"""What the server makes of the silos' models, against float64 NumPy, and one that the package does not have."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from potluck.federation import AGGREGATIONS, FedAvg, run
from potluck.federation.from_scenario import on_task, precision_source
from potluck.scenario import parse, preset, render
from tests.federation.conftest import federation

KINDS = ("fedavg", "fedavgm", "fedadam", "fedyogi")
RATE, BETA = 0.3, 0.8
SAMPLES = ([10, 5, 0, 1], [0, 0, 7, 0], [0, 0, 0, 0], [3, 3, 3, 3], [1, 20, 3, 4])


def moved(kind: str, weights: np.ndarray, rounds: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[np.ndarray]:
    """The server's weights after each round of (local weights, samples), by the printed formulas."""
    # optax starts yogi's moments at 1e-6, the first one being that of −Δ
    first, second = (-1e-6, 1e-6) if kind == "fedyogi" else (0.0, 0.0)
    t = 0
    for locals_, samples in rounds:
        if samples.sum() == 0:
            yield weights
            continue
        delta = np.tensordot(samples / samples.sum(), locals_, 1) - weights
        t += 1
        if kind == "fedavg":
            weights = weights + delta
        elif kind == "fedavgm":
            first = BETA * first + delta
            weights = weights + RATE * first
        else:
            first = BETA * first + (1 - BETA) * delta
            grown = 0.99 * second + 0.01 * delta**2
            second = grown if kind == "fedadam" else second - 0.01 * np.sign(second - delta**2) * delta**2
            step = first / (1 - BETA**t) / (np.sqrt(second / (1 - 0.99**t)) + 1e-3)
            weights = weights + RATE * step
        yield weights


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_moves_as_float64_numpy_says(kind: str) -> None:
    numbers: dict[str, Any] = {} if kind == "fedavg" else {"server_learning_rate": RATE, "server_momentum": BETA}
    fed = federation(aggregation=kind, **numbers)
    model = fed.init_model(jax.random.key(0))
    locals_ = [
        jax.vmap(fed.architecture.init)(jax.random.split(jax.random.key(t), 4)) for t in range(1, len(SAMPLES) + 1)
    ]
    rounds = [
        (np.asarray(jax.tree.leaves(local)[0], float), np.array(samples, float))
        for local, samples in zip(locals_, SAMPLES, strict=True)
    ]
    expected = moved(kind, np.asarray(jax.tree.leaves(model.weights)[0], float), rounds)
    aggregate = eqx.filter_jit(fed.aggregate)
    for local, samples, theirs in zip(locals_, SAMPLES, expected, strict=True):
        model = aggregate(model, local, jnp.array(samples))
        # Divided by ε where Δ is next to nothing: a last bit of w̄ weighs 300 times as much.
        assert_allclose(jax.tree.leaves(model.weights)[0], theirs, atol=3e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_server_moves_if_nobody_contributes(kind: str) -> None:
    fed = federation(aggregation=kind)
    model = fed.init_model(jax.random.key(0))
    after, _ = eqx.filter_jit(fed.round)(model, jnp.zeros(4), jax.random.key(1))
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(model), strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_aggregation_learns_the_digits_as_it_comes(kind: str) -> None:
    trace = run(federation(aggregation=kind), np.ones(4), jax.random.key(0), 30)
    assert trace.precision[-1] > 0.9


def test_an_aggregation_from_outside_trains_by_its_name() -> None:
    """FedAdagrad: registered by one call, then named in a config and in a scenario."""

    def fedadagrad(
        server_learning_rate: jax.Array | float = 0.05, server_momentum: jax.Array | float = 0.0
    ) -> optax.GradientTransformation:
        del server_momentum
        return optax.adagrad(server_learning_rate, eps=1e-3)

    AGGREGATIONS.register("fedadagrad", fedadagrad)
    assert run(federation(aggregation="fedadagrad"), np.ones(4), jax.random.key(0), 20).precision[-1] > 0.7
    scenario = on_task(preset("paper"), "digits")
    scenario = parse(render(scenario).replace('aggregation = "fedavg"', 'aggregation = "fedadagrad"'))
    source = precision_source(scenario, scenario.draw(jax.random.key(0)), 0)
    assert isinstance(source, FedAvg)
    start = source.init(jax.random.key(0))
    state, measured = eqx.filter_jit(source.train)(start, jnp.ones(4), jax.random.key(1))
    assert measured.precision != source.measure(start)
    sums, weights = (jax.tree.leaves(tree) for tree in (state.model.server, state.model.weights))
    assert [leaf.shape for leaf in sums] == [leaf.shape for leaf in weights]
