"""The owner's gate against hostile apps and servers: Flower's own loop of a SuperNode on a fake connection."""

import json
import math
import os
import resource
import shutil
import time
import tracemalloc
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supernode import start_client_internal as loop
from flwr.supernode.nodestate import NodeStateFactory

from aoi_fl.client.device import checks
from aoi_fl.client.device.checks import configuration
from aoi_fl.client.device.receipts import approve, read, read_receipts
from aoi_fl.client.device.status import status
from aoi_fl.client.gate import book as books
from aoi_fl.client.gate import gate as gates
from aoi_fl.client.gate import rules
from aoi_fl.client.gate.book import GATE, LOCK, RECEIPTS, Book
from aoi_fl.client.gate.limits import Refusal
from aoi_fl.client.promises import Device as Promises
from aoi_fl.client.promises import Promise, refused_now
from aoi_fl.client.supernode import make_gatekeeper
from aoi_fl.docker.pki import make_client_key
from aoi_fl.flower.gate import GateDoors
from aoi_fl.flower.messages import context, send
from aoi_fl.protocol import DECLINED_BY, ParticipationReply, ParticipationRequest, coding, packing
from aoi_fl.protocol.arrays import to_record
from tests.fakes import Counting, reply_of
from tests.refusals import refused

FAB = b"an app"
APP = sha256(FAB).hexdigest()
MODEL = {"w": np.zeros(3, np.float32), "n": np.array(4)}


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


def arrays(**named):
    return RecordDict({"arrays": to_record(named)})


def metrics(named):
    return RecordDict({"metrics": MetricRecord(named)})


class Device:
    """A SuperNode without processes: Flower's loop and stores, our doors, and a fake SuperLink.

    Its app is a function of the message, or what it always replies.
    """

    def __init__(self, folder, app=lambda message: update(), key=None, **node):
        rules = {key.replace("_", "-"): value for key, value in node.items()}
        self.node = {"name": "pi", "state-dir": str(folder)} | rules
        self.app, self.started, self.run, self.dies, self.key = app, 0, 11, False, key
        self.fab = SimpleNamespace(content=FAB, hash_str=APP, verifications={})
        self.restart()

    def restart(self):
        store = ObjectStoreFactory()
        self.state, self.store = NodeStateFactory(objectstore_factory=store).state(), store.store()
        self.state.set_node_id(7)
        self.doors = GateDoors(make_gatekeeper(self.node, "link", self.key))

    @contextmanager
    def _connection(self):
        def send_(message, tree, seconds):
            if self.dies:
                raise KeyboardInterrupt
            self.reply, self.objects = message, {}
            return {part.object_id for part in loop.iterate_object_tree(tree)}, "session"

        def push(run, session, object_id, content):
            self.objects[object_id] = content

        about = SimpleNamespace(
            fab_hash=APP, run_id=self.run, series_id=self.run, primary_task_type="", override_config={}
        )
        yield (
            7,
            lambda: self.incoming,
            send_,
            lambda run: about,
            lambda digest, run: self.fab,
            lambda run, object_id: self.contents[object_id],
            push,
            lambda run, message: None,
        )

    def __call__(self, message):
        """Send a message and return the reply that leaves, with its content; None: nothing leaves."""
        send(message, "", run_id=self.run)
        message.metadata.__dict__["_message_id"] = message.object_id
        with no_object_id_recompute():
            tree = get_object_tree(message)
            self.contents = {i: part.deflate() for i, part in get_all_nested_objects(message).items()}
        self.incoming, self.reply = (Message(RecordDict(), metadata=message.metadata), tree), None
        with self.doors.connection(self._connection) as (_, receive, send_, get_run, get_fab, pull, push, _):
            if receive() is not None:
                get_fab(get_run(self.run).fab_hash, self.run)
                assert {i: pull(self.run, i) for i in self.contents} == self.contents
                self.started += 1
                made = self.app(message) if callable(self.app) else self.app
                for each in made if isinstance(made, list) else [made]:
                    each = each if isinstance(each, Message) else Message(each, reply_to=message)
                    loop._insert_message(each, self.state, self.store)
                self.doors.push_messages(
                    loop._push_messages, state=self.state, object_store=self.store, send=send_, push_object=push
                )
        if self.reply is None or self.reply.has_error():
            return self.reply
        return inflate_object_from_contents(self.reply.metadata.message_id, dict(self.objects))

    def updates(self, *messages):
        replies = [self(message) for message in messages]
        return sum(r is not None and r.has_content() and bool(r.content.array_records) for r in replies)


def rule_of(reply):
    assert reply.has_error() and reply.error.reason.startswith(DECLINED_BY), reply
    return reply.error.reason.removeprefix(DECLINED_BY)


