"""The client: some steps of gradient descent, held back where the server says so; one client may lie."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

TRUTH = np.array([1.0, -2.0, 0.5])
app = ClientApp(mods=[])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Improve the slope, or say what is not so."""
    partition = context.node_config["partition-id"]
    x = np.random.default_rng(partition).normal(size=(20, 3))
    (start,) = message.content["arrays"].to_numpy_ndarrays()
    mu = message.content["config"].get("proximal-mu", 0.0)
    slope = start
    for _ in range(20):
        slope = slope - 0.2 * (x.T @ (x @ (slope - TRUTH)) / len(x) + mu * (slope - start))
    if partition == context.run_config["liar"]:
        slope = -10 * slope
    metrics = MetricRecord({"num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord([slope]), "metrics": metrics}), reply_to=message)
