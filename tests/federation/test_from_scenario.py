"""The federation that a scenario describes, and scenarios moved to a task's data."""

import dataclasses
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from potluck.errors import PotluckError
from potluck.federation import Dataset, FedAvg, PrecisionSource, State, build, load
from potluck.federation.build import model_of
from potluck.federation.dynamics import Redraw, Stream
from potluck.federation.from_scenario import on_task, precision_source
from potluck.federation.models import CNNArchitecture, PerceptronArchitecture
from potluck.scenario import FederationConfig, Normal, Scenario, Terms, mechanism_of, parse, preset, render
from tests.federation.conftest import pictures

SIZES = {"constant": 90.0, "list": (50.0, 100.4, 20.0, 80.0), "normal": Normal(mean=100, deviation=10)}


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def trains(scenario: Scenario, seed: int, data: Dataset, terms: Terms | None = None) -> FedAvg:
    """The federation of a scenario that really trains."""
    source = precision_source(scenario, terms or scenario.draw(jax.random.key(0)), seed, data)
    assert isinstance(source, FedAvg)
    return source


def described(precision: Any = None, **silos: Any) -> Scenario:
    paper = preset("paper")
    return paper.model_copy(
        update={
            "silos": paper.silos.model_copy(update=silos),
            "precision": precision or FederationConfig(partition="quantity"),
        }
    )


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("source", ["curve", "fedavg"])
def test_silos_hold_what_their_terms_say(kind: str, source: str, digits: Dataset) -> None:
    scenario = described(None if source == "fedavg" else preset("paper").precision, samples=SIZES[kind])
    terms = scenario.draw(jax.random.key(2))
    built = precision_source(scenario, terms, 0, digits)
    assert type(built).__name__ == ("FedAvg" if source == "fedavg" else "CurveSource")
    played: PrecisionSource[Any] = built
    assert_array_equal(played.samples(played.init(jax.random.key(0))), terms.samples)
    if source == "fedavg" and kind == "normal":
        # Whatever was drawn, pools have room for 100 + 5·10, so that runs of different seeds have one shape.
        assert jax.tree.leaves(built)[0].shape[:2] == (4, 150)


def test_the_seed_splits_the_data(digits: Dataset) -> None:
    scenario = described(samples=100.0)
    terms = scenario.draw(jax.random.key(0))
    first, again, other = (trains(scenario, seed, digits, terms) for seed in (0, 0, 1))
    assert_array_equal(first.silos.features, again.silos.features)
    assert (first.silos.features != other.silos.features).any()


def test_local_sets_change_as_described(digits: Dataset) -> None:
    redrawn = described(samples=SIZES["normal"], redraw=("samples",))
    assert trains(redrawn, 0, digits).dynamics == Redraw(100.0, 10.0)
    stream = described(FederationConfig(dynamics="stream"), samples=SIZES["normal"])
    assert trains(stream, 0, digits).dynamics == Stream((100,) * 4, (5,) * 4)


@pytest.mark.parametrize("silos", [2, 3, 4, 7, 64, 256])
@pytest.mark.parametrize(
    ("kind", "changing"), [*product(["normal", "constant"], ["static", "redraw", "stream"]), ("list", "static")]
)
def test_any_number_of_silos_moves_to_the_digits(silos: int, changing: str, kind: str, digits: Dataset) -> None:
    sizes = {
        "normal": Normal(mean=2000, deviation=50),
        "constant": 2000.0,
        "list": tuple(1000.0 + 10 * n for n in range(silos)),
    }
    scenario = described(
        FederationConfig(dynamics="stream" if changing == "stream" else "static"),
        count=silos,
        samples=sizes[kind],
        redraw=("samples",) if changing == "redraw" else (),
    )
    moved = on_task(scenario, "digits", digits)
    assert parse(render(moved)) == moved
    assert int(trains(moved, 0, digits).silos.pool.sum()) <= 1400


def whole_bill(scenario: Scenario) -> np.ndarray:
    """κ·|D_n|, the cost of a silo's whole data but for its v."""
    sizes = scenario.silos.samples
    held = sizes.mean if isinstance(sizes, Normal) else sizes
    return np.asarray(scenario.energy_price * np.broadcast_to(held, scenario.silos.count))


@pytest.mark.parametrize("sizes", [Normal(mean=2000, deviation=50), 2000.0, (1000.0, 2000.0, 3000.0, 4000.0)])
def test_a_silos_whole_data_costs_what_it_did(sizes: Any, digits: Dataset) -> None:
    scenario = described(samples=sizes).model_copy(
        update={"mechanism": mechanism_of("redistribution", basis="samples", unit=2000.0)}
    )
    moved = on_task(scenario, "digits", digits)
    assert_allclose(whole_bill(moved), whole_bill(scenario), rtol=0.005 if isinstance(sizes, tuple) else 1e-12)
    # So does the leverage of its whole data in the transfers.
    unit = moved.mechanism.model_dump()["unit"]
    assert unit * moved.energy_price == pytest.approx(2000.0 * scenario.energy_price)