def numbers(reply):
    """Return how many numbers leave outside of our record; a byte and a character count as one."""
    if reply is None or reply.has_error():
        return 0 if reply is None else len(reply.error.reason) // 80
    content = packing.unpack(reply.content)
    records = [*content.metric_records.items(), *content.config_records.items()]
    items = [
        (n, v) for key, record in records for n, v in record.items() if key != "aoi" or isinstance(v, list | bytes)
    ]
    values = [
        *(v for _, v in items),
        *(n[8:] for n, _ in items if n != "num-examples"),
        *(key[8:] for key, _ in records),
    ]
    arrays = sum(len(array.data) for record in content.array_records.values() for array in record.values())
    return arrays + sum(len(v) if isinstance(v, list | bytes | str) else 1 for v in values)


def norm_of(reply):
    """Return the norm of the update that a server reads in a reply to the zero model."""
    content = packing.unpack(reply.content)
    told = ParticipationReply.read(content["aoi"]) if "aoi" in content else None
    codes = {name: array.numpy() for name, array in content["arrays"].items()}
    values = coding.expand(MODEL, codes, told.scales) if told is not None and told.compression else codes
    return float(np.linalg.norm(values["w"].astype(np.float64)))


def answer(takes_part=True, **more):
    return ConfigRecord(ParticipationReply("pi", takes_part, 0, **more).write())


NUMBERS = [float(i) for i in range(1000)]
LARGE = {
    "arrays": update(),
    "arrays under another key": update(record="weights"),
    "arrays of another form": RecordDict({"arrays": ArrayRecord({"w": Array("x", (3,), "pickle", b"123" * 400)})}),
    "numbers in metrics": metrics({"loss": NUMBERS}),
    "many metrics": metrics({f"m{i}": x for i, x in enumerate(NUMBERS)}),
    "bytes in a configuration": RecordDict({"config": ConfigRecord({"w": bytes(4000)})}),
    "text in a configuration": RecordDict({"config": ConfigRecord({"w": "x" * 4000})}),
    "packed arrays": packing.pack(update()),
    "the name of a metric": metrics({"x" * 4000: 1.0}),
    "the key of a record": RecordDict({"x" * 4000: MetricRecord({"loss": 1.0})}),
    "records without metrics": RecordDict({f"record {i:03}": MetricRecord({}) for i in range(250)}),
    "metrics without values": metrics({f"metric {i:03}": [] for i in range(250)}),
}
QUESTIONS = ("query.hello", "query.participate", "query.bid")
KINDS = ("train", "train.more", "evaluate", "evaluate.more", "query.data", *QUESTIONS)
Noon = type("Noon", (datetime,), {"now": classmethod(lambda cls, tz=None: cls(2026, 1, 1, 12))})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["pause", "hours", "only-unmetered"])
def test_no_app_starts_while_the_owner_forbids_it(tmp_path, kind, rule, monkeypatch):
    monkeypatch.setattr(gates, "datetime", Noon)
    monkeypatch.setattr(rules.power, "metered", lambda: None)
    device = Device(tmp_path, **{rule: "03:00-03:01" if rule == "hours" else True})
    replies = [device(train(t, kind, group=str(t))) for t in range(1, 4)]
    assert [rule_of(reply) for reply in replies] == [rule] * 3 and device.started == 0


@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("content", LARGE.values(), ids=LARGE)
def test_an_answer_to_a_question_carries_only_the_fields_of_the_protocol(tmp_path, kind, content):
    own = {} if packing.is_packed(Message(content, 7, kind)) else {"aoi": answer(next_round=5)}
    device = Device(tmp_path, RecordDict({**content, **own}), pause=True)
    reply = device(train(1, kind, own={}))
    assert numbers(reply) == 0 and (reply.has_error() or set(reply.content) <= {"aoi"})
    forged = [{"name": "x" * 90}, answer(rule="secret"), answer(scales=(1.0,) * 99), answer(compression="x")]
    for record in forged:
        device.app = RecordDict({"aoi": ConfigRecord(dict(record))})
        assert rule_of(device(train(1, kind, own={}))) == "metrics"


@pytest.mark.parametrize("rule", [{"min-hours": 1}, {"max-updates": 1}])
@pytest.mark.parametrize("content", LARGE.values(), ids=LARGE)
def test_one_update_leaves_whatever_its_form_type_run_and_server(tmp_path, rule, content):
    device = Device(tmp_path, content, **rule)
    left = []
    for t, kind in enumerate((*KINDS, *KINDS), 1):
        device.run = 11 + t % 3
        if t == 9:
            device.restart()
        left.append(numbers(device(train(t, kind, own={"run": f"r{t}"} if t % 2 else None))))
    assert sum(n > 2 for n in left) == 1


def test_metrics_beside_a_no_count_as_a_training(tmp_path):
    device = Device(tmp_path, RecordDict({"aoi": answer(takes_part=False)}), max_updates=1)
    assert device(train(1, own={})).content["aoi"]["takes-part"] is False
    device.app.update(metrics({"m": NUMBERS[:200]}))
    assert [numbers(device(train(t, own={}))) for t in (2, 3, 4)] == [200, 0, 0]


