"""The coordinator: FedAvg, and after every slot a settlement in the ledger."""

from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from flower_digits.task import accuracy, federation, initial
from potluck.flower import Incentivized

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play as many slots as the run's config says."""
    config = context.run_config
    source = federation(str(config["scenario"]))
    strategy = Incentivized(
        FedAvg(fraction_evaluate=0.0),
        scenario=str(config["scenario"]),
        ledger=str(config["ledger"]),
        precision=lambda arrays: accuracy(arrays, source),
        run=str(config["run"]) or None,
    )
    result = strategy.start(
        grid, initial(source, seed=0), num_rounds=int(config["num-server-rounds"]), timeout=float(config["timeout"])
    )
    np.savez(Path(str(config["ledger"])).with_name("model.npz"), *result.arrays.to_numpy_ndarrays())
