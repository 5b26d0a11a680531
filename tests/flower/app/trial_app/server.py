"""FedAvg on a few numbers; precision rises with them."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from potluck.flower import Incentivized

app = ServerApp()


def precision(arrays: ArrayRecord) -> float:
    return float(np.clip(0.1 + arrays.to_numpy_ndarrays()[0].mean(), 0, 1))


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = Incentivized(
        FedAvg(fraction_evaluate=0.0),
        scenario=str(config["scenario"]),
        ledger=str(config["ledger"]),
        run=str(config["run"]),
        precision=precision,
    )
    start = ArrayRecord([np.zeros(3, np.float32), np.ones((2, 2), np.float32)])
    strategy.start(grid, start, num_rounds=int(config["num-server-rounds"]), timeout=float(config["timeout"]))
