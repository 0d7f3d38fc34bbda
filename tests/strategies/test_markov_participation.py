"""Policies against the simulator, and how clients that decide are asked, forced and dropped by coordination."""

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.science import draws
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import OldestAgeSelector, Population, ProportionalSelector, RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation, OldestAge, ProportionalSelection, RandomSelection
from tests import fakes
from tests.fakes import ASK, ToyApp, sines, zeros

N, ROUNDS = 12, 25
POLICY = MarkovPolicy.increasing(N, 4, 5)  # the optimal one would be periodic here: 4 divides 12
WIRES = ("poll", "broadcast", "reserve")


def size(client):
    return 10 + client


def play(make, folder, seed, rounds=ROUNDS, nodes=N, spoil=None):
    app = ToyApp(sines, examples=size, declares=lambda client: {"num-examples": size(client)}, spoil=spoil)
    notes, result, _ = fakes.play(make, app, folder, rounds, nodes, start=zeros(5), seed=seed)
    return notes, result.arrays["w"].numpy()


def markov(wire, policy=POLICY):
    return lambda **settings: MarkovParticipation(policy, coordination=wire, **settings)


def predicted(policy, seed, rounds=ROUNDS):
    population = Population(np.zeros(N, np.int64), size(np.arange(N)), np.ones(N, bool))
    history = simulate(policy, population, rounds, seed)
    return [history.selection(t).clients.tolist() for t in range(1, rounds + 1)]


@pytest.fixture(scope="module")
def seed():
    """Return a seed under which no round is empty, so that no client is forced."""
    return next(s for s in range(1000) if all(predicted(POLICY, s)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory, seed):
    return {wire: play(markov(wire), tmp_path_factory.mktemp(wire), seed) for wire in WIRES}


def test_the_simulator_predicts_the_federation(runs, seed):
    history = predicted(POLICY, seed)
    assert runs["poll"][0].trained() == runs["broadcast"][0].trained() == history
    assert runs["reserve"][0].trained() != history  # the same law from other draws
    assert (runs["poll"][1].tobytes(), runs["poll"][1].any()) == (runs["broadcast"][1].tobytes(), True)


@pytest.mark.parametrize(
    ("strategy", "selector"),
    [(RandomSelection, RandomSelector), (ProportionalSelection, ProportionalSelector), (OldestAge, OldestAgeSelector)],
)
def test_the_simulator_predicts_the_central_policies(strategy, selector, tmp_path):
    notes, _ = play(lambda **settings: strategy(4, **settings), tmp_path, 5)
    assert notes.trained() == predicted(selector(4, 5), 5)


def test_reserve_asks_once_and_trains_as_announced(runs):
    announced = {}
    first, *others = runs["reserve"][0].rounds
    assert (first.asked, first.declined) == (N, N - first.trained)
    for record in others:
        assert (record.asked, record.declined, record.messages) == (0, 0, 2 * record.trained)
        due = {client for client, round_ in announced.items() if round_ == record.round}
        trained = {p.client for p in record.participations}
        assert due <= trained and all(announced.get(client, record.round) == record.round for client in trained)
        announced |= {p.client: p.next_round for p in record.participations}


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_round_forces_one_client_and_records_it(wire, tmp_path):
    lonely = MarkovPolicy.optimal(3, 1, 0)  # each with probability 1/3: a round in three is empty
    notes, _ = play(markov(wire, lonely), tmp_path, 2, rounds=30, nodes=3)
    assert 3 <= sum(record.forced for record in notes.rounds) <= 20
    last = {}
    for record in notes.rounds:
        assert [p.forced for p in record.participations] == [record.forced] * record.trained
        assert not record.empty and record.trained >= 1
        if record.forced:
            (part,) = record.participations
            assert record.willing == 0 and part.client == np.argmin(draws.uniforms(2, record.round, "forced", 3))
        for part in record.participations:  # being forced resets the age like any other participation
            assert part.age == record.round - last.get(part.client, record.round - part.age - 1) - 1
            last[part.client] = record.round


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (OSError("no power"), "failed", "no power"),
        ({"takes-part": "perhaps"}, "refused", "takes-part"),
        ({"name": "client-3"}, "refused", "client-3"),
    ],
)
def test_a_bad_answer_costs_the_others_nothing(answer, outcome, words, tmp_path, seed, runs):
    def spoil(message, act, kind, round_, client):
        reply = act()
        if (kind, client) == (ASK, 2):
            if isinstance(answer, Exception):
                raise answer
            reply.content["aoi"] = ConfigRecord({**reply.content["aoi"], **answer})
        return reply

    notes, _ = play(markov("poll"), tmp_path, seed, rounds=8, spoil=spoil)
    until = next((record.round for record in notes.rounds if record.forced), 9) - 1
    assert until > 2
    usual = runs["poll"][0].trained()[:until]
    assert notes.trained()[:until] == [[c for c in clients if c != 2] for clients in usual]
    for record in notes.rounds[:until]:
        (offender,) = [p for p in record.participations if p.outcome != "trained"]
        assert (offender.client, offender.outcome) == (2, outcome) and words in offender.reason
