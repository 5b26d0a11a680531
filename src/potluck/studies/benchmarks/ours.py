"""Our own engine on the same work, answering in the same way as its rivals; and with many games side by side."""

import argparse
import statistics
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from potluck import __version__
from potluck.devices import use_cores
from potluck.federation import fedavg, runs
from potluck.federation.models import Dense, Perceptron, PerceptronArchitecture
from potluck.studies.benchmarks.work import BATCH, LEARNING_RATE, ROUNDS, Work, report, timed

LONGER = 5
"""A hundred rounds where one is short: starting the program must not count, nor a lucky moment of a busy machine."""
TURNS = 5
"""Of a small and a full contribution against each other: others who use the machine must hit both alike."""


def federation(path: str, work: Work, batch_size: int) -> fedavg.FedAvg:
    """The silos of the file. Unlike its rivals the engine converts bytes and draws a fresh order in every epoch."""
    with np.load(path) as file:
        pixels, test = file["x_train"], file["x_test"]
    silos, samples, inputs = pixels.shape
    hidden, classes = work.w2.shape
    return fedavg.FedAvg(
        silos=fedavg.Silo(
            features=jnp.asarray(pixels),
            labels=jnp.asarray(work.y, jnp.int32),
            pool=jnp.full(silos, samples, jnp.int32),
            identity=jnp.arange(silos),
        ),
        test=fedavg.TestSet(jnp.asarray(test), jnp.asarray(work.y_test, jnp.int32), len(test)),
        learning_rate=jnp.float32(LEARNING_RATE),
        architecture=PerceptronArchitecture((inputs, hidden, classes)),
        batch_size=batch_size,
        partial_batches="full",
        deviation=float(pixels.max()),
    )


def player(fed: fedavg.FedAvg, work: Work) -> Callable[[float], float]:
    """One game from the given weights, every silo contributing the same share: that share in, accuracy out."""
    source = runs.shard(fed)
    layers = tuple(Dense(jnp.asarray(w.T), jnp.asarray(b)) for w, b in ((work.w1, work.b1), (work.w2, work.b2)))
    initial = eqx.tree_at(lambda s: s.model.weights, source.init(jax.random.key(0)), Perceptron(layers))
    keys = jax.random.split(jax.random.key(1), ROUNDS)

    def game(source: fedavg.FedAvg | runs.ShardedFedAvg, initial: fedavg.State, contributions: Array) -> Array:
        _, measured = jax.lax.scan(lambda state, key: source.train(state, contributions, key), initial, keys)
        return measured.precision[-1]

    play = runs.compiled(game, fed)
    return lambda contribution: float(play(source, initial, jnp.full(len(work.y), contribution)))


def against_all(fed: fedavg.FedAvg, work: Work, contribution: float) -> tuple[float, float, float]:
    """(best rounds/s, accuracy, cost as a share of a round with all data): the median of a few turns of both."""
    play = player(fed, work)

    def longer(_: int) -> float:
        return [play(contribution) for _ in range(LONGER)][-1]

    turns = [(timed(longer), timed(lambda _: play(1.0))) for _ in range(TURNS)]
    speeds = [LONGER * speed for (speed, _), _ in turns]
    shares = [full / speed for speed, (_, (full, _)) in zip(speeds, turns, strict=True)]
    return max(speeds), turns[0][0][1], statistics.median(shares)


def side_by_side(fed: fedavg.FedAvg, games: int) -> tuple[float, float]:
    """(rounds/s, mean accuracy) of many games in one program, each from weights of its own."""
    contributions, keys = np.ones((games, len(fed.silos.pool))), jax.random.split(jax.random.key(0), games)

    def play(_: int) -> float:
        return float(runs.run_games(fed, contributions, keys, LONGER * ROUNDS).precision[:, -1].mean())

    speed, accuracy = timed(play)
    return games * LONGER * speed, accuracy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--games", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=BATCH)
    parser.add_argument("--contribution", type=float, default=1.0)
    asked = parser.parse_args()
    use_cores()
    work = Work.load(asked.path)
    fed = federation(asked.path, work, asked.batch_size)
    device, share = jax.devices()[0].platform, None
    if asked.games > 1:
        speed, accuracy = side_by_side(fed, asked.games)
    elif asked.contribution < 1:
        speed, accuracy, share = against_all(fed, work, asked.contribution)
    else:
        play = player(fed, work)
        speed, accuracy = timed(lambda _: play(1.0))
    report("Potluck", __version__, speed, accuracy, device, share)


if __name__ == "__main__":
    main()