@pytest.mark.parametrize("size", [50, 200])
@pytest.mark.parametrize("rule", [{"min-hours": 1}, {"max-updates": 1}, {"min-separation": 10**6}])
def test_no_update_leaves_in_many_small_evaluations(tmp_path, size, rule, monkeypatch):
    device = Device(tmp_path, metrics({"m": NUMBERS[:size]}), **rule)
    left = 0
    for t in range(2, 700 // size + 4):
        device.run = 11 + t % 3
        if t % 3 == 0:  # a power cut, after which the receipts have what the state lacks
            device.restart()
        left += numbers(device(train(t, f"evaluate.x{t}", own={"run": f"r{t % 3}"})))
    assert 200 <= left <= 2 * 256 + size  # before and after the one that counts as a training


@pytest.mark.parametrize(
    "messages",
    [
        lambda: [train(t) for t in (5, 5, 4, 1, 0, -5, 6, 7)],
        lambda: [train(t, own={}) for t in (5, 5, 4, 1, 0, -5, 6, 7)],
        lambda: [train(t, own={"token": f"t{t}", "run": f"r{t}"}) for t in (5, 5, 6, 7, 4)],
        lambda: [train(None, group=g) for g in ("", "x", "5", "5", "6", "-9", "7", "1e9", "٥", "9" * 30)],
        lambda: [train() for _ in range(5)],
        lambda: [train(5), train(6, group="6"), train(6, own={}), *(train(7, k) for k in KINDS)],
    ],
)
def test_one_update_leaves_within_a_separation(tmp_path, messages):
    device = Device(tmp_path, min_separation=4)
    assert device.updates(train(1), train(2), train(3)) == 1
    assert device.updates(*messages()) <= 1


def test_a_client_without_state_waits_a_separation(tmp_path):
    device = Device(tmp_path / "a", min_separation=3)
    assert [device.updates(train(t)) for t in range(7, 13)] == [0, 0, 1, 0, 0, 1]
    assert Device(tmp_path / "b", min_separation=3).updates(*map(train, range(1, 8))) == 3


def coded(kind, w, **more):
    scales = {"scales": (1.0,)} if kind == "int8" else {}
    record = to_record({"w": np.asarray(w, coding.code_type(kind, np.float32)), "n": MODEL["n"]})
    return RecordDict({"arrays": record, "aoi": answer(compression=kind, **scales | more)})


@pytest.mark.parametrize(
    "content",
    [
        update(),
        update(1e-3),
        packing.pack(update()),
        arrays(w=np.full(3, 1e300)),
        arrays(w=np.full(3, 500, np.float16)),
        coded("float16", [100, 0, 3]),
        coded("int8", [100, 0, 3]),
        coded("int8", [100, 0, 3], scales=(-3e5,)),
        packing.pack(coded("int8", [99, 0, 3])),
    ],
)
def test_an_update_above_the_norm_is_scaled_down(tmp_path, content):
    told = packing.unpack(content).get("aoi")
    device = Device(tmp_path, content, max_norm=1.0)
    reply = device(train(1, own=None if told is None else {"compression": told["compression"]}))
    changed = norm_of(Message(content, 7, "train"))
    assert norm_of(reply) <= 1 and norm_of(reply) == pytest.approx(min(changed, 1), rel=1e-3)


@pytest.mark.parametrize(
    "content",
    [
        update(math.nan),
        update(math.inf),
        RecordDict({"a": model(w=MODEL["w"] + 9), "arrays": model()}),
        *(RecordDict({"arrays": model(w=np.ones(3, kind))}) for kind in (np.int64, np.complex64, np.bool_)),
        *(RecordDict({"arrays": model(**{name: np.ones(4)})}) for name in "wnx"),
        *list(LARGE.values())[2:7],
        RecordDict({"aoi": ConfigRecord({"packed": "[", "data": b"1"})}),
        coded("int8", [1, 0, 3], scales=()),
        coded("float16", [math.nan, 0, 3]),
        coded("int8", [1, 0, 3], scales=(1.0, 1.0)),
    ],
)
def test_a_change_that_cannot_be_measured_does_not_leave(tmp_path, content):
    device = Device(tmp_path, content, max_norm=1.0)
    for own in (None, {}, {"compression": "int8"}, {"compression": "float16"}):
        reply = device(train(1, own=own))
        assert reply.has_error() and numbers(reply) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.zeros(1000, np.int32), np.arange(1000, dtype=np.int32)),
        (np.zeros(1000, np.bool_), np.ones(1000, np.bool_)),
        (np.ones(1000, np.bool_), np.full(1000, 7, np.uint8).view(np.bool_)),
        (np.full(9, np.nan, np.float32), (np.arange(9, dtype=np.uint32) + 0x7FC00000).view(np.float32)),
    ],
    ids=["integers", "a mask", "bits of a mask", "bits of NaN"],
)
def test_no_update_leaves_where_no_norm_sees_it(tmp_path, old, new):
    device = Device(tmp_path, RecordDict({"arrays": model(q=new)}), max_norm=1.0)
    assert rule_of(device(train(1, arrays=model(q=old)))) == "max-norm"


def test_no_bytes_leave_under_an_array_without_values(tmp_path):
    hidden = ArrayRecord({**model(), "q": Array("bool", (0,), "numpy.ndarray", b"secret")})
    device = Device(tmp_path, RecordDict({"arrays": hidden}), max_norm=1.0)
    assert rule_of(device(train(1, arrays=model(q=np.zeros(0, np.bool_))))) == "max-norm"


