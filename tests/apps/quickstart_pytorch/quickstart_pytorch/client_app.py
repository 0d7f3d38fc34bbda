"""The client: some steps on its own images."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart_pytorch.task import Net, fit, images, measure

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the network."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = images(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = fit(net, x, y, message.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the network."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = images(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss, accuracy = measure(net, x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(x)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
