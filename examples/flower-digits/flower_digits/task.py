"""Model, data and training, on Potluck's own engine: the federation that its simulator would play."""

from functools import cache

import equinox as eqx
import jax
import numpy as np
from flwr.app import ArrayRecord

from potluck.federation.fedavg import FedAvg, Window
from potluck.game import game
from potluck.scenario import load


@cache
def federation(scenario: str) -> FedAvg:
    """All silos' data, split by the scenario's seed; a real silo would read its own."""
    source = game(load(scenario)).source
    assert isinstance(source, FedAvg), "the scenario must train for real: precision.source = 'fedavg'"
    return source


def to_record(weights: eqx.Module) -> ArrayRecord:
    """The model's arrays, in order."""
    return ArrayRecord([np.asarray(leaf) for leaf in jax.tree.leaves(weights)])


def from_record(arrays: ArrayRecord, source: FedAvg) -> eqx.Module:
    """The model again."""
    like = jax.eval_shape(source.architecture.init, jax.random.key(0))
    return jax.tree.unflatten(jax.tree.structure(like), arrays.to_numpy_ndarrays())


def initial(source: FedAvg, seed: int) -> ArrayRecord:
    """Fresh weights."""
    return to_record(source.architecture.init(jax.random.key(seed)))


def accuracy(arrays: ArrayRecord, source: FedAvg) -> float:
    """The share of the server's held-out digits that the model gets right."""
    return float(eqx.filter_jit(source.precision)(from_record(arrays, source)))


def pool(source: FedAvg, silo: int) -> int:
    """|D| of one silo."""
    return int(source.silos.pool[silo])


def train(arrays: ArrayRecord, source: FedAvg, silo: int, samples: int, seed: int) -> ArrayRecord:
    """One local epoch on so many samples; all randomness comes from the seed and the silo's number."""
    data = jax.tree.map(lambda leaf: leaf[silo], source.silos)
    key = jax.random.fold_in(jax.random.key(seed), silo)
    everything = Window(start=np.int32(0), size=data.pool)
    update = eqx.filter_jit(source.local_update)
    return to_record(update(from_record(arrays, source), data, np.int32(samples), key, everything))