@pytest.mark.parametrize("large", [0, 100])
@pytest.mark.parametrize("kind", ["none", "float16"])
def test_the_sign_of_a_zero_carries_nothing(tmp_path, kind, large):
    content = coded(kind, [-0.0, large, 0]) if kind == "float16" else RecordDict({"arrays": model(w=[-0.0, large, 0])})
    device = Device(tmp_path, content, max_norm=1.0)
    reply = device(train(1, own={"compression": kind}))
    assert not np.signbit(reply.content["arrays"]["w"].numpy()).any() and norm_of(reply) <= 1


@pytest.mark.parametrize("kind", [*QUESTIONS, "evaluate"])
@pytest.mark.parametrize("arrays", [{}, {"arrays": to_record({f"a{i}": np.zeros(1) for i in range(1000)})}])
@pytest.mark.parametrize("rule", [{"min-hours": 1}, {"max-updates": 1, "evaluate": "metrics-only"}])
def test_no_scales_leave_without_their_arrays(tmp_path, kind, arrays, rule):
    content = RecordDict({**arrays, "aoi": answer(compression="int8", scales=tuple(NUMBERS))})
    device = Device(tmp_path, content, **rule)
    left = [numbers(device(train(t, kind, own={"compression": "int8"}))) for t in (1, 2, 3)]
    assert sum(n > 2 for n in left) <= bool(kind == "evaluate" and arrays and "min-hours" in rule)


def test_an_infinite_mask_is_no_change_and_a_scaled_update_keeps_it(tmp_path):
    def masked(m, w):
        return to_record({"m": np.array(m, np.float32), "w": np.full(3, w, np.float32), "k": np.arange(2)})

    sent, device = masked([0, -np.inf], 1e8), Device(tmp_path, max_norm=110)
    device.app = RecordDict({"arrays": masked([6, -np.inf], 1e8 + 800)})
    new = {n: a.numpy().astype(float) for n, a in device(train(1, arrays=sent)).content["arrays"].items()}
    assert new["m"][1] == -np.inf and new["k"].tolist() == [0, 1]
    assert math.hypot(new["m"][0], *(new["w"] - 1e8)) <= 110 and new["m"][0] > 0  # float32 has steps of 8 there


@pytest.mark.parametrize("shape", [(200_000,), (0,), (2, 3), ()])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_norm_is_that_of_all_values(tmp_path, shape, order):
    rng = np.random.default_rng(1)
    old, new = (np.asarray(rng.normal(size=shape), np.float32, order=order) for _ in range(2))
    device = Device(tmp_path, arrays(w=new), max_norm=0.5)
    reply = device(train(1, arrays=to_record({"w": old})))
    change = reply.content["arrays"]["w"].numpy().astype(float) - old
    full = np.linalg.norm((new.astype(float) - old).ravel())
    assert np.linalg.norm(change.ravel()) <= 0.5
    assert np.allclose(change, (new.astype(float) - old) * (min(1, 0.5 / full) if full else 1), atol=1e-6)
    assert json.loads((tmp_path / RECEIPTS).read_text())["norm"] == pytest.approx(full)


