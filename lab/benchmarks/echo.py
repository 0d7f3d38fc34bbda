"""Clients that return the model untrained, to measure engine, protocol and aggregation."""

import time

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp

client_app = ClientApp()
ADD = "add"
TRAINS, SLOWER = "trains", 10  # seconds of a training, and how many times as long the first client takes
OWN = "own"  # adds the client's number, because a SuperLink stores equal arrays only once


@client_app.introduce()
def introduce(context, ask):
    """Return one example for every client."""
    return {"num-examples": 1}


@client_app.train()
def train(message, context):
    """Return the model unchanged, or with a number added that the server has sent."""
    arrays, config = message.content["arrays"], message.content.get("config", {})
    if ADD in config:
        add = np.float32(config[ADD])
        arrays = ArrayRecord({name: Array(array.numpy() + add) for name, array in arrays.items()})
    partition = int(context.node_config["partition-id"])
    time.sleep(config.get(TRAINS, 0.0) * (1 if partition else SLOWER))
    if config.get(OWN):
        arrays = ArrayRecord({name: Array(_shifted(array.numpy(), partition)) for name, array in arrays.items()})
    metrics = MetricRecord({"num-examples": 1, "loss": 1.0, "partition": partition})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def _shifted(values, number):
    return np.asarray(values + np.asarray(number + 1, values.dtype))


def adding(number):
    """Return a record that makes clients add a number; Flower stores equal arrays only once."""
    return {"config": ConfigRecord({ADD: float(number)})}
