"""The roll call: clients keep their numbers, whatever Flower calls their nodes, and none takes another's place."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import MetricRecord

from aoi_fl.protocol import Introduction, ParticipationRequest
from aoi_fl.protocol.clock import MACHINE
from aoi_fl.protocol.records import ClientRecord
from aoi_fl.strategies import RoundOptions
from aoi_fl.strategies.round import roll_call
from aoi_fl.strategies.round.retry import TRAINING
from aoi_fl.strategies.round.roll_call import RollCall
from aoi_fl.strategies.round.roster import Roster
from tests.fakes import HELLO, HUNG, ScriptedGrid, ToyApp, raises, with_answer, with_record


class Town(ScriptedGrid):
    """A grid whose nodes come, go and return under another id."""

    def __init__(self, app, folder, nodes, **how):
        present = lambda grid: [n for n in range(nodes) if n not in grid.away]  # noqa: E731
        super().__init__(app, {"runs-dir": str(folder)}, nodes, present=present, **how)
        self.away = set()

    def restart(self, n):
        """Give node n a new id, as Flower does when it starts without authentication."""
        context = self._contexts.pop(self.nodes[n])
        self.nodes[n] = context.node_id = max(self._contexts) + 7
        self._contexts[context.node_id] = context


def call(roll, grid, round_=1):
    grid.sent.clear()
    return roll.call(ParticipationRequest("r", round_))


def as_is(message, act):
    return act()


def town(folder, nodes, said=(), known=(), kind=Town):
    """Return a grid, a roster that expects four clients, and its roll call; ``said`` changes introductions."""
    said = dict(said)
    app = ToyApp(spoil=lambda message, act, _, __, client: said.get(client, as_is)(message, act))
    options = RoundOptions(ask_timeout=0.2)
    grid, roster = kind(app, folder, nodes), Roster(options, 4, known)
    run = SimpleNamespace(grid=grid, clock=MACHINE, options=options, roster=roster, needs=len(known), first=8)
    return grid, roster, RollCall(run)


def test_clients_get_their_announced_numbers(tmp_path):
    said = {0: with_answer(payment=2.5, sensitivity=1, **{"num-examples": 30})}
    grid, roster, roll = town(tmp_path, 4, said)
    fresh = call(roll, grid)
    assert [(r.client, r.name, r.since) for r in fresh] == [(i, f"client-{i}", 1) for i in range(4)]
    assert [roster.node(i) for i in range(4)] == grid.nodes
    roster.round = 3
    population = roster.population()
    assert population.sizes.tolist() == [30] * 4  # who says nothing counts as one of mean size
    assert population.ages.tolist() == [2] * 4 and population.available.all()
    np.testing.assert_array_equal(population.payments, [2.5, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(population.sensitivities, [1.0, np.nan, np.nan, np.nan])
    assert call(roll, grid, 2) == [] and grid.sent == []


def test_a_returning_client_is_the_same_client(tmp_path):
    grid, roster, roll = town(tmp_path, 3)
    grid.away = {2}
    call(roll, grid)
    grid.away = {1, 2}
    call(roll, grid, 2)
    assert roster.available.tolist() == [True, False]
    grid.away = set()
    grid.restart(1)
    (fresh,) = call(roll, grid, 3)
    assert sorted(grid.sent) == [(HELLO, 3, 1), (HELLO, 3, 2)]
    assert roster.node(1) == grid.nodes[1] and roster.available.all() and len(roster) == 3
    assert (fresh.client, fresh.since) == (2, 3)
    assert roster.population().ages.tolist() == [2, 2, 0]  # a newcomer has missed nothing before it came


def test_no_claim_takes_the_place_of_a_connected_client(tmp_path, caplog):
    grid, roster, roll = town(tmp_path, 3, {2: with_answer(name="client-0", number=0)})
    call(roll, grid)
    owner = roster.node(0)
    assert len(roster) == 2 and owner in (grid.nodes[0], grid.nodes[2])
    assert "claims the name 'client-0' of another connected node" in caplog.text
    call(roll, grid, 2)
    assert roster.node(0) == owner and roster.available.tolist() == [True, True]


def test_a_registered_name_goes_before_the_claimed_one(tmp_path):
    class Registry(Town):
        """Lists nodes as Flower does from 1.38 on: client 1's key has no name, client 2's none that can be one."""

        def get_nodes(self):
            names = ("pi-3", "", "line\nbreak")
            return [SimpleNamespace(node_id=i, name=name) for i, name in zip(self.nodes, names, strict=True)]

    grid, roster, roll = town(tmp_path, 3, {0: with_answer(name="client-1")}, kind=Registry)
    call(roll, grid)
    assert [(roster.name(i), roster.own_name(i)) for i in range(3)] == [
        ("pi-3", "client-1"),
        ("client-1", "client-1"),
        ("client-2", "client-2"),
    ]
    assert [roster.node(i) for i in range(3)] == grid.nodes  # the claim took nobody's place


def test_a_taken_or_too_large_number_is_replaced(tmp_path):
    said = {client: with_answer(number=number) for client, number in ((0, None), (1, 10**9), (2, 0), (3, 0))}
    grid, roster, roll = town(tmp_path, 4, said)
    assert sorted(r.client for r in call(roll, grid)) == [0, 1, 2, 3]
    assert len({roster.node(i) for i in range(4)}) == 4 and roster.node(0) == grid.nodes[2]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (raises(OSError("no power")), "no power"),
        (with_record("aoi", MetricRecord({"age": 1})), "malformed introduction"),
        (with_answer(name="client-9\nRound 1: all is well"), "printable"),
        (with_answer(number=-1), "number is -1"),
        (with_answer(**{"num-examples": 10**12}), "num-examples is 1000000000000"),
        (with_answer(payment=1.7e308), "payment is 1.7e+308, allowed are 1e-30 to 1e+30"),
        (with_answer(**{"data-age": -2}), "data-age is -2"),
    ],
)
def test_a_bad_introduction_keeps_one_client_out_and_is_named(said, words, tmp_path, caplog):
    grid, _, roll = town(tmp_path, 3, {1: said})
    assert [r.client for r in call(roll, grid)] == [0, 2]
    (complaint,) = [message for message in caplog.messages if "cannot join" in message]
    assert f"node {grid.nodes[1]}" in complaint and words in complaint and complaint.isprintable()
    assert roll.nodes.connected == 3 and roll.nodes.refused == (complaint,)
    call(roll, grid, 2)
    assert caplog.text.count("cannot join") == 1


def test_a_silent_node_is_greeted_again(tmp_path):
    shy = partial(Town, script=lambda kind, round_, client: HUNG if (round_, client) == (1, 0) else 0)
    grid, roster, roll = town(tmp_path, 2, kind=shy)
    assert [r.client for r in call(roll, grid)] == [1]
    assert roster.available.tolist() == [False, True] and roll.nodes.refused == ()
    assert [r.client for r in call(roll, grid, 2)] == [0] and roster.available.all()


def test_a_resumed_client_is_absent_until_its_hello(tmp_path, monkeypatch):
    """It is waited for as in a new run, where clients that are there are enough without the others."""
    known = [ClientRecord(i, f"client-{i}", 1) for i in range(3)]
    grid, roster, roll = town(tmp_path, 3, known=known, kind=partial(Town, takes=lambda *about: 0.1))
    monkeypatch.setattr(roll_call, "_STRANGER", 0.0)
    assert call(roll, grid, 8) == []
    assert roster.available.all()


def test_pauses_survive_a_resume_but_not_a_return(tmp_path):
    known = [ClientRecord(i, f"client-{i}", 1) for i in range(2)]
    grid, roster, roll = town(tmp_path, 2, known=known)
    for round_ in (4, 5):
        roster.patience.listen(round_, math.nan)
        roster.patience.ended(TRAINING, [0, 1])
    call(roll, grid, 6)
    assert roster.patience.resting(TRAINING) == [0, 1]
    grid.restart(0)
    call(roll, grid, 6)
    assert roster.patience.resting(TRAINING) == [1]
    grid.away = {1}
    call(roll, grid, 6)
    assert roster.patience.resting(TRAINING) == [1]
    grid.away = set()
    call(roll, grid, 6)
    assert roster.patience.resting(TRAINING) == []


@pytest.mark.parametrize(("knows", "late"), [(4, 0), (3, 0), (None, 0), (2, 2), (1, 2)])
def test_a_client_that_lost_its_state_is_named(knows, late, caplog):
    roster = Roster(RoundOptions(late_rounds=late))
    roster.admit([(1, Introduction("pi"))], {1}, 2)
    roster.last[0] = 4
    roster.admit([(3, Introduction("pi", last_round=knows))], {3}, 5)
    assert len(caplog.messages) == (knows is None or knows < 4 - late)