W = to_record({"w": MODEL["w"]})["w"].data
COMMENTED = W[:8] + b"G\0" + W[10:].split(b"}")[0].ljust(62) + b"}#secret\n" + W[-12:]
SECRETS = {
    "metric": {"metrics": MetricRecord({"num-examples": 1, "secret": 42.0})},
    "configuration": {"config": ConfigRecord({"secret": "secret"})},
    "array": {"arrays": model(secret=np.array(42.0))},
    "our record": {"aoi": ConfigRecord({"name": "pi", "takes-part": True, "age": 0, "secret": 42})},
    "record of another node": {"aoi": ConfigRecord({"name": "pi", "secret": "secret"})},
    "key of metrics": {"secret": MetricRecord({"num-examples": 1})},
    "key of arrays": {"secret": model()},
    "text of a metric": {"config": ConfigRecord({"num-examples": "secret", "loss": ["secret"]})},
    "end of an array": {"arrays": ArrayRecord({"w": Array("float32", (3,), "numpy.ndarray", W + b"secret")})},
    "header of an array": {"arrays": ArrayRecord({"w": Array("float32", (3,), "numpy.ndarray", COMMENTED)})},
    "name": {"aoi": ConfigRecord({"name": "secret", "takes-part": True, "age": 0})},
    "type of an array": {"arrays": ArrayRecord({"w": Array("secret", (3,), "numpy.ndarray", W)})},
    "array of another form": {"arrays": ArrayRecord({"w": Array("float32", (3,), "pickle", b"secret")})},
    "field of an array": {"arrays": model(w=np.zeros(3, [("secret", "f4")]))},
    "bytes of truth values": {"arrays": model(w=np.frombuffer(b"secret", np.bool_))},
    "padding of an array": {"arrays": model(w=np.frombuffer(b"1234567890secret", np.longdouble))},
    "rule": {"aoi": answer(rule="secret")},
}


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("allowed", ["none", "num-examples", "num-examples, loss"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_other_metric_leaves_in_any_record(tmp_path, secret, allowed, kind):
    content = RecordDict({**update(loss=MetricRecord({"loss": 1.0})), **secret})
    device = Device(tmp_path, content, metrics=allowed)
    reply = device(train(1, kind))
    assert b"secret" not in b"".join(device.objects.values())
    if reply.has_content():
        names = {name for record in reply.content.metric_records.values() for name in record}
        assert names <= set(allowed.split(", "))


@pytest.mark.parametrize("error", [Error(0, "secret"), Error(7, f"{DECLINED_BY}secret"), Error(4242, "x")])
def test_no_text_or_number_of_an_error_leaves(tmp_path, error):
    reply = Device(tmp_path, lambda message: Message(error, reply_to=message), min_hours=1)(train(1))
    assert "secret" not in reply.error.reason and reply.error.code < 1000
    assert json.loads((tmp_path / RECEIPTS).read_text())["decision"] == "failed"


@pytest.mark.parametrize("content", LARGE.values(), ids=LARGE)
def test_an_evaluation_gives_metrics_only_or_nothing(tmp_path, content):
    device = Device(tmp_path / "a", content, evaluate=False)
    assert rule_of(device(train(1, "evaluate"))) == "evaluate" and device.started == 0
    reply = Device(tmp_path / "b", content, evaluate="metrics-only")(train(1, "evaluate.x"))
    assert reply.has_error() or not (reply.content.array_records or reply.content.config_records)


def test_only_an_approved_app_starts_and_it_stays_the_same(tmp_path):
    device = Device(tmp_path / "a", apps="approved")
    for kind in KINDS:
        assert rule_of(device(train(1, kind, own={}))) == "apps" and device.started == 0
    assert set(Book(tmp_path / "a").load().apps) == {APP}
    (tmp_path / "node.toml").write_text(f'name = "pi"\nstate-dir = "{tmp_path / "a"}"')
    approve(tmp_path, APP)
    assert device.updates(train(1)) == 1  # without a restart
    assert Device(tmp_path / "b", apps=f"{'0' * 64}, {APP}").updates(train(1)) == 1
    other = Device(tmp_path / "c", apps=APP)
    other.fab.content = b"another app under the same digest"
    assert other(train(1)).has_error() and other.started == 0


def test_only_one_reply_to_an_admitted_message_leaves_in_our_own_envelope(tmp_path):
    def forge(message):
        reply = Message(update(), reply_to=message)
        forged = {"_run_id": 99, "_group_id": "secret", "_message_type": "train.secret", "_ttl": math.nan}
        vars(reply.metadata).update(forged, _dst_node_id=3, _src_task_id=99)
        return reply

    device = Device(tmp_path, forge, max_updates=9)
    message = train(1)
    about = vars(device(message).metadata)
    assert (about["_run_id"], about["_group_id"], about["_message_type"], about["_dst_node_id"]) == (11, "", "train", 1)
    assert (
        about["_src_task_id"] is None
        and about["_reply_to_message_id"] == message.metadata.message_id
        and about["_ttl"] > 0
    )
    device.app = [update(), update(5.0)]
    device(train(2))
    assert Book(tmp_path).load().updates == 2
    device.app = lambda message: Message(update(), reply_to=send(forge(message), "other"))
    assert device(train(3)) is None


def test_a_reply_larger_than_the_owner_allows_does_not_leave(tmp_path):
    device = Device(tmp_path, update(x=ConfigRecord({"b": bytes(2000)})), max_bytes=2000)
    assert rule_of(device(train(1))) == "max-bytes" and Book(tmp_path).load().updates == 0
    device = Device(tmp_path, max_norm=1.0, max_bytes=4000)  # in the model's precision it is larger
    device.app = arrays(w=np.ones(1000, np.float16))
    assert rule_of(device(train(1, arrays=to_record({"w": np.zeros(1000)})))) == "max-bytes"
    head = W[10:].partition(b"}")[0] + b"}\n"  # shorter than the gate's own
    short = Array("float32", (3,), "numpy.ndarray", W[:8] + bytes([len(head), 0]) + head + W[-12:])
    app = RecordDict({"arrays": ArrayRecord({f"a{i}": short for i in range(9)})})
    (free := Device(tmp_path / "free", app))(train(1))
    size = sum(map(len, free.objects.values()))
    assert rule_of(Device(tmp_path / "tight", app, max_bytes=size)(train(1))) == "max-bytes"


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(at=1.8e9)
    for module in (books, gates):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now.at))
    monkeypatch.setattr(gates, "datetime", Noon)
    return now


