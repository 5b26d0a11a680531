"""A data set that the package does not have: one registration, then a name like any other."""

import jax
import numpy as np
import pytest

from potluck.errors import PotluckError
from potluck.federation import TASKS, Dataset, FedAvg, Task, load, run
from potluck.federation.data import digest
from potluck.federation.from_scenario import on_task, precision_source
from potluck.scenario import parse, preset, render
from tests.federation.conftest import federation


def blobs(argument: str = "") -> Dataset:
    """Two classes of light and dark 4 × 4 pictures; the argument says how many."""
    rng = np.random.default_rng(0)
    count = int(argument or 500)
    labels = rng.integers(0, 2, count).astype(np.int32)
    images = (rng.integers(0, 100, (count, 4, 4, 1)) + 100 * labels[:, None, None, None]).astype(np.uint8)
    return Dataset("blobs", images[100:], labels[100:], images[:100], labels[:100], classes=2)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    TASKS.register("blobs", Task("blobs", "light and dark", read=blobs, samples=80, hidden=8, batch_size=20))
    TASKS.register("counted", Task("counted", "as many as you say", read=blobs, usage="counted:COUNT"))


def test_it_is_built_by_its_name_with_its_own_settings() -> None:
    fed = federation(task="blobs")
    assert (fed.silos.pool.tolist(), fed.batch_size) == ([80] * 4, 20)
    assert run(fed, np.ones(4), jax.random.key(0), 5).precision[-1] > 0.9


def test_it_is_named_in_a_scenario() -> None:
    scenario = on_task(preset("paper"), "blobs")
    assert parse(render(scenario)) == scenario
    source = precision_source(scenario, scenario.draw(jax.random.key(0)), 0)
    assert isinstance(source, FedAvg)
    assert int(source.silos.pool.sum()) <= 400


def test_what_follows_its_name_is_its_own() -> None:
    assert len(load("counted:300").labels) == 200
    assert federation(task="counted:300", samples=10).test.size == 100
    with pytest.raises(
        PotluckError, match=r"one of digits, fmnist, cifar10, folder:PATH\.npz, blobs, counted:COUNT, got"
    ):
        federation(task="spots")


def test_data_that_is_not_what_was_published_is_refused() -> None:
    TASKS.register("sealed", Task("sealed", "light and dark", read=blobs, sha256=digest(blobs())))
    load("sealed")
    TASKS.register("sealed", Task("sealed", "light and dark", read=blobs, sha256="0" * 64))
    with pytest.raises(PotluckError, match="not those of blobs"):
        load("sealed")
