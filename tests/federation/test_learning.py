"""What the federation reaches on real data. The figures of the documentation come from here."""

from typing import Any

import jax
import numpy as np
import pytest

from potluck.errors import PotluckError
from potluck.federation import Dataset, load, run
from tests.federation.conftest import federation

SEEDS = 3


def data(task: str) -> Dataset:
    try:
        return load(task)
    except PotluckError as reason:
        pytest.skip(f"{task} cannot be had here: {reason}")


def precision(task: Dataset, contribution: float, slots: int, seed: int, **options: Any) -> np.ndarray:
    fed = federation(task, partial_batches="full", held_out=10_000, seed=seed, **options)
    return np.asarray(run(fed, np.full(4, contribution), jax.random.key(seed), slots).precision)


@pytest.mark.slow
def test_fmnist_precision_grows_with_common_contribution_and_reaches_083() -> None:
    fmnist = data("fmnist")
    means = []
    for contribution in (0.05, 0.1, 0.25, 0.5, 1.0):
        curves = np.stack([precision(fmnist, contribution, 30, seed) for seed in range(SEEDS)])
        means.append(curves[:, -1].mean())
    assert (np.diff(means) > 0).all(), means
    assert (curves[:, -1] >= 0.83).all(), curves[:, -1]


@pytest.mark.slow
def test_the_cnn_reaches_084_on_fmnist_within_60_slots() -> None:
    curve = precision(data("fmnist"), 1.0, 60, 0, model="cnn", learning_rate=0.1)
    assert curve.max() >= 0.84, curve.max()


@pytest.mark.slow
def test_the_cnn_reaches_045_on_cifar10_within_60_slots() -> None:
    curve = precision(data("cifar10"), 1.0, 60, 0, model="cnn", channels=(16, 32))
    assert curve.max() >= 0.45, curve.max()
