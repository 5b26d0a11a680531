"""flower-torch: a Flower / PyTorch app."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from flower_torch.task import Net, load_data
from flower_torch.task import test as test_fn
from flower_torch.task import train as train_fn
from potluck.flower import contributed, contribution

app = ClientApp(mods=[contribution()])


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on local data."""
    torch.set_num_threads(1)
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    node, config = context.node_config, context.run_config
    trainloader, _ = load_data(node["partition-id"], node["num-partitions"], config["batch-size"])
    trainloader = contributed(trainloader)
    train_loss = train_fn(model, trainloader, config["local-epochs"], config["learning-rate"])
    metrics = MetricRecord({"train_loss": train_loss, "num-examples": len(trainloader.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    node, config = context.node_config, context.run_config
    _, testloader = load_data(node["partition-id"], node["num-partitions"], config["batch-size"])
    loss, accuracy = test_fn(model, testloader)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(testloader.dataset)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