@pytest.mark.parametrize("rule", [{"hours": "00:00-23:59"}, {"pause": "2001-01-01"}, {"min-hours": 0.5}])
def test_a_clock_set_back_opens_nothing(tmp_path, clock, rule, named, caplog):
    clock.at = time.time() + 7200
    device = Device(folder := tmp_path / "state", **rule)
    assert device.updates(train(1)) == 1
    clock.at -= 3600
    assert rule_of(device(train(2))) in rule
    told, finding = caplog.text, named()["gate"]
    assert f"{next(iter(rule))}: {finding.found}. {finding.remedy}" in told
    clock.at += 3600 + 1801
    assert device.updates(train(3)) == 1
    clock.at -= 7200  # the clock was in the future, and is right now
    (folder / GATE).unlink()
    assert device.updates(train(4)) == ("min-hours" not in rule)
    clock.at += 1801
    assert device.updates(train(5)) == 1


def test_two_supernodes_and_a_killed_one_share_one_count(tmp_path):
    one, two = (Device(tmp_path / "a", max_updates=1) for _ in range(2))
    two.app = lambda message: (one.updates(train(1)), update())[1]  # both are admitted, one reply leaves
    assert rule_of(two(train(1))) == "max-updates" and Book(tmp_path / "a").load().updates == 1
    killed = Device(tmp_path / "b", min_hours=1)
    killed.dies = True
    with pytest.raises(KeyboardInterrupt):
        killed(train(1))
    killed.dies = False
    killed.restart()
    assert rule_of(killed(train(2))) == "min-hours"


def no(*arguments, **more):
    raise OSError(28, "No space left on device")


def test_a_power_cut_at_any_time_forgets_no_training(tmp_path):
    """It loses what was not synced: state and lock may be those of any earlier time, but of the first training."""
    device, rng, kept = Device(tmp_path, max_updates=50, min_separation=3), np.random.default_rng(1), []
    for t in range(1, 51):
        assert device.updates(train(3 * t - 2)) == 1
        kept.append({name: (tmp_path / name).read_bytes() for name in (GATE, LOCK)})
        for name in (GATE, LOCK):
            (tmp_path / name).write_bytes(kept[rng.integers(max(0, t - 20), t)][name])
        with (tmp_path / RECEIPTS).open("ab") as file:
            file.write(b'{"half of a line' * rng.integers(2))
        state = Book(tmp_path).load()
        assert (state.updates, state.runs["11"].last, state.runs["11"].updates) == (t, 3 * t - 2, t)
        assert rule_of(device(train(3 * t))) == ("min-separation" if t < 50 else "max-updates")
    assert read_receipts(Book(tmp_path))[1] == []


def test_an_update_waits_once_for_the_disk_and_leaves_after_its_receipt(tmp_path, monkeypatch):
    device, waits = Device(tmp_path, max_updates=99), []
    device.updates(train(1))
    with monkeypatch.context() as patch:
        patch.setattr(books.os, "fsync", lambda file: waits.append((tmp_path / RECEIPTS).read_bytes().count(b"\n")))
        for t in range(2, 31):
            assert device.updates(train(t)) == 1 and waits == list(range(2, t + 1))


def test_a_message_is_copied_at_most_three_times(tmp_path, monkeypatch):
    size, peaks = 5_000_000, []
    sent, new = (to_record({n: np.full(size // 8, value, np.float32) for n in "wv"}) for value in (0, 1))
    device = Device(tmp_path, RecordDict({"arrays": new}), max_norm=1.0)

    def measured(door):
        def pass_(*arguments):
            tracemalloc.start()
            try:
                return door(*arguments)
            finally:
                peaks.append(tracemalloc.get_traced_memory()[1] / size)
                tracemalloc.stop()

        return pass_

    for door in ("_receive", "_send"):
        monkeypatch.setattr(GateDoors, door, measured(getattr(GateDoors, door)))
    assert device.updates(train(1, arrays=sent)) == 1
    assert len(peaks) == 2 and max(peaks) < 3.2


@pytest.fixture
def enrolled(tmp_path):
    """Return a function that makes a client's folder with rules, and the book of its gate."""

    def enrol(**rules_):
        (folder := tmp_path / "pi").mkdir()
        make_client_key(folder / "client.key", folder / "pi.pub")
        node = {"name": "pi", "state-dir": str(tmp_path / "state")} | rules_
        (folder / "node.toml").write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in node.items()))
        return folder, Book(tmp_path / "state")

    return enrol


@pytest.fixture
def named(tmp_path, caplog):
    """Return a function that gives the doctor's findings of faults, which status and the SuperNode's log have too."""

    path, folder = tmp_path / "node.toml", str(tmp_path / "state")
    path.write_text(f'name = "pi"\nstate-dir = "{folder}"\n')

    def troubles():
        failed = {finding.check: finding for finding in configuration(tmp_path) if finding.status == "fail"}
        shown = "\n".join(status(tmp_path))
        make_gatekeeper({"name": "pi", "state-dir": folder}, "link", None)
        for finding in failed.values():
            assert all(finding.found in text and finding.remedy in text for text in (shown, caplog.text))
        return failed

    return troubles


def test_nothing_leaves_if_the_disk_is_full(tmp_path, monkeypatch, named, caplog):
    room = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(message=None):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, room[1]))
        return update()

    device = Device(tmp_path / "state", fill, max_updates=9)
    try:
        for t in (1, 2):  # the disk is full from the first training on
            device.run = t
            assert rule_of(device(train(t))) == "state-dir"
        assert {check: finding.remedy for check, finding in named().items()} == {"state": books.ROOM}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, room)
    assert all(str(tmp_path / "state" / file) in caplog.text for file in (GATE, RECEIPTS))
    device.app = update()
    assert device.updates(train(3)) == 1 and not named()
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda place: SimpleNamespace(free=1e6))
    assert named().keys() == {"disk"}


