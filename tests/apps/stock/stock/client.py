"""A stock ClientApp: it knows nothing of AoI-FL."""

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    arrays = [array + 100 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": 1, "secret": 42.0})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)
