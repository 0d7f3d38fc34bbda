"""Clients of which one does something terrible in a round of its own; the others add 1 to the model."""

import os
import signal
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp

app = ClientApp()
_hoard = []


def _allocate():
    while True:
        _hoard.append(bytearray(1 << 26))


def _raise():
    raise ValueError("no power")


MISDEEDS = {
    "raise": _raise,
    "exit": lambda: os._exit(7),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "allocate": _allocate,
    "hang": lambda: time.sleep(600),
}


@app.train()
def train(message, context):
    round_ = message.content["config"]["server-round"]
    who, node = context.run_config, context.node_config["partition-id"]
    if node == who["villain"] and (misdeed := who.get(f"round-{round_}")):
        Path(who["notes"], "misdeed").touch()
        MISDEEDS[misdeed]()
    if round_ == who["slow-round"]:
        time.sleep(0.4 if node else 1.0)
        Path(who["notes"], f"worker-{os.getpid()}").touch()
    seen = context.state.get("seen", {"trainings": 0})
    context.state["seen"] = ConfigRecord({"trainings": seen["trainings"] + 1})
    arrays = ArrayRecord({"w": Array(message.content["arrays"]["w"].numpy() + 1)})
    metrics = MetricRecord({"num-examples": seen["trainings"] + 1, "loss": 0.5})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
