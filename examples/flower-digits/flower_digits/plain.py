"""The same app without Potluck: all silos train on everything, and nobody is paid. `potluck bench flower` runs both."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from flower_digits.task import accuracy, federation, initial, pool, train

client = ClientApp()
server = ServerApp()


@client.train()
def fit(message: Message, context: Context) -> Message:
    """One local epoch from the weights in the message."""
    source, silo = federation(str(context.run_config["scenario"])), int(context.node_config["partition-id"])
    samples = pool(source, silo)
    arrays = train(message.content["arrays"], source, silo, samples, int(message.content["config"]["server-round"]))
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": samples})}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Play as many slots as the run's config says, and measure the model after each."""
    config = context.run_config
    source = federation(str(config["scenario"]))

    def measure(_: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"precision": accuracy(arrays, source)})

    silos = int(source.silos.pool.shape[0])
    FedAvg(fraction_evaluate=0.0, min_train_nodes=silos, min_available_nodes=silos).start(
        grid,
        initial(source, seed=0),
        num_rounds=int(config["num-server-rounds"]),
        timeout=float(config["timeout"]),
        evaluate_fn=measure,
    )