@pytest.mark.parametrize("changing", ["static", "redraw", "stream"])
@pytest.mark.parametrize(
    "sizes", [Normal(mean=2000, deviation=50), 2000.0, (1000.0, 2000.0, 3000.0, 4000.0), (1.0, 4000.0, 1.0, 1.0)]
)
def test_silos_of_ones_own_hold_no_more_than_they_have(sizes: Any, changing: str, digits: Dataset) -> None:
    """The smallest organisation decides: 140 of the 1,400 samples are its own."""
    counts = [140, 260, 400, 600]
    data = dataclasses.replace(digits, name="folder", silo=np.repeat(np.arange(4), counts))
    scenario = described(
        FederationConfig(partition="natural", dynamics="stream" if changing == "stream" else "static"),
        samples=sizes,
        redraw=("samples",) if changing == "redraw" else (),
    )
    moved = on_task(scenario, "folder:mine.npz", data)
    assert (trains(moved, 0, data).silos.pool <= jnp.array(counts)).all()
    if not isinstance(sizes, tuple):
        assert_allclose(whole_bill(moved), whole_bill(scenario), rtol=1e-12)
        assert on_task(moved, "folder:mine.npz", data) == moved


def test_a_scenario_that_fits_stays_as_it_is(digits: Dataset) -> None:
    for sizes in SIZES.values():
        scenario = described(samples=sizes)
        assert on_task(scenario, "digits", digits) == scenario


def test_moving_keeps_how_training_was_described(digits: Dataset) -> None:
    logistic = FederationConfig(task="fmnist", model="logistic", learning_rate=0.1)
    moved = on_task(described(logistic), "digits", digits)
    assert moved.precision == logistic.model_copy(update={"task": "digits"})
    assert on_task(preset("paper"), "digits", digits).precision == FederationConfig(learning_rate=0.2)


def test_a_task_trains_its_own_model_unless_another_is_named() -> None:
    assert model_of(FederationConfig(task="cifar10")) == "cnn"
    assert model_of(FederationConfig(task="cifar10", model="mlp")) == "mlp"
    data = dataclasses.replace(pictures(samples=100, side=10, channels=3), name="cifar10")
    for model, architecture in ((None, CNNArchitecture), ("mlp", PerceptronArchitecture)):
        fed = build(FederationConfig(task="cifar10", model=model), data=data, silos=2, samples=20)
        assert isinstance(fed.architecture, architecture)


def test_more_silos_than_samples_are_refused() -> None:
    data = pictures(samples=100, side=4, channels=1)
    with pytest.raises(PotluckError, match=r"silos\.count: 81 silos are more than the 80 samples of folder:few\.npz"):
        on_task(described(count=81), "folder:few.npz", data)
    built = on_task(described(count=80), "folder:few.npz", data)
    assert built.silos.samples.mean <= 1  # type: ignore[union-attr]


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(PotluckError, match="task must be one of digits"):
        on_task(preset("paper"), "mnist")


def test_in_a_game_more_data_means_more_precision(digits: Dataset) -> None:
    """With full steps for a last batch of a few samples, all bringing 0.4 end below all bringing 0.3."""
    scenario = on_task(preset("paper"), "digits", digits)
    source = trains(scenario, 0, digits)

    @eqx.filter_jit
    def precision(source: FedAvg, contribution: Array) -> Array:
        def game(key: Array) -> Array:
            def slot(state: State, key: Array) -> tuple[State, Array]:
                state, measured = source.train(state, jnp.full(4, contribution), key)
                return state, measured.precision

            return jax.lax.scan(slot, source.init(key), jax.random.split(key, 10))[1].mean()

        return jax.vmap(game)(jax.random.split(jax.random.key(0), 16)).mean()

    shares = jnp.asarray([0.1, 0.2, 0.3, 0.4, 0.5])
    assert (np.diff([precision(source, share) for share in shares]) > 0).all()
    customary = dataclasses.replace(source, partial_batches="full")
    assert precision(customary, shares[3]) < precision(customary, shares[2])


def test_a_scenario_reaches_every_part_of_the_engine(digits: Dataset) -> None:
    config = FederationConfig(
        optimiser="adam", learning_rate=0.003, epochs=2, batch_size=10, hidden=16, proximal=0.1, dtype="bfloat16",
        aggregation="fedyogi", server_learning_rate=0.1, server_momentum=0.5, partial_batches="full", held_out=50,
    )  # fmt: skip
    fed = trains(parse(render(described(config, samples=100.0))), 0, digits)
    assert (fed.optimiser, fed.aggregation, fed.dtype, fed.partial_batches) == ("adam", "fedyogi", "bfloat16", "full")
    assert (fed.epochs, fed.batch_size, fed.test.size) == (2, 10, 50)
    numbers = (fed.learning_rate, fed.proximal, fed.server_learning_rate, fed.server_momentum)
    assert_allclose([float(number) for number in numbers if number is not None], [0.003, 0.1, 0.1, 0.5], rtol=1e-6)


def test_what_is_not_named_stays_as_the_scenario_has_it() -> None:
    own = on_task(preset("paper"), "digits", model="logistic")
    assert on_task(own, "digits", dtype="bfloat16").precision == own.precision.model_copy(update={"dtype": "bfloat16"})
