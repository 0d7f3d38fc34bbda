"""A plain app of somebody's factory takes part like one of ours, in all wires, and keeps its mods and its lifespan."""

import flwr.clientapp
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.client import ClientApp, attach
from aoi_fl.client.state import StateFile
from aoi_fl.engine.local import LocalGrid
from aoi_fl.strategies import MarkovParticipation, RandomSelection, RoundOptions
from tests.fakes import Notes, zeros
from tests.refusals import refused

CLIENTS, ROUNDS = 6, 8


class Calls:
    """What a client's app has gone through."""

    def __init__(self):
        self.mods, self.lives = [], 0


def factory(make, calls=None):
    """Return an app of a class, made by somebody who knows nothing of ages."""
    calls = calls or Calls()

    def mod(message, context, call_next):
        calls.mods.append((message.metadata.message_type, list(message.content)))
        return call_next(message, context)

    app = make(mods=[mod])

    @app.lifespan()
    def lifespan(context):
        calls.lives += 1
        yield

    @app.train()
    def train(message, context):
        step = np.sin(
            np.arange(3) * (context.node_config["partition-id"] + 1) + message.content["config"]["server-round"]
        )
        arrays = ArrayRecord({"w": Array((message.content["arrays"]["w"].numpy() + step).astype(np.float32))})
        return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 5})}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({"num-examples": 5, "loss": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def play(app, folder, make):
    notes = Notes()
    options = RoundOptions(
        run="r", seed=3, deterministic=True, join_timeout=0.2, evaluate_clients=2, compression="int8"
    )
    grid = LocalGrid(app, {"runs-dir": str(folder), "seed": 3}, CLIENTS)
    make(options=options, observer=notes).start(grid, zeros(3), ROUNDS)
    parts = [[(p.client, p.outcome, p.age, p.next_round) for p in record.participations] for record in notes.rounds]
    return [
        (record.willing, record.declined, record.dropped, own, model["w"].tolist())
        for record, own, model in zip(notes.rounds, parts, notes.models, strict=True)
    ]


POLICIES = {"central": lambda **how: RandomSelection(2, **how)} | {
    wire: lambda wire=wire, **how: MarkovParticipation.optimal(CLIENTS, 2, 4, coordination=wire, **how)
    for wire in protocol.WIRES
}


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_an_attached_app_plays_as_one_of_ours(make, tmp_path):
    calls = Calls()
    found = play(attach(factory(flwr.clientapp.ClientApp, calls)), tmp_path / "attached", make)
    assert found == play(factory(ClientApp), tmp_path / "ours", make)
    assert len(found) == ROUNDS and sum(len(parts) for _, _, _, parts, _ in found) > ROUNDS
    assert not any(dropped for _, _, dropped, _, _ in found)
    assert calls.lives == len(calls.mods) > ROUNDS
    assert all(keys == ["arrays", "config"] for _, keys in calls.mods)


def test_later_registrations_reach_the_app(tmp_path):
    app = attach(flwr.clientapp.ClientApp())

    @app.train()
    def train(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 9})}), reply_to=message)

    grid = LocalGrid(app, {"runs-dir": str(tmp_path)}, 1)
    (node,) = grid.get_node_ids()
    content = RecordDict({"aoi": ConfigRecord(protocol.ParticipationRequest("r", 4).write())})
    (reply,) = grid.send_and_receive([Message(content, node, "train")])
    assert reply.content["metrics"]["num-examples"] == 9 and reply.content["aoi"]["takes-part"]
    assert StateFile(tmp_path / "r" / "clients", "client-0").load(0).age.last == 4


def test_adopting_our_own_app_changes_nothing():
    app = ClientApp()
    assert attach(app) is app
    with refused("app"):
        attach(factory)
