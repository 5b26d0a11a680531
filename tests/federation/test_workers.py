"""Workers side by side end where each would end alone, and nobody waits for those who bring more."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int
from numpy.testing import assert_allclose, assert_array_equal

from potluck.federation import build, workers
from potluck.federation.workers import Corpus, Worker, block_count, work
from potluck.scenario import FederationConfig


def counting(corpus: Corpus, worker: Worker, steps: Int[Array, ""]) -> Int[Array, "3"]:
    """What a worker was given, and how long its loop was."""
    seen = corpus.labels[worker.rows[0, 0]] + corpus.features[worker.rows[0, 0], 0]
    return jnp.stack([seen, worker.samples, steps])


def worker(row: Int[Array, ""], steps: Int[Array, ""]) -> Worker:
    return Worker(jnp.zeros(()), row[None, None], 10 * steps, steps, (jnp.asarray(0.1), None))


def test_each_block_runs_as_long_as_its_own_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workers.BLOCKS, "cpu", (2, 2))
    steps = jnp.asarray([1, 9, 2, 8])
    corpus = Corpus(jnp.zeros((4, 1), int), jnp.arange(4))
    found = jax.vmap(lambda row, steps: work(counting, corpus, worker(row, steps), 1))(jnp.arange(4), steps)
    assert_array_equal(found[:, 0], np.arange(4))
    assert_array_equal(found[:, 1], 10 * steps)
    assert_array_equal(found[:, 2], [2, 9, 2, 9])


def test_nested_batches_are_one_and_rows_find_the_corpus_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workers.BLOCKS, "cpu", (3, 2))
    labels = jnp.arange(2 * 3 * 5).reshape(2, 3, 5)  # lanes × silos × samples; games share them
    steps = jnp.asarray(np.random.default_rng(0).integers(1, 9, (2, 4, 3)))

    def silo(labels: Array, steps: Array) -> Array:
        return work(counting, Corpus(jnp.zeros((5, 1), int), labels), worker(jnp.asarray(2), steps), 1)

    games = jax.vmap(jax.vmap(silo), in_axes=(None, 0))
    found = jax.jit(jax.vmap(games))(labels, steps)
    assert_array_equal(found[..., 0], np.broadcast_to(labels[:, None, :, 2], (2, 4, 3)))
    assert_array_equal(found[..., 1], 10 * steps)
    assert (found[..., 2] >= steps).all()


def test_blocks_are_equal_and_not_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workers.BLOCKS, "cpu", (16, 8))
    monkeypatch.setattr(workers, "CACHE", 8 * 4 * 100)
    for step in (1, 100):
        assert [block_count(count, step) for count in (1, 8, 15, 16, 17, 128, 320, 6400)] == [1, 1, 1, 2, 1, 16, 16, 16]


def test_on_a_cpu_workers_in_step_read_no_more_than_its_caches_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(workers.BLOCKS, "cpu", (16, 8))
    monkeypatch.setattr(workers, "CACHE", 8 * 4 * 100)
    # of 101 bytes, which are 404 as floats, 7 fit, and 5 divide 320; of 400 bytes two do, of more one alone
    assert [block_count(320, step) for step in (101, 400, 401, 1e9)] == [64, 160, 320, 320]
    assert [block_count(7, step) for step in (100, 101, 400)] == [1, 1, 7]


def test_an_accelerator_needs_fewer_workers_where_each_reads_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(workers.BLOCKS, "cpu")
    monkeypatch.setattr(workers, "ACCELERATED", (8, 100))
    monkeypatch.setattr(workers, "BUSY", 1000)
    assert [block_count(320, step) for step in (1, 10, 12.5, 25, 1000)] == [2, 2, 4, 8, 8]


@pytest.mark.parametrize("settings", [{}, {"optimiser": "momentum", "epochs": 2}, {"proximal": 0.1}])
def test_blocks_change_nothing_but_the_last_digits(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = build(FederationConfig.model_validate({"task": "digits", **settings}), silos=4, samples=60)
    shares = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (8, 4)), jnp.float32).at[0].set(0.0)
    keys = jax.random.split(jax.random.key(1), 8)

    def slot() -> tuple[Array, ...]:
        states = jax.vmap(fed.init)(keys)
        trained = eqx.filter_jit(lambda: jax.vmap(fed.train)(states, shares, keys))()
        return tuple(jax.tree.leaves(trained[0].model))

    monkeypatch.setitem(workers.BLOCKS, "cpu", (16, 2))
    blocks = slot()
    monkeypatch.setitem(workers.BLOCKS, "cpu", (1, 1))
    for found, expected in zip(blocks, slot(), strict=True):
        assert_allclose(found, expected, atol=1e-6)
