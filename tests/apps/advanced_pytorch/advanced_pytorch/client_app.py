"""The client: it takes the body from the server, and remembers its own head from round to round."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from advanced_pytorch.task import Net, fit, images, measure

app = ClientApp()


def personal(message, context):
    """Return the server's network with this client's head, if it has one already."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    if "head" in context.state:
        net.head.load_state_dict(context.state["head"].to_torch_state_dict())
    return net


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train, and remember the head."""
    net = personal(message, context)
    x, y = images(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = fit(net, x, y, message.content["config"]["lr"])
    context.state["head"] = ArrayRecord(net.head.state_dict())
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the network with this client's head."""
    x, y = images(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss, accuracy = measure(personal(message, context), x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(x)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
