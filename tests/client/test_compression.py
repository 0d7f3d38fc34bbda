"""Compressed updates, the client's half: which record is coded, and residuals that outlast repetition and kill -9."""

import json
import shutil

import numpy as np
import pytest
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.client.state import written_together
from aoi_fl.flower.messages import context
from aoi_fl.learning.freshness import Mislabelled
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.protocol.arrays import config_key
from tests.fakes import MODEL, ToyApp, record_of, reply_of, request, zeros
from tests.processes import FORK


def context_of(folder):
    return context(1, 99, {"runs-dir": str(folder), "seed": 11}, {"partition-id": 2})


# The record


def message_under(key, config, **more):
    """Return a message as a strategy with keys of its own sends it."""
    records = {key: zeros(), config: ConfigRecord({"server-round": 1})}
    return request("train", ParticipationRequest("r", 1, compression="int8"), **records, **more)


def answering(*keys, source=None):
    """Return an app that sends what it trained under each of some keys, and notes its configuration."""
    app = ClientApp()
    app.configs = []

    @app.train()
    def train(message, context):
        app.configs.append({k: dict(r) for k, r in message.content.items() if isinstance(r, ConfigRecord)})
        reply = reply_of(message, {"num-examples": 1})
        reply.content["more"] = MetricRecord({"loss": 1.0})
        for key in keys:
            reply.content[key] = record_of({"w": np.full(2, 1.27, np.float32)})
        return reply

    if source:
        app.source()(lambda context, ask: source)
    return app


@pytest.mark.parametrize(
    ("sent", "replied", "coded"),
    [
        (["weights"], ["arrays"], "arrays"),  # the only one
        (["weights"], ["weights", "state"], "weights"),
        (["arrays", "state"], ["state", "arrays"], "arrays"),
        (["weights", "state"], ["weights"], None),  # nothing says which of them is the model
        (["weights"], [], None),
    ],
    ids=str,
)
def test_the_model_is_found_under_whatever_key_it_has(sent, replied, coded, tmp_path):
    more = {key: record_of({"v": np.ones(2, np.float32)}) for key in sent[1:]}
    reply = answering(*replied)(message_under(sent[0], "config", **more), context_of(tmp_path))
    types = {key: reply.content[key]["w"].dtype for key in replied}
    assert types == {key: "int8" if key == coded else "float32" for key in replied}
    said = ParticipationReply.read(reply.content["aoi"])
    assert (said.compression, said.scales) == (("int8", (pytest.approx(0.01),)) if coded else (None, ()))
    assert {"metrics", "more"} <= set(reply.content)


def test_data_ages_reach_the_only_configuration_or_the_customary_one(tmp_path):
    app = answering("arrays", source=Mislabelled(np.arange(3), first_age=4))
    app(message_under("arrays", "settings"), context_of(tmp_path))
    assert app.configs == [{"settings": {"server-round": 1, "data-age": 5}}]
    for keys, found in (("", "config"), ("ab", "config"), (("b", "config"), "config"), ("a", "a")):
        assert config_key(RecordDict({key: ConfigRecord() for key in ("aoi", *keys)})) == found


# Durable residuals


def learn(array, client, round_):
    return (array + np.random.default_rng([round_, client]).standard_normal(array.shape)).astype(array.dtype)


app = ToyApp(learn)


def update(folder, round_):
    terms, config = ParticipationRequest("r", round_, compression="int8"), ConfigRecord({"server-round": round_})
    reply = app(request("train", terms, arrays=record_of(MODEL), config=config), context_of(folder))
    return {k: a.numpy() for k, a in reply.content["arrays"].items()}, tuple(reply.content["aoi"]["scales"])


def same(one, other):
    return one[1] == other[1] and all(one[0][k].tobytes() == other[0][k].tobytes() for k in MODEL)


def test_a_repeated_message_gets_the_same_answer(tmp_path):
    said = {}
    for round_ in (1, 2, 5, 6):
        said[round_] = update(tmp_path / "a", round_)
        assert same(update(tmp_path / "a", round_), said[round_])
        assert same(update(tmp_path / "b", round_), said[round_])
    update(tmp_path / "a", 3)  # a message that comes late changes nothing
    assert same(update(tmp_path / "a", 6), said[6])
    assert same(update(tmp_path / "a", 7), update(tmp_path / "b", 7))
    plain = update(tmp_path / "fresh", 7)
    assert not same(update(tmp_path / "a", 7), plain)  # the residual tells


@pytest.mark.parametrize("how", ["removed", "one bit", "no arrays", "another model's"])
def test_a_lost_residual_counts_as_zero(how, tmp_path, caplog):
    update(tmp_path, 1)
    path = tmp_path / "r/clients/client-2.residuals/1.npz"
    good = path.read_bytes()
    match how:
        case "removed":
            shutil.rmtree(path.parent)
        case "one bit":
            path.write_bytes(good[:99] + bytes([good[99] ^ 4]) + good[100:])
        case "no arrays":
            path.write_bytes(b"PK\x05\x06" + bytes(18))
        case _:
            np.savez(path, w=np.ones(4, np.float32), b=np.ones(2, np.float32))
    assert same(update(tmp_path, 2), update(tmp_path / "fresh", 2))
    assert ("cannot be read" in caplog.text) == (how == "one bit")


def test_files_written_together_are_found_together(tmp_path):
    one = [update(tmp_path / "alone", t) for t in (1, 2, 3)]
    with written_together() as write:
        assert same(update(tmp_path / "a", 1), one[0])
        assert not list(tmp_path.glob("a/**/*.npz")) and not list(tmp_path.glob("a/**/*.json"))
        assert same(update(tmp_path / "a", 1), one[0])
        write()
        assert same(update(tmp_path / "a", 2), one[1])
        assert same(update(tmp_path / "a", 3), one[2])  # also where nothing has settled in between
    assert not list(tmp_path.glob("a/**/*.tmp"))
    assert same(update(tmp_path / "a", 2), one[1])  # rounds 2 and 3 are played again
    assert same(update(tmp_path / "a", 3), one[2])


KILLED = """
import os, signal, sys
from tests.client.test_compression import update

def watch(event, arguments):  # the interpreter tells of every rename
    if event == "os.rename" and arguments[1].endswith(point):
        os.kill(os.getpid(), signal.SIGKILL)

update(folder, 1)
update(folder, 2)
sys.addaudithook(watch)
update(folder, 3)
"""


@pytest.mark.parametrize("point", ["3.npz", "client-2.json"])
def test_kill_9_around_the_two_writes_repeats_the_round(point, tmp_path):
    process = FORK.Process(target=exec, args=(KILLED, {"folder": tmp_path / "cut", "point": point}))
    process.start()
    process.join()
    assert process.exitcode == -9
    state = json.loads((tmp_path / "cut/r/clients/client-2.json").read_text())
    assert state["age"]["last"] == 2
    assert (tmp_path / "cut/r/clients/client-2.residuals/3.npz").exists() == (point == "client-2.json")
    whole = [update(tmp_path / "whole", t) for t in (1, 2, 3, 4)]
    assert same(update(tmp_path / "cut", 3), whole[2])
    assert same(update(tmp_path / "cut", 4), whole[3])
    assert not list((tmp_path / "cut").rglob("*.tmp"))
