"""flower-torch: a Flower / PyTorch app."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from flower_torch.task import Net
from potluck.flower import Incentivized

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Main entry point for the ServerApp."""
    folder = context.run_config["consortium"]
    strategy = Incentivized(FedAvg(), scenario=f"{folder}/scenario.toml", ledger=f"{folder}/ledger.db")
    arrays = ArrayRecord(Net().state_dict())
    result = strategy.start(grid, arrays, num_rounds=context.run_config["num-server-rounds"])
    print("Final accuracy:", result.evaluate_metrics_clientapp)
