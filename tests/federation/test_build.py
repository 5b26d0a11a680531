"""What cannot be trained is refused in one line, before anything is."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from potluck.errors import PotluckError
from potluck.federation import Dataset, FedAvg, PrecisionSource, State, check_contributions, load, run, run_games, shard
from potluck.federation.build import integer
from potluck.scenario import FederationConfig
from tests.federation.conftest import federation


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 0.5], "4 silos need 4 numbers, got 2"),
        ([1.0, 0.5, float("nan"), 0], "silo 2 gives nan; a share of its data is in"),
        ([1.0, 0.5, 0, 1.01], "silo 3 gives 1.01"),
        ([-0.1, 0.5, 0, 1], "silo 0 gives -0.1"),
        ([float("inf"), 0.5, 0, 1], "silo 0 gives inf"),
        (["a", "b", "c", "d"], "must be numbers"),
        (0.5, "got a single number"),
    ],
)
def test_contributions_are_checked(values: object, message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        check_contributions(values, 4)  # type: ignore[arg-type]


def test_runs_check_before_they_train() -> None:
    fed = federation()
    key = jax.random.key(0)
    with pytest.raises(PotluckError, match="4 silos need 4 numbers"):
        run(fed, np.ones(3), key, 5)
    with pytest.raises(PotluckError, match="slots must be 1 or more, got 0"):
        run(fed, np.ones(4), key, 0)
    with pytest.raises(PotluckError, match="silo 1 gives 2"):
        run_games(fed, np.array([[0.0, 2, 0, 0]]), jax.random.split(key, 1), 5)
    with pytest.raises(PotluckError, match=r"run_games needs 1 game or more, got shape \(0, 4\)"):
        run_games(fed, np.ones((0, 4)), jax.random.split(key, 1)[:0], 5)
    with pytest.raises(PotluckError, match=r"run_games needs 1 game or more, got shape \(4,\)"):
        run_games(fed, np.ones(4), jax.random.split(key, 1), 5)
    with pytest.raises(PotluckError, match=r"for 1 slot or more, got shape \(2, 5, 4\)"):
        run(fed, np.ones((2, 5, 4)), key)
    with pytest.raises(PotluckError, match=r"for 1 slot or more, got shape \(0, 4\)"):
        run(fed, np.ones((0, 4)), key)
    with pytest.raises(PotluckError, match="a plan of 3 slots was given for 7"):
        run(fed, np.ones((3, 4)), key, 7)
    with pytest.raises(PotluckError, match="a plan of 3 slots was given for 2"):
        run_games(fed, np.ones((1, 3, 4)), jax.random.split(key, 1), 2)
    with pytest.raises(PotluckError, match=r"slots must be a whole number, got 2\.5"):
        integer("slots", 2.5)
    with pytest.raises(PotluckError, match="1 games need 1 keys"):
        run_games(fed, np.ones((1, 4)), jax.random.split(key, 2), 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 351}, "4 silos ask for 1404 samples and the task has 1400"),
        ({"samples": [100, 100]}, "2 sizes for 4 silos"),
        ({"silos": 0}, "silos must be 1 or more, got 0"),
        ({"samples": 100.5}, "samples must be a whole number, got 100.5"),
        ({"samples": [100, 100, 100, 0.5]}, "samples must be a whole number, got 0.5"),
        ({"samples": 0}, "samples must be 1 or more, got 0"),
        ({"samples": np.zeros(4, int)}, "samples must be 1 or more, got 0"),
        ({"hidden": -3}, "hidden must be at least 1, got -3"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"channels": (8, 0)}, "channels.1 must be at least 1, got 0"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"silos": 5}, "5 silos ask for 1750"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number, got inf"),
        ({"proximal": float("inf")}, "proximal must be a finite number, got inf"),
        ({"optimiser": "lion"}, "optimiser must be one of sgd, momentum, adam.*, got 'lion'"),
        ({"aggregation": "median"}, "aggregation must be one of fedavg, fedavgm, fedadam, fedyogi.*, got 'median'"),
        ({"model": "transformer"}, "model must be one of logistic, mlp, cnn.*, got 'transformer'"),
        ({"proximal": -1.0}, "proximal must be at least 0"),
        ({"server_learning_rate": 0.0}, "server_learning_rate must be positive"),
        ({"server_momentum": 1.0}, "server_momentum must be below 1"),
        ({"server_momentum": 0.5}, "server_momentum has no part in fedavg; leave it out, or choose"),
        ({"dtype": "float8"}, "dtype must be 'float32' or 'bfloat16', got 'float8'"),
        ({"partial_batches": "half"}, "partial_batches must be 'proportional' or 'full', got 'half'"),
        ({"partition": "by-name"}, "partition must be 'iid', 'dirichlet', 'quantity' or 'natural', got 'by-name'"),
        ({"held_out": 10.5}, "held_out must be a whole number, got 10.5"),
        ({"held_out": 0}, "held_out must be at least 1"),
        ({"channels": (8, 16, 32)}, "channels.*2 items"),
        ({"channels": 8}, "channels must be a list, got 8"),
        ({"smooth": True}, "smooth is not a known key; known here: source, task, model"),
        ({"model": "cnn"}, "model: cnn needs images of 10 × 10"),
        ({"partition": "natural"}, "natural needs a silo column"),
        ({"task": "imagenet"}, "task must be one of digits, fmnist, cifar10, folder:PATH.npz.*, got 'imagenet'"),
        ({"task": "digits:8"}, "task: digits takes nothing after its name, got 'digits:8'"),
    ],
)
def test_settings_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(PotluckError, match=message):
        federation(**options)  # type: ignore[arg-type]


def test_a_config_that_is_wrong_is_pydantics_to_refuse() -> None:
    with pytest.raises(ValidationError, match="learning_rate"):
        FederationConfig(learning_rate=-1.0)


@pytest.mark.parametrize(("asked", "measured"), [(100, 100), (2000, 397)])
def test_precision_is_measured_on_as_many_held_out_samples_as_there_are(asked: int, measured: int) -> None:
    assert federation(held_out=asked).test.size == measured


@pytest.mark.parametrize("samples", [np.int64(100), np.array(100), np.full(4, 100), (100, 100, 100, np.int32(100))])
def test_sizes_may_be_whole_numbers_of_any_type(samples: Any) -> None:
    assert federation(samples=samples).silos.pool.tolist() == [100] * 4


@pytest.mark.parametrize("contributions", [3, 1, 6])
@pytest.mark.parametrize("place", [lambda fed: fed, shard], ids=["one device", "sharded"])
def test_a_slot_refuses_contributions_that_are_not_one_per_silo(
    place: Callable[[FedAvg], PrecisionSource[State]], contributions: int
) -> None:
    fed, key = federation(), jax.random.key(0)
    with pytest.raises(PotluckError, match=rf"4 silos need 4 numbers, got shape \({contributions},\)"):
        place(fed).train(fed.init(key), jnp.ones(contributions), key)


def spoilt(data: Dataset, change: dict[str, np.ndarray]) -> Dataset:
    """A copy with arrays that its annotations, checked here and by nobody else, would not let in."""
    copy = dataclasses.replace(data)
    for name, array in change.items():
        object.__setattr__(copy, name, array)
    return copy


def test_data_of_ones_own_is_checked() -> None:
    digits = load("digits")
    assert federation(dataclasses.replace(digits, name="mine")).silos.pool.tolist() == [350] * 4
    for change, message in (
        ({"labels": digits.labels + 5}, "labels must be whole numbers from 0 to 9"),
        ({"test_labels": digits.test_labels - 1}, "test_labels must be whole numbers from 0 to 9"),
        ({"labels": digits.labels[:-1]}, "1400 images need one label each"),
        ({"images": digits.images / 16}, "images must be uint8 .* got float64"),
        ({"test_images": digits.test_images / 16}, "test_images must be uint8 .* got float64"),
        ({"silo": np.zeros(3, int)}, "1400 samples need one silo each"),
        ({"silo": digits.labels - 1}, "silo must hold whole numbers from 0"),
    ):
        with pytest.raises(PotluckError, match=message):
            federation(spoilt(digits, change))


def test_a_users_file_is_checked(tmp_path: Path) -> None:
    def refused(message: str, **arrays: Any) -> None:
        path = tmp_path / "mine.npz"
        np.savez(path, **arrays)
        with pytest.raises(PotluckError, match=message):
            load(f"folder:{path}")

    x, y = np.zeros((20, 4)), np.zeros(20, int)
    refused("has no y; it has X", X=x)
    refused(r"y must have shape \(20,\), got \(3,\)", X=x, y=y[:3])
    refused(r"silo must have shape \(20,\)", X=x, y=y, silo=y[:2])
    refused("has 9 samples; 10 or more", X=x[:9], y=y[:9])
    refused("NaN or infinite", X=x * np.nan, y=y)
    refused("X must hold numbers", X=np.zeros(20), y=y)
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(PotluckError, match="is not a readable"):
        load(f"folder:{tmp_path / 'text.npz'}")
    with pytest.raises(PotluckError, match="does not exist"):
        load("folder:/nowhere.npz")
    with pytest.raises(PotluckError, match="folder needs a file"):
        load("folder")


def test_a_users_own_silos_train(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    np.savez(
        tmp_path / "mine.npz", X=rng.normal(size=(300, 5)) + 3 * y[:, None], y=y, silo=np.repeat(["a", "b", "c"], 100)
    )
    fed = federation(task=f"folder:{tmp_path / 'mine.npz'}", silos=3, partition="natural", batch_size=10)
    assert int(fed.silos.pool.sum()) == 240
    with pytest.raises(PotluckError, match="names 3 silos with samples to train on and the run has 4"):
        federation(task=f"folder:{tmp_path / 'mine.npz'}", silos=4, partition="natural")
    assert run(fed, np.ones(3), jax.random.key(0), 10).precision[-1] > 0.9
