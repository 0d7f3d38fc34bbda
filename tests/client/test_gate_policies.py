"""Every policy trains behind the owner's gate as without it, and each update has a receipt."""

import copy
from functools import partial

import pytest
from flwr.app import Message

from aoi_fl.client.device.receipts import read_receipts
from aoi_fl.client.gate.book import Book
from aoi_fl.client.gate.gate import LEAVES
from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.run import RunConfig
from tests.client.test_gate import Device
from tests.fakes import ToyApp, play

N, ROUNDS = 4, 4
RULES = {"max-updates": 99, "max-norm": 1e6, "metrics": "num-examples, loss", "apps": "any", "max-bytes": 10**6}

APP = {"evaluates": 1.0, "declares": lambda client: {"num-examples": 10, "payment": 1.0, "sensitivity": 1.0}}


class Gated(ToyApp):
    """Clients behind the doors of a SuperNode each."""

    def __init__(self, folder):
        super().__init__(**APP)
        self.devices = [Device(folder / f"client-{i}", name=f"client-{i}", **RULES) for i in range(N)]

    def __call__(self, message, context):
        device = self.devices[context.node_config["partition-id"]]

        def act(arrived):
            reply = super(Gated, self).__call__(message, context)
            return Message(reply.error, reply_to=arrived) if reply.has_error() else reply.content

        device.app = act
        reply = device(Message(message.content, metadata=copy.copy(message.metadata)))
        return Message(reply.error if reply.has_error() else reply.content, reply_to=message)


@pytest.mark.parametrize("policy", REGISTRY)
def test_every_policy_trains_behind_the_gate(policy, tmp_path):
    keys = {"policy": policy, "num-clients": N, "clients-per-round": 2}
    keys |= {"budget": "2"} if "budget" in REGISTRY[policy].keys else {}
    make, app = partial(REGISTRY[policy].make, RunConfig.parse(keys).flat()), Gated(tmp_path)
    free = play(make, ToyApp(**APP), tmp_path / "free", ROUNDS, N)
    gated = play(make, app, tmp_path / "gated", ROUNDS, N)
    assert [*map(len, gated.trained())] == [*map(len, free.trained())] and any(gated.trained())
    left = [entry for i in range(N) for entry in read_receipts(Book(tmp_path / f"client-{i}"))[0]]
    assert sum(e["decision"] in LEAVES and e["kind"] == "train" for e in left) == sum(map(len, gated.trained()))
