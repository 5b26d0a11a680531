"""A silo: its agent decides how many of its digits it trains on."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from flower_digits.task import federation, pool, train
from potluck.flower import contributed_samples, contribution

app = ClientApp(mods=[contribution()])


@app.train()
def fit(message: Message, context: Context) -> Message:
    """One local epoch from the weights in the message."""
    source, silo = federation(str(context.run_config["scenario"])), int(context.node_config["partition-id"])
    samples = contributed_samples(pool(source, silo))
    arrays = train(message.content["arrays"], source, silo, samples, int(message.content["config"]["server-round"]))
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": samples})}), reply_to=message)
