"""The device keeps its promise: a hostile server that asks a real client all the time gets one update in b rounds."""

import itertools
import math
import random

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict

from aoi_fl.client import deciding
from aoi_fl.client.identity import identity
from aoi_fl.client.promises import Device
from aoi_fl.client.state import StateFile, written_together
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.science import draws
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.bounds import bounds
from aoi_fl.science.systematic import SystematicPolicy
from tests.fakes import Counting, request

B, ROUNDS = 5, 40
TABLE = MarkovPolicy.optimal(10, 2, 9).probabilities


class Hostile:
    """A server that sends what it likes to one real client, and counts the updates that it gets."""

    def __init__(self, folder, **node):
        self.updates = []
        self.app, self.folder = Counting(), folder
        self.node = {"partition-id": 3, "state-dir": str(folder)} | node

    @property
    def file(self):
        who = identity(self.context, "r")
        return StateFile(who.state_dir, who.name)

    @property
    def context(self):
        return Context(1, 99, dict(self.node), RecordDict(), {"runs-dir": str(self.folder), "seed": 1})

    def send(self, kind, round_, **terms):
        terms = {"min_separation": B, "rounds": ROUNDS} | terms
        model = {"arrays": ArrayRecord({}), "config": ConfigRecord({})} if kind == "train" else {}
        return self.app(request(kind, ParticipationRequest("r", round_, **terms), **model), self.context)

    def train(self, round_, **terms):
        reply = self.send("train", round_, **terms)
        if got := "metrics" in reply.content:
            self.updates.append(round_)
        return got, ParticipationReply.read(reply.content["aoi"])


@pytest.fixture
def server(tmp_path):
    hostile = Hostile(tmp_path)
    hostile.send("query.hello", 1)
    return hostile


@pytest.mark.parametrize("lie", range(5))
def test_a_lying_server_gets_at_most_k_updates(server, lie):
    rng = random.Random(lie)
    claims = [rng.randint(-3, 3 * ROUNDS) for _ in range(300)] + list(range(ROUNDS, 0, -1)) * 2
    for round_ in claims:
        server.train(round_, forced=rng.random() < 0.5)
    assert len(server.updates) <= math.ceil(ROUNDS / B)
    assert all(after - before >= B for before, after in itertools.pairwise(server.updates))
    assert max(server.updates) <= ROUNDS


def test_the_promise_keeps_the_least_noise_that_was_announced(server, tmp_path):
    for round_, terms in enumerate([{}, {"mu": 0.2, "delta": 1e-5}, {"mu": 0.1}, {"delta": 1e-3}, {}], 1):
        server.train(round_, **terms)
    promise = Device(tmp_path, "client-3", durable=True).load().runs["r"]
    assert (promise.mu, promise.delta, promise.separation) == (0.2, 1e-5, B)


def test_a_client_that_lost_its_state_refuses_for_b_rounds(server, tmp_path):
    assert server.train(8)[0]
    server.file.path.unlink()
    blank = Hostile(tmp_path)
    assert [round_ for round_ in range(9, 9 + 2 * B) if blank.train(round_)[0]] == [8 + B, 8 + 2 * B]


def test_a_client_that_follows_its_own_law_is_never_refused(server):
    answers = [server.train(round_, wire="poll", table=TABLE)[1] for round_ in range(1, ROUNDS + 1)]
    assert all(answer.rule is None for answer in answers)
    assert len(server.updates) == ROUNDS // B


def test_the_owners_rule_holds_without_the_servers_terms(tmp_path):
    owned = Hostile(tmp_path, **{"min-separation": 3})
    got = [round_ for round_ in range(1, 10) if owned.train(round_, min_separation=None, rounds=None)[0]]
    assert got == [1, 4, 7]
    strict = Hostile(tmp_path / "other", **{"min-separation": 8})
    assert [round_ for round_ in range(1, 20) if strict.train(round_)[0]] == [1, 9, 17]


def paths():
    """Yield a function that chooses from a sequence, once for each sequence of choices, in depth-first order."""
    taken, widths = [], []
    while True:
        at = itertools.count()

        def choose(options, at=at):
            if (i := next(at)) == len(taken):
                taken.append(0)
                widths.append(len(options))
            return options[taken[i]]

        yield choose
        while taken and taken[-1] + 1 == widths[-1]:
            taken.pop()
            widths.pop()
        if not taken:
            return
        taken[-1] += 1


LAW = MarkovPolicy.optimal(5, 2, 4)  # p = 0, 1/2, 1
PHASES = [0.0, 0.2, 0.4, 0.6, 0.8]
# Uniform numbers with every outcome: the ages 0, 1 and 2 of a newcomer, both sides of a coin, no delay and the longest.
OUTCOMES = {"first-age": [0.1, 0.5, 0.9]}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("jitter", "wire", "separation", "rounds"),
    [
        (None, "poll", None, 5),
        (None, "reserve", 2, 5),
        (0.0, "poll", 2, 4),
        (0.0, "reserve", None, 4),
        (0.4, "poll", None, 3),
        (0.4, "reserve", 2, 4),
    ],
)
def test_a_resume_keeps_b_and_k_on_every_path(tmp_path, monkeypatch, jitter, wire, separation, rounds):
    if jitter is None:
        law, own = LAW, {"table": LAW.probabilities}
    else:
        law, own = SystematicPolicy(np.full(5, 0.4), np.array(PHASES), jitter), {"rate": 0.4, "jitter": jitter}
    least, most = math.inf, 0
    with written_together():
        for number, choose in enumerate(paths()):
            drawn = {}

            def draw(seed, round_, purpose, client, choose=choose, drawn=drawn):
                if (round_, purpose) not in drawn:
                    drawn[round_, purpose] = choose(OUTCOMES.get(purpose, [0.0, 0.999999]))
                return drawn[round_, purpose]

            monkeypatch.setattr(deciding, "uniform", draw)
            monkeypatch.setattr(draws, "uniform", draw)
            terms = own if jitter is None else own | {"phase": choose(PHASES)}
            terms |= {"wire": wire, "min_separation": separation, "rounds": separation and rounds}
            broken, undone = choose(range(rounds + 1)), choose([False, True])
            client = Hostile(tmp_path, **{"partition-id": number})
            client.send("query.hello", 1, **terms)
            for round_ in range(1, rounds + 1):
                before = client.file.load(1)
                trained, _ = client.train(round_, **terms)
                if round_ == broken:  # what came of it is lost, and it is played again
                    if undone:
                        client.file.save(before)
                    again = client.train(round_, **terms)[0]
                    assert again == (trained and separation is None)  # the promise is not in the state that came back
            updates = sorted(set(client.updates))
            least = min([least, *(b - a for a, b in itertools.pairwise(updates))])
            most = max(most, len(updates))
    found, promised = bounds(law, rounds), separation or 1
    assert least == max(found.min_separation, promised)
    assert most == min(found.max_participations, -(-rounds // promised))