def test_a_lost_state_counts_from_now_and_from_the_receipts(tmp_path, clock):
    device = Device(tmp_path, min_hours=1, max_updates=3)
    for t in (1, 2):
        assert device.updates(train(t)) == 1
        clock.at += 3601
    (tmp_path / GATE).unlink()
    device.restart()
    assert rule_of(device(train(3))) == "min-hours"
    clock.at += 3601
    assert device.updates(train(4)) == 1
    clock.at += 3601
    assert rule_of(device(train(5))) == "max-updates"
    shutil.rmtree(tmp_path)  # the process still knows that it has trained
    assert rule_of(device(train(6))) == "min-hours"


def test_the_clientapp_asks_the_gate_before_it_promises(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "pi.json").write_text("{}")
    device = Device(tmp_path, min_hours=1)
    assert refused_now(device.node) is None  # as in a sandbox, where its folder has no file of the gate
    assert rule_of(device(train(1))) == refused_now(device.node) == "min-hours"  # the gate has lost its state


def spoil(how, folder):
    state, receipts = folder / GATE, folder / RECEIPTS
    blob = receipts.read_bytes()
    match how:
        case "cut":
            receipts.write_bytes(blob.splitlines(keepends=True)[0])
        case "removed, and the state lost":
            receipts.unlink()
            state.unlink()
        case "lock emptied":
            (folder / LOCK).write_bytes(b"")
        case "edited":
            about = os.stat(receipts)
            receipts.write_bytes(blob.replace(b'"updates": 2', b'"updates": 0'))  # as long as before
            os.utime(receipts, ns=(about.st_atime_ns, about.st_mtime_ns))  # an app cannot set the time of the change
        case "edited before":
            book = Book(folder)
            with book.locked():
                book.save(book.load())
            receipts.write_bytes(blob.replace(b'"round": 1', b'"round": 9'))
        case "counts":
            state.write_bytes(state.read_bytes().replace(b'"updates": 1', b'"updates": 0'))
        case "folder":
            state.unlink()
            state.mkdir()


SPOILT = ["cut", "removed, and the state lost", "lock emptied", "edited", "edited before", "counts", "folder"]


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_state_or_receipt_closes_the_gate_and_is_named(tmp_path, how, named, caplog):
    device = Device(folder := tmp_path / "state", max_updates=9)
    assert device.updates(train(1), train(2)) == 2 and not named()
    spoil(how, folder)
    assert rule_of(device(train(3))) == "state-dir" and device.started == 2
    assert str(folder) in caplog.text and books.RESTORE in caplog.text
    caplog.clear()
    assert str(folder) in named()["gate"].found and read_receipts(Book(folder))[1]


def test_an_edited_line_long_before_the_last_is_named(tmp_path, named, monkeypatch):
    Device(tmp_path / "state").updates(train(1), train(2))
    spoil("edited before", tmp_path / "state")
    monkeypatch.setattr(books, "_TAIL", (tmp_path / "state" / RECEIPTS).stat().st_size - 1)
    assert "line 2" in named()["gate"].found


def test_rules_need_a_folder():
    with refused("state-dir", None):
        make_gatekeeper({"name": "pi", "max-norm": 1.0}, "link", None)
    assert make_gatekeeper({"name": "pi"}, "link", None) is None


def test_without_rules_a_reply_leaves_as_it_is_with_a_receipt(tmp_path):
    device = Device(tmp_path, update(math.nan, config=ConfigRecord({"w": bytes(4000)})))
    assert numbers(device(train())) > 4000
    (entry,), problems = read_receipts(Book(tmp_path))
    assert (entry["decision"], entry["updates"], entry["app"], problems) == ("sent", 1, APP, [])
    device.app = lambda message: Message(Error(0, "the reason"), reply_to=message)
    assert device(train(2)).error.reason == "the reason"


def test_a_no_of_the_clientapp_by_a_rule_has_a_receipt(tmp_path):
    app = Counting()
    app.evaluate()(lambda message, context: reply_of(message, {"loss": 1}))
    device = Device(tmp_path, lambda message: app(message, context(1, 7, {}, device.node)))
    device.node["min-separation"] = 4  # of the app alone, so that the gate itself lets each message in
    terms = {"wire": "poll", "table": (1.0,), "ahead": True, "min_separation": 4, "clear": True}
    for t, kind in enumerate(["train", "query.hello", "evaluate", "train", "train"], 1):
        assert device(train(t, kind, own=terms)).has_content()
    entries, problems = read_receipts(Book(tmp_path))
    told = [(e["round"], e["decision"], e["updates"]) for e in entries]
    assert app.trained == 2 and not problems and {e["rule"] for e in entries} == {None, "min-separation"}
    assert told == [
        (1, "sent", 1),
        (2, "declined", 1),
        (3, "declined", 1),
        (3, "sent", 1),
        (4, "declined", 1),
        (5, "sent", 2),
    ]
    device.app = RecordDict({"aoi": answer(takes_part=False, rule="secret")})
    device(train(9, "query.participate", own={}))
    assert len(read_receipts(Book(tmp_path))[0]) == len(entries)


