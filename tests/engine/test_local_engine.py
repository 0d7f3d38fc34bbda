"""The in-process engine is a Flower grid: the same messages, errors and independence, without the processes."""

import time

import pytest
from flwr.app import Array, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.engine.local_run import run_local
from tests.fakes import zeros


@pytest.fixture
def app():
    app = ClientApp()

    @app.query("who")
    def who(message, context):
        seen = {"partition": context.node_config["partition-id"], "of": context.node_config["num-partitions"]}
        calls = context.state.get("calls", ConfigRecord({"n": 0}))
        context.state["calls"] = ConfigRecord({"n": calls["n"] + 1})
        record = ConfigRecord({**seen, "word": context.run_config["word"], "calls": calls["n"] + 1})
        return Message(RecordDict({"said": record}), reply_to=message)

    @app.train()
    def train(message, context):
        context.state.setdefault("mine", MetricRecord({"n": 1, "each": [1, 2]}))
        message.content["arrays"]["w"] = Array(message.content["arrays"]["w"].numpy() + 1)
        message.content["config"]["steps"].append(3)
        message.content["notes"] = MetricRecord({"n": 1})
        content = {"arrays": message.content["arrays"], "mine": context.state["mine"]}
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        raise {"error": ValueError("no power"), "exit": SystemExit(3)}[message.content["config"]["how"]]

    return app


@pytest.fixture
def grid(app):
    return LocalGrid(app, {"word": "hello"}, 5)


def messages(grid, kind="query.who", **records):
    content = RecordDict(records)
    return [Message(content, node, kind) for node in grid.get_node_ids()]


def test_every_node_has_its_own_context(grid):
    assert isinstance(grid, Grid)
    for calls in (1, 2):
        ids = list(grid.push_messages(messages(grid)))
        assert len(set(ids)) == 5
        replies = list(grid.pull_messages(ids))
        said = [r.content["said"] for r in replies]
        assert [(s["partition"], s["of"], s["word"], s["calls"]) for s in said] == [
            (i, 5, "hello", calls) for i in range(5)
        ]
        assert [r.metadata.reply_to_message_id for r in replies] == ids
        assert [r.metadata.src_node_id for r in replies] == list(grid.get_node_ids())
        assert list(grid.pull_messages(ids)) == []  # a reply is there once


def test_node_ids_are_new_at_every_start_and_stay_apart(app):
    one, two = (list(LocalGrid(app, {}, 100).get_node_ids()) for _ in range(2))
    assert len(set(one)) == 100 and not set(one) & set(two)


def test_a_client_runs_when_its_reply_is_pulled(app):
    ran = []

    @app.query("mark")
    def mark(message, context):
        time.sleep(0.05)
        ran.append(context.node_config["partition-id"])
        return Message(RecordDict(), reply_to=message)

    grid = LocalGrid(app, {}, 20)
    ids = list(grid.push_messages(messages(grid, "query.mark")))
    assert ran == []
    list(grid.pull_messages([ids[2]]))
    assert ran == [2]
    assert list(grid.pull_messages(["unknown"])) == []
    assert 1 <= len(list(grid.send_and_receive(messages(grid, "query.mark"), timeout=0.12))) < 10
    assert len(list(grid.send_and_receive(messages(grid, "query.mark")[:3]))) == 3


def test_sender_and_receiver_share_no_record(grid):
    arrays, config = zeros(), ConfigRecord({"steps": [1, 2]})
    for _ in range(2):
        sent = messages(grid, "train", arrays=arrays, config=config)
        replies = list(grid.pull_messages(grid.push_messages(sent)))
        assert [reply.content["arrays"]["w"].numpy().tolist() for reply in replies] == [[1.0, 1.0]] * 5
        assert [dict(reply.content["mine"]) for reply in replies] == [{"n": 1, "each": [1, 2]}] * 5
        assert arrays["w"].numpy().tolist() == [0.0, 0.0] and config["steps"] == [1, 2]
        assert set(sent[0].content) == {"arrays", "config"}
        for reply in replies:
            reply.content["mine"]["n"] = 9
            reply.content["mine"]["each"].append(3)


@pytest.mark.parametrize(
    ("kind", "how", "reason"),
    [
        ("evaluate", "error", "ValueError: no power"),
        ("evaluate", "exit", "SystemExit: 3"),
        ("query.weather", "", "weather"),
    ],
)
def test_a_client_that_raises_answers_with_an_error(grid, kind, how, reason):
    replies = list(grid.pull_messages(grid.push_messages(messages(grid, kind, config=ConfigRecord({"how": how})))))
    assert len(replies) == 5 and all(r.has_error() and reason in r.error.reason for r in replies)


@pytest.mark.parametrize(
    "answer", [lambda message: None, lambda message: Message(RecordDict(), 7, "query.who"), lambda message: message]
)
def test_what_is_no_reply_is_an_error(answer):
    grid = LocalGrid(lambda message, context: answer(message), {}, 1)
    (reply,) = grid.pull_messages(grid.push_messages(messages(grid)))
    assert reply.has_error() and "something else than a reply" in reply.error.reason


def test_a_server_app_completes_and_its_errors_arrive(app):
    server = ServerApp()
    found = []

    @server.main()
    def main(grid, context):
        found.extend([len(list(grid.get_node_ids())), context.run_config["word"], context.run_id == grid.run.run_id])
        if context.run_config["word"] == "bad":
            raise KeyError("bad word")

    run_local(server, app, {"word": "good"}, nodes=4)
    assert found == [4, "good", True]
    with pytest.raises(KeyError, match="bad word"):
        run_local(server, app, {"word": "bad"}, nodes=1)
