"""FedJAX: its federated averaging with the JIT backend, the fastest it has on a CPU."""

import sys
from importlib.metadata import version

import fedjax
import jax
import jax.numpy as jnp
from fedjax.algorithms import fed_avg

from potluck.studies.benchmarks.work import BATCH, LEARNING_RATE, Work, report, timed

# FedJAX 0.0.17 calls an alias that JAX no longer has.
setattr(jax, "tree_map", jax.tree_util.tree_map)  # noqa: B010


def main(path: str) -> None:
    work = Work.load(path)
    initial = {name: jnp.asarray(getattr(work, name)) for name in ("w1", "b1", "w2", "b2")}

    def logits(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]

    model = fedjax.Model(
        init=lambda _: initial,
        apply_for_train=lambda params, batch, _: logits(params, batch["x"]),
        apply_for_eval=lambda params, batch: logits(params, batch["x"]),
        train_loss=lambda batch, output: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], output),
        eval_metrics={"accuracy": fedjax.metrics.Accuracy()},
    )
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(model),
        fedjax.optimizers.sgd(LEARNING_RATE),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=1, skip_shuffle=True),
    )
    key = jax.random.PRNGKey(0)  # the model draws nothing
    silos = [
        (str(silo), fedjax.ClientDataset({"x": x, "y": y}), key)
        for silo, (x, y) in enumerate(zip(work.x, work.y, strict=True))
    ]
    test = [{"x": jnp.asarray(work.x_test), "y": jnp.asarray(work.y_test)}]

    def play(rounds: int) -> float:
        state, accuracy = algorithm.init(initial), 0.0
        for _ in range(rounds):
            state, _ = algorithm.apply(state, silos)
            accuracy = float(fedjax.evaluate_model(model, state.params, test)["accuracy"])
        return accuracy

    report("FedJAX", f"{version('fedjax')}, JAX {jax.__version__}", *timed(play))


if __name__ == "__main__":
    main(sys.argv[1])
