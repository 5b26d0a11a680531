"""Potluck's own engine on the same work, answering in the same way as its rivals."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from potluck import __version__
from potluck.federation import fedavg, runs
from potluck.federation.models import Dense, Perceptron, architecture
from potluck.federation.optimisers import optimiser
from potluck.studies.benchmarks.peers.work import BATCH, LEARNING_RATE, ROUNDS, Work, report, timed


def ours(path: str) -> tuple[float, float]:
    """(rounds/s, accuracy) of one game with every silo contributing all it has.

    The engine keeps pixels as bytes and draws a fresh order for every epoch: work the rivals are spared.
    """
    work = Work.load(path)
    with np.load(path) as file:
        pixels, test = file["x_train"], file["x_test"]
    silos, samples, inputs = pixels.shape
    hidden, classes = work.w2.shape
    source = runs.spread(
        fedavg.FedAvg(
            silos=fedavg.Silo(
                features=jnp.asarray(pixels),
                labels=jnp.asarray(work.y, jnp.int32),
                pool=jnp.full(silos, samples, jnp.int32),
                identity=jnp.arange(silos),
            ),
            test=fedavg.TestSet(jnp.asarray(test), jnp.asarray(work.y_test, jnp.int32), len(test)),
            architecture=architecture("mlp", (1, inputs, 1), classes, hidden),
            optimiser=optimiser("sgd", LEARNING_RATE),
            batch=BATCH,
        )
    )
    layers = (Dense(jnp.asarray(work.w1.T), jnp.asarray(work.b1)), Dense(jnp.asarray(work.w2.T), jnp.asarray(work.b2)))
    initial = eqx.tree_at(lambda s: s.model.weights, source.init(jax.random.key(0)), Perceptron(layers))
    everything = jnp.ones(silos)
    slot = eqx.filter_jit(lambda source, state, key: source.train(state, everything, key))

    keys = list(jax.random.split(jax.random.key(1), ROUNDS))

    def play(rounds: int) -> float:
        state, precision = initial, jnp.zeros(())
        for key in keys[:rounds]:
            state, precision = slot(source, state, key)
        return float(precision)

    return timed(play)


def main(path: str) -> None:
    runs.use_cores()
    report("Potluck", __version__, *ours(path), device=jax.devices()[0].platform)


if __name__ == "__main__":
    main(sys.argv[1])