def test_equal_refusals_of_an_hour_are_counted_and_the_file_stays_small(tmp_path, clock, enrolled):
    node, book = enrolled(pause=True)
    device = Device(tmp_path / "state", key=node / "client.key", pause=True)
    for t in range(1, 61):
        device.run = 11 + t % 2 if t <= 30 else t  # then each message is of another run
        device(train(t, group=str(t)))
        if t == 45:
            device.restart()
        clock.at += 1
    assert len(read_receipts(book)[0]) < 20 and "messages declined by pause: 60" in [*status(node)]
    clock.at += 3600
    device(train(61))
    entries, problems = read(node, verify=True)
    assert not problems and sum(entry["times"] for entry in entries) == 61 and len(entries) < 25
    assert max(entry["round"] for entry in entries if entry["run"] == "12" and entry["times"] > 1) == 29
    clock.at -= 7200  # a clock that was set back ends the hour too
    device(train(62))
    assert sum(entry["times"] for entry in read_receipts(book)[0]) == 62
    device(train(63, group="63"))
    clock.at += 3601
    device.node["pause"] = False
    device.restart()
    assert device.updates(train()) == 1
    told = [(entry["decision"], entry["round"], entry["times"]) for entry in read_receipts(book)[0][-2:]]
    assert told == [("refused", 63, 1), ("sent", None, 1)]


def test_a_power_cut_counts_no_refusal_twice(tmp_path, monkeypatch):
    book = Book(tmp_path)

    def count(at):
        about = dict.fromkeys(("decision", "rule", "server", "run", "app", "kind", "round"), "x")
        with book.locked():
            book.count(book.flushed(book.load(), at), {**about, "time": at, "since": at, "times": 1})

    count(1.0)
    count(2.0)
    with monkeypatch.context() as patch:
        patch.setattr(books.Durable, "save", no)
        with pytest.raises(Refusal):
            count(4000.0)
    count(4001.0)
    entries, problems = read_receipts(book)
    assert (
        problems == [] and [e["time"] for e in entries] == [1, 2, 4000, 4001] and {e["times"] for e in entries} == {1}
    )


def test_the_owner_sees_and_approves_at_the_gate(tmp_path, aoi, enrolled):
    rules_ = {"apps": "approved", "max-updates": 3, "min-hours": 2, "min-separation": 4}
    folder, book = enrolled(**rules_)
    state = book.folder

    def ask(line):
        return aoi(f"device {line} --dir {folder}")

    assert ask("receipts")[0] == ask("apps")[0] == 0
    device = Device(state, key=folder / "client.key", **rules_)
    device(train(1))
    assert f"{APP}  may not run" in ask("apps")[1] and ask(f"approve {'0' * 63}")[0] == 2
    assert ask(f"approve {APP}")[0] == 0 and f"{APP}  may run" in ask("apps")[1]
    assert device.updates(train(1, own={}), train(2, own={})) == 1
    Promises(state, "pi", durable=True).keep("r", Promise(4, 40, 0, mu=0.5, delta=1e-5))
    status = ask("status")[1]
    opens = f"{datetime.fromtimestamp(book.load().last + 7200):%Y-%m-%d %H:%M}"
    (run,) = (line for line in status.splitlines() if line.startswith("run r at link"))
    assert all(part in run for part in ("2 more", opens, "not before round 5", APP[:12], "1 updates"))
    assert "ε = 1.993 at δ = 1e-05, if the server adds the noise that it announced" in status
    found = json.loads(ask("receipts --verify --json")[1])
    assert found["genuine"] and [r["decision"] for r in found["receipts"]] == ["refused", "sent", "refused"]
    keys = {"time", "server", "run", "round", "app", "decision", "rule", "bytes", "norm", "before", "signature"}
    assert keys <= found["receipts"][0].keys() and len(ask("receipts")[1].splitlines()) == 3
    book.receipts.write_text(book.receipts.read_text().replace('"refused"', '"sent"   ', 1))
    code, out, _ = ask("receipts --verify --json")
    assert code == 1 and {p.partition(" is")[0] for p in json.loads(out)["problems"]} >= {"line 1"}


def test_the_state_on_the_disk_lacks_few_receipts(tmp_path, monkeypatch):
    device, synced, save = Device(tmp_path, evaluate=False), [], books.Durable.save

    def note(file, state, *, at_once=True):
        save(file, state, at_once=at_once)
        if at_once:
            synced.append(state.lines)

    monkeypatch.setattr(books.Durable, "save", note)
    for t in range(1, 41):
        device(train(t))
        device(train(t, "evaluate"))  # its refusal is counted in the state, without a wait
        assert Book(tmp_path).load().lines - synced[-1] <= 32
