"""Flower simulation: a ServerApp with its own FedAvg, and ClientApps in Ray actors, one per core.

The simulation starts in this process, on the runtime that `flwr run` would hand it to: no SuperLink stays behind.
"""

import logging
import os
import sys
import tempfile
from argparse import ArgumentParser
from functools import cache
from importlib.metadata import version
from pathlib import Path

# Quiet, offline, and decided before Flower or Ray is imported.
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from potluck.studies.benchmarks.work import Work, report, timed

from .torch_loop import evaluate, mlp, train

client = ClientApp()


@cache
def silo(path: str, number: int) -> tuple[Work, torch.Tensor, torch.Tensor]:
    """One silo's data, read once by each actor."""
    torch.set_num_threads(1)
    work = Work.load(path)
    return work, torch.from_numpy(work.x[number]), torch.from_numpy(work.y[number])


@client.train()
def fit(message: Message, context: Context) -> Message:
    """One local epoch from the weights in the message."""
    config = message.content["config"]
    work, x, y = silo(str(config["data"]), int(context.node_config["partition-id"]))
    model = mlp(work)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, x, y)
    reply = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})})
    return Message(reply, reply_to=message)


def server(path: str, pull_interval: float | None) -> ServerApp:
    """A ServerApp that warms up, times its rounds and reports them; it pulls replies every so many seconds."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        torch.set_num_threads(2)
        engine = "Flower"
        if pull_interval is not None:
            grid.pull_interval = pull_interval
            engine += f", polling every {1000 * pull_interval:g} ms"
        work = Work.load(path)
        model, x_test, y_test = mlp(work), torch.from_numpy(work.x_test), torch.from_numpy(work.y_test)

        def central(round_: int, arrays: ArrayRecord) -> MetricRecord | None:
            if round_ == 0:
                return None
            model.load_state_dict(arrays.to_torch_state_dict())
            return MetricRecord({"accuracy": evaluate(model, x_test, y_test)})

        def play(rounds: int) -> float:
            silos = len(work.x)
            strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=silos, min_available_nodes=silos)
            result = strategy.start(
                grid,
                ArrayRecord(mlp(work).state_dict()),
                num_rounds=rounds,
                train_config=ConfigRecord({"data": path}),
                evaluate_fn=central,
            )
            return float(result.evaluate_metrics_serverapp[rounds]["accuracy"])

        report(engine, version("flwr"), *timed(play))

    return app


def main(arguments: list[str]) -> None:
    parser = ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--pull-interval", type=float)
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        os.environ["FLWR_HOME"] = home
        run_simulation(
            server(str(options.data.resolve()), options.pull_interval),
            client,
            num_supernodes=4,
            backend_config={
                "client_resources": {"num_cpus": 1.0},
                "init_args": {"include_dashboard": False, "_temp_dir": home},
            },
        )


if __name__ == "__main__":
    # Actors must import the ClientApp by name: sent by value, it would read its data anew for every message.
    from peers import flower

    flower.main(sys.argv[1:])
