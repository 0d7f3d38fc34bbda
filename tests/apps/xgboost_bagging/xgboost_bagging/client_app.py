"""The client: one more tree, grown on its own patients."""

from functools import cache

import numpy as np
import xgboost
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_breast_cancer

SETTINGS = {"objective": "binary:logistic", "eta": 0.3, "max_depth": 3, "nthread": 1, "eval_metric": "auc"}
app = ClientApp()
measurements = cache(load_breast_cancer)  # simulated clients share them


def patients(partition, partitions=10):
    """Return the patients of one client, or those that no client has (None)."""
    x, y = measurements(return_X_y=True)
    mine = np.arange(450, len(x)) if partition is None else np.arange(450)[partition::partitions]
    return xgboost.DMatrix(x[mine], label=y[mine], nthread=1)


def booster(message):
    """Return the server's trees; None while there are none."""
    raw = message.content["arrays"]["0"].numpy().tobytes()
    if not raw:
        return None
    trees = xgboost.Booster(params=SETTINGS)
    trees.load_model(bytearray(raw))
    return trees


@app.train()
def train(message: Message, context: Context) -> Message:
    """Grow one tree on top of the server's, and send that tree alone."""
    mine = patients(context.node_config["partition-id"], context.node_config["num-partitions"])
    if (trees := booster(message)) is None:
        grown = xgboost.train(SETTINGS, mine, num_boost_round=1)
    else:
        trees.update(mine, trees.num_boosted_rounds())
        grown = trees[trees.num_boosted_rounds() - 1 : trees.num_boosted_rounds()]
    raw = np.frombuffer(grown.save_raw("json"), dtype=np.uint8)
    metrics = MetricRecord({"num-examples": int(mine.num_row())})
    return Message(RecordDict({"arrays": ArrayRecord([raw]), "metrics": metrics}), reply_to=message)
