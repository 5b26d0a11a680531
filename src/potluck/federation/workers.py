"""Local training side by side: those who bring little need few steps, and must not wait for those who bring much.

Under `vmap` a loop runs as long as its longest member needs. Here all members of a batch, over silos, games and lanes,
are put in order of their steps and cut into blocks; each block runs as long as its own longest member needs. So a slot
costs about what is contributed in it.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Int, PyTree

from potluck.devices import bytes_of

Trained = TypeVar("Trained")
"""What a worker ends with: weights."""

BLOCKS = {"cpu": (16, 8)}
ACCELERATED = (8, 256)
"""The most blocks there are, and the fewest workers in one: more or smaller ones cost more than they save."""
BUSY = 40_000_000
"""Bytes of samples in a step that keep an accelerator busy, however few the workers who read them are."""
CACHE = 2 << 20
"""Bytes of samples, as floats, that workers in step may read on a CPU: more of them push one another's activations out
of its caches (`benchmarks/cnn_on_cpu.py`)."""


class Corpus(eqx.Module):
    """Samples that all workers share."""

    features: Array
    labels: Int[Array, " samples"]


class Worker(eqx.Module):
    """One silo in one slot of one game: which samples it visits in which order, and its own numbers."""

    weights: PyTree
    rows: Int[Array, "*workers epochs padded"]
    """Of the corpus."""
    samples: Int[Array, "*workers"]
    steps: Int[Array, "*workers"]
    """In an epoch."""
    numbers: Any
    """What its descent depends on besides."""


def work(
    descent: Callable[[Corpus, Worker, Int[Array, ""]], Trained], corpus: Corpus, worker: Worker, batch_size: int
) -> Trained:
    """One worker's `descent`; batches of it, however nested, become blocks of workers who need about as many steps.

    `descent` is told how many steps an epoch has in its block: those past the worker's own must do nothing.
    """

    @custom_vmap
    def everybody(corpus: Corpus, workers: Worker) -> Trained:
        step = batch_size * bytes_of(corpus.features) / len(corpus.labels)
        return _in_blocks(lambda worker, steps: descent(corpus, worker, steps), workers, step)

    @everybody.def_vmap
    def batched(size: int, marks: list[Any], corpus: Corpus, workers: Worker) -> tuple[Trained, Any]:
        of_corpus, of_worker = marks
        workers = _each(size, workers, of_worker)
        if any(jax.tree.leaves(of_corpus)):
            corpus = _each(size, corpus, of_corpus)
            first = jnp.arange(size, dtype=workers.rows.dtype) * corpus.labels.shape[1]
            workers = eqx.tree_at(lambda w: w.rows, workers, workers.rows + first[:, None, None, None])
            corpus = _joined(corpus)
        done = everybody(corpus, _joined(workers))
        apart: Trained = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), done)
        return apart, jax.tree.map(lambda _: True, apart)

    alone = everybody(corpus, jax.tree.map(lambda leaf: leaf[None], worker))
    trained: Trained = jax.tree.map(lambda leaf: leaf[0], alone)
    return trained


def _each(size: int, tree: Any, batched: Any) -> Any:
    """A leading axis for the leaves that have none."""
    return jax.tree.map(lambda leaf, own: leaf if own else jnp.broadcast_to(leaf, (size, *leaf.shape)), tree, batched)


def _joined(tree: Any) -> Any:
    """Two leading axes as one."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def _in_blocks(descent: Callable[[Worker, Int[Array, ""]], Trained], workers: Worker, step: float) -> Trained:
    count = len(workers.steps)
    blocks = block_count(count, step)

    def block(some: Worker) -> Trained:
        trained: Trained = jax.vmap(descent, in_axes=(0, None))(some, some.steps.max())
        return trained

    if blocks == 1:
        return block(workers)
    order = jnp.argsort(workers.steps, descending=True)
    cut = jax.tree.map(lambda leaf: leaf[order].reshape(blocks, count // blocks, *leaf.shape[1:]), workers)
    trained = _joined(jax.lax.map(block, cut))
    back = jnp.argsort(order)
    restored: Trained = jax.tree.map(lambda leaf: leaf[back], trained)
    return restored


def block_count(workers: int, step: float) -> int:
    """The most blocks of equal size that are not too small, for workers who read so many bytes in a step.

    On a CPU those who read much are in blocks that are not too large either.
    """
    backend = jax.default_backend()
    most, least = BLOCKS.get(backend, (ACCELERATED[0], min(ACCELERATED[1], math.ceil(BUSY / step))))
    fitting = max(1, int(CACHE // (4 * step)))
    if backend in BLOCKS and fitting < least:
        return workers // max(size for size in range(1, fitting + 1) if workers % size == 0)
    return max((blocks for blocks in range(1, min(most, workers // least) + 1) if workers % blocks == 0), default=1)
