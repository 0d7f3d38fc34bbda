"""Exchanges over a SuperLink: a reply that is still being uploaded holds up neither the others nor the deadline."""

import importlib
import threading
import time

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies.round.exchange import Exchange

GRIDS = importlib.import_module("flwr.superlink.grid")  # Flower's, over gRPC or HTTP


class Uplink(getattr(GRIDS, "GrpcGrid", None) or GRIDS.HttpGrid):
    """Flower's own grid without a SuperLink behind it: pulling the reply of a node may take until an event."""

    def __init__(self, nodes):
        super().__init__(token="none")
        self.local = LocalGrid(echo, {}, nodes)
        self.uploaded = {node: threading.Event() for node in self.local.get_node_ids()}
        self.pulls = []
        for event in self.uploaded.values():
            event.set()

    def push_messages(self, messages):
        return self.local.push_messages(messages)

    def pull_messages(self, message_ids):
        (message_id,) = message_ids
        self.pulls.append(message_id)
        self.uploaded[self.local._waiting[message_id].metadata.dst_node_id].wait(60)
        return self.local.pull_messages([message_id])


def echo(message, context):
    return Message(RecordDict({"a": ConfigRecord({"n": 1})}), reply_to=message)


@pytest.fixture
def grid():
    made = Uplink(3)
    yield made
    for event in made.uploaded.values():
        event.set()


def exchange(grid, timeout, **how):
    messages = {
        client: Message(RecordDict({"a": ConfigRecord({})}), node, "query.hello", group_id="1")
        for client, node in enumerate(grid.uploaded)
    }
    return Exchange(grid, messages, timeout, **how)


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_an_endless_upload_delays_nothing(grid, sequential, ordered):
    next(iter(grid.uploaded.values())).clear()  # the first client died while it uploaded
    begun = time.monotonic()
    under_way = exchange(grid, 0.5, sequential=sequential, ordered=ordered)
    assert sorted(under_way.client_of(reply) for reply in under_way) == [1, 2]
    assert under_way.missing == {0} and time.monotonic() - begun < 30
    assert len(grid.pulls) == 3  # nothing is pulled twice


@pytest.mark.parametrize("ordered", [True, False])
def test_a_slow_upload_counts_if_it_ends_by_the_deadline(grid, ordered):
    slow = next(iter(grid.uploaded.values()))
    slow.clear()
    timer = threading.Timer(3, slow.set)
    timer.start()
    under_way = exchange(grid, 60, sequential=True, ordered=ordered)
    clients = [under_way.client_of(reply) for reply in under_way]
    assert clients == ([0, 1, 2] if ordered else [1, 2, 0]) and not under_way.missing
    timer.join()


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
    pull, liar = grid.pull_messages, next(iter(grid.uploaded))

    def decode(message_ids):
        (message_id,) = message_ids
        if grid.local._waiting[message_id].metadata.dst_node_id == liar:
            raise error
        return pull(message_ids)

    grid.pull_messages = decode
    grid.set_run(grid.local.run)
    under_way = exchange(grid, 30, sequential=sequential)
    assert {under_way.client_of(r): r.has_error() for r in under_way} == {0: True, 1: False, 2: False}


def test_a_reply_to_another_message_does_not_count(grid):
    class Twice(LocalGrid):
        def pull_messages(self, message_ids):
            replies = list(super().pull_messages(message_ids))
            return [*replies, *replies, *(r for r in replies if self.rename(r))]

        def rename(self, reply):
            reply.metadata.__dict__["_reply_to_message_id"] += "0" * (reply.metadata.src_node_id == node)
            return True

    local = Twice(echo, {}, 3)
    node = next(iter(local.get_node_ids()))
    messages = {c: Message(RecordDict(), n, "query.hello") for c, n in enumerate(local.get_node_ids())}
    under_way = Exchange(local, messages, 0.2, sequential=False)
    assert [under_way.client_of(reply) for reply in under_way] == [1, 2] and under_way.missing == {0}
