"""How a run comes by its clients: too few, dead though connected, coming back, dying again and again."""

import time
from functools import partial

import flwr.clientapp
import pytest
from flwr.app import Error, Message

from aoi_fl.flower.errors import NODE_UNAVAILABLE
from aoi_fl.science.errors import NodesError
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection
from tests.fakes import (
    HUNG,
    ScriptedGrid,
    everyone,
    expected,
    honest_app,
    hostile_app,
    play,
    raises,
    same_model,
)


def test_too_few_nodes_by_the_deadline(tmp_path):
    with pytest.raises(NodesError) as error:
        play(everyone, honest_app(), tmp_path, nodes=3)
    assert "3 clients are connected" in str(error.value) and "num-supernodes=4" in str(error.value)


def test_plain_flower_clients_end_the_run_with_a_reason(tmp_path):
    begun = time.monotonic()
    with pytest.raises(NodesError, match=r"4 node.s. are connected, and none .* ClientApp is Flower's own"):
        play(everyone, flwr.clientapp.ClientApp(), tmp_path, join_timeout=30)
    assert time.monotonic() - begun < 20


def test_a_silent_client_is_not_given_up_before_the_deadline(tmp_path):
    deaf = partial(ScriptedGrid, script=lambda kind, round_, client: HUNG if client == 3 else 0)
    app = hostile_app(raises(OSError("no configuration")), kinds=("query.hello",), whom=range(3))
    with pytest.raises(NodesError, match="4 clients are connected, and none has answered"):
        play(everyone, app, tmp_path, grid=deaf, ask_timeout=0.2)


class Restarting(LocalGrid):
    """The last of its nodes die so many times before they answer, unnoticed until they are asked."""

    mortals = 2
    deaths = 1
    away = 3  # looks at the list of nodes that a death takes

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._mortal = dict.fromkeys(list(self._contexts)[-self.mortals :], self.deaths)
        self._looks = 0

    def get_node_ids(self):
        self._looks = max(0, self._looks - 1)
        return [i for i in self._contexts if not (self._looks and i in self._mortal)]

    def _deliver(self, message):
        node = message.metadata.dst_node_id
        if not self._mortal.get(node):
            return super()._deliver(message)
        self._mortal[node] -= 1
        self._looks = self.away
        reply = Message(Error(NODE_UNAVAILABLE, "gone"), reply_to=message)
        self._sign(reply)
        return reply


def test_round_1_waits_for_connected_but_dead_clients(tmp_path, caplog):
    notes = play(everyone, honest_app(), tmp_path, grid=Restarting, join_timeout=30)
    assert notes.column("trained") == [4, 4]
    assert [(c.client, c.since) for c in notes.clients] == [(i, 1) for i in range(4)]
    same_model(notes.result.arrays, expected(range(4), 2))
    assert "begins with" not in caplog.text


def test_a_client_that_dies_often_delays_no_other(tmp_path, caplog):
    class Flapping(Restarting):
        deaths = 10**9

    notes = play(partial(RandomSelection, 2), honest_app(), tmp_path, grid=Flapping, min_clients=4, join_timeout=30)
    assert notes.column("trained") == [2, 2]
    assert "Round 1 begins with 2 of 4 clients" in caplog.text
