"""The client half: what one client answers, whoever asks, however often."""

from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message

from aoi_fl import protocol
from aoi_fl.client.identity import identity
from aoi_fl.client.state import StateFile
from aoi_fl.flower.messages import context
from aoi_fl.protocol import Introduction, ParticipationReply, ParticipationRequest
from aoi_fl.science.draws import number_of
from aoi_fl.science.markov import MarkovPolicy
from tests.fakes import Counting
from tests.fakes import request as message_of
from tests.processes import python
from tests.refusals import refused

TABLE = MarkovPolicy.optimal(10, 3, 5).probabilities


def context_of(folder: Path, partition: int | None = 2, **node) -> Context:
    where = {} if partition is None else {"partition-id": partition}
    return context(1, 99, {"runs-dir": str(folder), "seed": 11}, where | node)


def trains() -> Message:
    return dict(arrays=ArrayRecord({}), config=ConfigRecord({}))


@pytest.fixture
def app():
    return Counting()


def ask(app, context, kind: str, terms: ParticipationRequest) -> ParticipationReply:
    reply = app(message_of(kind, terms, **(trains() if kind == "train" else {})), context)
    return ParticipationReply.read(reply.content["aoi"])


def last(context, run="r") -> int | None:
    who = identity(context, run)
    clock = StateFile(who.state_dir, who.name).load(0).age
    return None if clock is None else clock.last


def test_hello_says_who_it_is(app, tmp_path):
    context = context_of(tmp_path, payment=3, sensitivity=0.5)
    reply = app(message_of("query.hello", ParticipationRequest("r", 1)), context)
    said = Introduction.read(reply.content["aoi"])
    assert (said.name, said.number, said.payment, said.sensitivity) == ("client-2", 2, 3.0, 0.5)
    assert (said.num_examples, said.last_round) == (None, None)
    assert not (tmp_path / "r").exists()  # a roll call changes nothing

    @app.introduce()
    def introduce(context, ask):
        return {"num-examples": 77, "colour": "red"}

    ask(app, context, "train", ParticipationRequest("r", 1))
    said = Introduction.read(app(message_of("query.hello", ParticipationRequest("r", 5)), context).content["aoi"])
    assert (said.num_examples, said.payment, said.last_round) == (77, None, 1)
    named = identity(context_of(tmp_path, partition=None, name="pi-3"), "r")
    assert (named.name, named.partition, named.number) == ("pi-3", None, number_of("pi-3"))


@pytest.mark.parametrize("wire", protocol.WIRES)
def test_a_reused_run_name_finds_fresh_client_states(app, tmp_path, wire):
    before, new, anew = (
        context_of(tmp_path),
        ParticipationRequest("r", 1, wire, TABLE, token="b"),
        context_of(tmp_path / "new"),
    )
    ask(app, before, "train", ParticipationRequest("r", 197, wire, TABLE, forced=True, token="a"))
    assert Introduction.read(app(message_of("query.hello", new), before).content["aoi"]).last_round is None
    for round_ in range(1, 20):
        terms = replace(new, round=round_)
        found = [ask(app, context, "query.participate", terms) for context in (before, anew)]
        assert found[0] == found[1]
        if found[0].takes_part:
            assert ask(app, before, "train", terms) == ask(app, anew, "train", terms)
    assert 1 <= last(before) == last(anew) < 20


def test_a_run_without_a_token_keeps_the_client_state(app, tmp_path):
    context = context_of(tmp_path)
    ask(app, context, "train", ParticipationRequest("r", 3, token="a"))
    assert ask(app, context, "train", ParticipationRequest("r", 6)).age == 2 and last(context) == 6
    ask(app, context, "train", ParticipationRequest("r", 7, token="a"))
    assert last(context) == 7


@pytest.mark.parametrize(
    ("node", "run", "fields"),
    [
        ({}, "r", ("name", None)),
        ({"name": "../etc"}, "r", ("client name", "../etc")),
        ({"name": "a\n"}, "r", ("client name", "a\n")),
        ({"name": "a"}, "../r", ("run name", "../r")),
    ],
)
def test_a_client_without_a_usable_name_says_so(app, tmp_path, node, run, fields):
    with refused(*fields):
        app(message_of("query.hello", ParticipationRequest(run, 1)), context_of(tmp_path, partition=None, **node))


ASK = """
import sys
from pathlib import Path
import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from aoi_fl.learning.client_app import app
from aoi_fl.flower.messages import identify, send
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.learning.partition import write_index
identify()
HEAVY = {"torch", "torchvision", "sklearn", "ray", "scipy", "datasets", "flwr_datasets", "matplotlib", "plotly",
         "aoi_fl.server", "aoi_fl.strategies", "pandas"}
assert not HEAVY & set(sys.modules), HEAVY & set(sys.modules)
folder = Path(sys.argv[1])
write_index(folder / "r" / "partition.npy", [np.arange(4), np.arange(4, 9)])
config = {"runs-dir": str(folder), "seed": 1, "dataset": "digits"}
context = Context(run_id=1, node_id=9, node_config={"partition-id": 1}, state=RecordDict(), run_config=config)
requests = {"hello": ParticipationRequest("r", 1), "participate": ParticipationRequest("r", 1, "poll", (0.5,))}
for kind, terms in requests.items():
    message = Message(RecordDict({"aoi": ConfigRecord(terms.write())}), 9, f"query.{kind}")
    send(message, "m")
    print(dict(app(message, context).content["aoi"]))
assert not HEAVY & set(sys.modules), HEAVY & set(sys.modules)
"""


def test_the_ask_path_imports_nothing_heavy(tmp_path):
    hello, answer = python("-c", ASK, str(tmp_path)).stdout.splitlines()
    assert "'num-examples': 5" in hello and "'takes-part'" in answer
