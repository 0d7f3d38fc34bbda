"""Clients that decide, against the simulator, and what a bad answer costs."""

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation
from tests import fakes
from tests.fakes import ASK, ToyApp, sines, zeros

N, ROUNDS = 12, 25
POLICY = MarkovPolicy.increasing(N, 4, 5)  # the optimal one would be periodic here: 4 divides 12
WIRES = ("poll", "broadcast", "reserve")


def size(client):
    return 10 + client


def play(make, folder, seed, rounds=ROUNDS, spoil=None):
    app = ToyApp(sines, examples=size, declares=lambda client: {"num-examples": size(client)}, spoil=spoil)
    notes, result, _ = fakes.play(make, app, folder, rounds, N, start=zeros(5), seed=seed)
    return notes, result.arrays["w"].numpy()


def markov(wire):
    return lambda **settings: MarkovParticipation(POLICY, coordination=wire, **settings)


def predicted(seed):
    population = Population(np.zeros(N, np.int64), size(np.arange(N)), np.ones(N, bool))
    history = simulate(POLICY, population, ROUNDS, seed)
    return [history.selection(t).clients.tolist() for t in range(1, ROUNDS + 1)]


@pytest.fixture(scope="module")
def seed():
    """Return a seed under which no round is empty, so that no client is forced."""
    return next(s for s in range(1000) if all(predicted(s)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory, seed):
    return {wire: play(markov(wire), tmp_path_factory.mktemp(wire), seed) for wire in WIRES}


def test_the_simulator_predicts_the_federation(runs, seed):
    history = predicted(seed)
    assert runs["poll"][0].trained() == runs["broadcast"][0].trained() == history
    assert runs["reserve"][0].trained() != history  # the same law from other draws
    assert (runs["poll"][1].tobytes(), runs["poll"][1].any()) == (runs["broadcast"][1].tobytes(), True)


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
