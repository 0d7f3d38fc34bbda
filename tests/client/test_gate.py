"""The owner's gate against hostile apps and servers: Flower's own loop of a SuperNode on a fake connection."""

import itertools
from contextlib import contextmanager
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supernode import start_client_internal as loop
from flwr.supernode.nodestate import NodeStateFactory

from aoi_fl.client.supernode import make_gatekeeper
from aoi_fl.flower.gate import Doors
from aoi_fl.flower.messages import identify, send
from aoi_fl.protocol import DECLINED_BY, ParticipationRequest
from aoi_fl.protocol.arrays import to_record

FAB = b"an app"
APP = sha256(FAB).hexdigest()
MODEL = {"w": np.zeros(3, np.float32), "n": np.array(4)}
_numbers = itertools.count()


def model(**arrays):
    return to_record({name: np.asarray(a) for name, a in (MODEL | arrays).items()})


def train(round_=None, kind="train", group=None, own=None, arrays=None, **config):
    """Return a message to the client; ``own`` has the terms of our record."""
    content = RecordDict({"arrays": model() if arrays is None else arrays})
    content["config"] = ConfigRecord(({} if round_ is None else {"server-round": round_}) | config)
    if own is not None:
        content["aoi"] = ConfigRecord(ParticipationRequest(**({"run": "r", "round": round_} | own)).write())
    return Message(content, 7, kind, group_id=group)


def update(change=100.0, record="arrays", **more):
    """Return what a stock app replies: the model, moved."""
    records = {record: model(w=MODEL["w"] + np.float32(change)), "metrics": MetricRecord({"num-examples": 1})}
    return RecordDict(records | more)


class Device:
    """A SuperNode without processes: Flower's loop and stores, our doors, a fake SuperLink, an app as a function."""

    def __init__(self, folder, app=lambda message: update(), **node):
        self.node = {"name": "pi", "state-dir": str(folder)} | node
        self.folder, self.app, self.sent, self.started, self.run = folder, app, {}, 0, 11
        self.fab = SimpleNamespace(content=FAB, hash_str=APP, verifications={})
        self.restart()

    def restart(self):
        store = ObjectStoreFactory()
        self.state, self.store = NodeStateFactory(objectstore_factory=store).state(), store.store()
        self.state.set_node_id(7)
        self.doors = Doors(make_gatekeeper(self.node, "link", None))

    @contextmanager
    def _connection(self):
        def send_(message, tree, seconds):
            self.reply, self.objects = message, {}
            return {part.object_id for part in loop.iterate_object_tree(tree)}, "session"

        def push(run, session, object_id, content):
            self.objects[object_id] = content

        about = SimpleNamespace(
            fab_hash=APP, run_id=self.run, series_id=self.run, primary_task_type="", override_config={}
        )
        yield (
            7, lambda: self.incoming, send_, lambda run: about, lambda digest, run: self.fab,
            lambda run, object_id: self.contents[object_id], push, lambda run, message: None,
        )  # fmt: skip

    def __call__(self, message, reply_to=None):
        """Send a message and return the reply that leaves, with its content; None: nothing leaves."""
        identify()
        send(message, "", run_id=self.run)
        message.metadata.__dict__["_message_id"] = message.object_id
        with no_object_id_recompute():
            tree = get_object_tree(message)
            self.contents = {i: part.deflate() for i, part in get_all_nested_objects(message).items()}
        self.incoming, self.reply = (Message(RecordDict(), metadata=message.metadata), tree), None
        with self.doors.connection(self._connection) as (_, receive, send_, get_run, get_fab, pull, push, _):
            arrived = receive()
            if arrived is not None:
                get_fab(get_run(self.run).fab_hash, self.run)
                assert {i: pull(self.run, i) for i in self.contents} == self.contents
                self.started += 1
                made = self.app(message)
                replies = made if isinstance(made, list) else [made]
                for each in replies:
                    each = each if isinstance(each, Message) else Message(each, reply_to=message)
                    loop._insert_message(each, self.state, self.store)
                self.doors.push_messages(
                    loop._push_messages, state=self.state, object_store=self.store, send=send_, push_object=push
                )
        if self.reply is None or self.reply.has_error():
            return self.reply
        return inflate_object_from_contents(self.reply.metadata.message_id, dict(self.objects))

    def updates(self, messages):
        replies = [self(message) for message in messages]
        return sum(r is not None and r.has_content() and bool(r.content.array_records) for r in replies)


def rule_of(reply):
    assert reply.has_error() and reply.error.reason.startswith(DECLINED_BY), reply
    return reply.error.reason.removeprefix(DECLINED_BY)


def test_a_paused_device_starts_no_app_and_a_large_update_is_scaled_down(tmp_path):
    device = Device(tmp_path / "a", pause=True)
    assert rule_of(device(train(1))) == "pause" and device.started == 0
    reply = Device(tmp_path / "b", **{"max-norm": 1.0})(train(1))
    assert 0.999 < np.linalg.norm(reply.content["arrays"]["w"].numpy().astype(float)) <= 1
