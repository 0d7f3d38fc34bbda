"""Exchanges over a SuperLink whose replies are not listed: what a pull raises, and replies to other messages."""

import importlib

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies.round.exchange import Exchange

GRIDS = importlib.import_module("flwr.superlink.grid")  # Flower's, over gRPC or HTTP


class Uplink(getattr(GRIDS, "GrpcGrid", None) or GRIDS.HttpGrid):
    """Flower's own grid without a SuperLink behind it."""

    def __init__(self, nodes):
        super().__init__(token="none")
        self.local = LocalGrid(echo, {}, nodes)

    def push_messages(self, messages):
        return self.local.push_messages(messages)

    def pull_messages(self, message_ids):
        (message_id,) = message_ids
        return self.local.pull_messages([message_id])


def echo(message, context):
    return Message(RecordDict({"a": ConfigRecord({"n": 1})}), reply_to=message)


@pytest.fixture
def grid():
    return Uplink(3)


def exchange(grid, timeout, **how):
    messages = {
        client: Message(RecordDict({"a": ConfigRecord({})}), node, "query.hello", group_id="1")
        for client, node in enumerate(getattr(grid, "local", grid).get_node_ids())
    }
    return Exchange(grid, messages, timeout, **how)


def test_what_the_grid_raises_is_raised(grid):
    def broken(message_ids):
        raise ConnectionError("the SuperLink is gone")

    grid.pull_messages = broken
    with pytest.raises(ConnectionError, match="the SuperLink is gone"):
        list(exchange(grid, 30, sequential=True))


UNREADABLE = [KeyError("0" * 64), RecursionError(), UnicodeError()]


@pytest.mark.parametrize("error", UNREADABLE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("sequential", [True, False])
def test_a_reply_that_cannot_be_decoded_is_lost_alone(grid, sequential, error):
    pull, liar = grid.pull_messages, next(iter(grid.local.get_node_ids()))

    def decode(message_ids):
        (message_id,) = message_ids
        if grid.local._waiting[message_id].metadata.dst_node_id == liar:
            raise error
        return pull(message_ids)

    grid.pull_messages = decode
    grid.set_run(grid.local.run)
    under_way = exchange(grid, 30, sequential=sequential)
    assert {under_way.client_of(r): r.has_error() for r in under_way} == {0: True, 1: False, 2: False}


def test_a_reply_to_another_message_does_not_count():
    grid = LocalGrid(echo, {}, 3)
    pull = grid.pull_messages

    def twice(message_ids):
        replies = list(pull(message_ids))
        for reply in replies[:1]:
            vars(reply.metadata)["_reply_to_message_id"] = "another"
        return replies * 2

    grid.pull_messages = twice
    under_way = exchange(grid, 0.2, sequential=False)
    assert [under_way.client_of(reply) for reply in under_way] == [1, 2] and under_way.missing == {0}
