"""The client: some steps of gradient descent, held back where the server says so; one client may lie."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

TRUTH = np.array([1.0, -2.0, 0.5])
app = ClientApp(mods=[])


def measurements(partition):
    """Return what this client has measured."""
    x = np.random.default_rng(partition).normal(size=(20 + partition, 3))
    return x, x @ TRUTH


@app.train()
def train(message: Message, context: Context) -> Message:
    """Improve the slope on this client's measurements, or say what is not so."""
    config, partition = message.content["config"], context.node_config["partition-id"]
    x, y = measurements(partition)
    (start,) = message.content["arrays"].to_numpy_ndarrays()
    slope = start
    for _ in range(20):
        held = config.get("proximal-mu", 0.0) * (slope - start)
        slope = slope - config["lr"] * (x.T @ (x @ slope - y) / len(y) + held)
    if partition == context.run_config.get("liar"):
        slope = -10 * slope
    loss = float(np.mean((x @ slope - y) ** 2))
    content = {"arrays": ArrayRecord([slope]), "metrics": MetricRecord({"num-examples": len(y), "train_loss": loss})}
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Measure the slope's error on this client's measurements."""
    x, y = measurements(context.node_config["partition-id"])
    (slope,) = message.content["arrays"].to_numpy_ndarrays()
    metrics = MetricRecord({"num-examples": len(y), "eval_loss": float(np.mean((x @ slope - y) ** 2))})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
