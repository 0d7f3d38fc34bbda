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

N, ROUNDS = 4, 3
RULES = {"max-updates": 99, "max-norm": 1e6, "metrics": "num-examples, loss", "apps": "any", "max-bytes": 10**6}


def app(folder, **rules):
    """Return clients, each behind the doors of a SuperNode of its own."""
    devices = [Device(folder / str(i), name=f"client-{i}", **rules) for i in range(N)]

    def behind(message, act, kind, round_, client):
        devices[client].app = lambda arrived: act().content
        reply = devices[client](Message(message.content, metadata=copy.copy(message.metadata)))
        return Message(reply.content, reply_to=message)

    declared = {"num-examples": 10, "payment": 1.0, "sensitivity": 1.0}
    return ToyApp(evaluates=1.0, declares=lambda client: declared, spoil=behind if rules else None)


@pytest.mark.parametrize("policy", REGISTRY)
def test_every_policy_trains_behind_the_gate(policy, tmp_path):
    keys = {"policy": policy, "num-clients": N, "clients-per-round": 2}
    keys |= {"budget": "2"} if "budget" in REGISTRY[policy].keys else {}
    make = partial(REGISTRY[policy].make, RunConfig.parse(keys).flat())
    free, gated = (
        [*map(len, play(make, app(tmp_path, **rules), tmp_path / f"run-{len(rules)}", ROUNDS, N).trained())]
        for rules in ({}, RULES)
    )
    left = [entry for i in range(N) for entry in read_receipts(Book(tmp_path / str(i)))[0]]
    assert 0 < sum(e["decision"] in LEAVES and e["kind"] == "train" for e in left) == sum(gated)
    assert gated == free
