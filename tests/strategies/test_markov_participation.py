"""The decentralised policy and the central ones as they are played: against the simulator, and by wire mode."""

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.science import draws
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import OldestAgeSelector, Population, ProportionalSelector, RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation, OldestAge, ProportionalSelection, RandomSelection
from tests import fakes
from tests.fakes import ScriptedGrid, ToyApp, sines, zeros

N, ROUNDS = 12, 25
POLICY = MarkovPolicy.increasing(N, 4, 5)  # the optimal one would be periodic here: 4 divides 12
WIRES = ("poll", "broadcast", "reserve")


def disturbed(spoil=lambda kind, round_, client: None) -> ToyApp:
    """Return an app whose clients can be made to fail: ``spoil(kind, round, client)`` raises, or changes the answer."""

    def behave(message, act, *about):
        changed, reply = spoil(*about), act()
        if changed is not None:
            reply.content["aoi"] = ConfigRecord({**reply.content["aoi"], **changed})
        return reply

    def size(client):
        return 10 + client

    return ToyApp(sines, examples=size, declares=lambda client: {"num-examples": size(client)}, spoil=behave)


def play(make, folder, seed, app=None, rounds=ROUNDS, nodes=N, grid=ScriptedGrid, **options):
    options |= {"start": zeros(5), "seed": seed, "grid": grid}
    notes, result, _ = fakes.play(make, app or disturbed(), folder, rounds, nodes, **options)
    return notes, result.arrays["w"].numpy()


def markov(wire, policy=None):
    return lambda **settings: MarkovParticipation(policy or POLICY, coordination=wire, **settings)


def predicted(policy, seed, rounds=ROUNDS) -> list[list[int]]:
    population = Population(np.zeros(N, np.int64), np.arange(10, 10 + N), np.ones(N, bool))
    history = simulate(policy, population, rounds, seed)
    return [history.selection(t).clients.tolist() for t in range(1, rounds + 1)]


@pytest.fixture(scope="module")
def seed():
    """Return a seed under which no round is empty, so that nobody is forced."""
    return next(s for s in range(1000) if all(predicted(POLICY, s)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory, seed):
    return {wire: play(markov(wire), tmp_path_factory.mktemp(wire), seed) for wire in WIRES}


def test_the_simulator_predicts_the_federation(runs, seed):
    history = predicted(POLICY, seed)
    assert runs["poll"][0].trained() == history
    assert runs["broadcast"][0].trained() == history
    assert runs["reserve"][0].trained() != history  # the same law from other draws
    assert (runs["poll"][1].tobytes(), runs["poll"][1].any()) == (runs["broadcast"][1].tobytes(), True)


@pytest.mark.parametrize(
    ("strategy", "selector"),
    [(RandomSelection, RandomSelector), (ProportionalSelection, ProportionalSelector), (OldestAge, OldestAgeSelector)],
)
def test_the_simulator_predicts_the_central_policies(strategy, selector, tmp_path):
    notes, _ = play(lambda **settings: strategy(4, **settings), tmp_path, 5)
    assert notes.trained() == predicted(selector(4, 5), 5)


def test_reserve_asks_once_and_then_only_trains_who_announced_it(runs):
    announced: dict[int, int] = {}
    for record in runs["reserve"][0].rounds:
        if record.round == 1:
            assert record.asked == N and record.declined == N - record.trained
        else:
            assert (record.asked, record.declined, record.messages) == (0, 0, 2 * record.trained)
        now = {p.client for p in record.participations}
        due = {client for client, round_ in announced.items() if round_ == record.round}
        assert due <= now and all(p.next_round > record.round for p in record.participations)
        assert all(announced.get(client, record.round) == record.round for client in now)
        announced |= {p.client: p.next_round for p in record.participations}


# Empty rounds and the forced client --------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_round_forces_one_client_and_records_it(wire, tmp_path):
    lonely = MarkovPolicy.optimal(3, 1, 0)  # everyone with probability 1/3: a round in three is empty
    notes, _ = play(markov(wire, lonely), tmp_path, 2, rounds=30, nodes=3)
    forced = [r for r in notes.rounds if r.forced]
    assert 3 <= len(forced) <= 20
    for record in notes.rounds:
        assert [p.forced for p in record.participations] == [record.forced] * record.trained
        assert not record.empty and record.trained >= 1
    for record in forced:
        (part,) = record.participations
        assert (record.willing, record.trained) == (0, 1)
        assert part.client == np.argmin(draws.uniforms(2, record.round, "forced", 3))
    ages = {}
    for record in notes.rounds:  # being forced resets the age like any other participation
        for part in record.participations:
            assert part.age == record.round - ages.get(part.client, record.round - part.age - 1) - 1
            ages[part.client] = record.round


# Clients that do not answer as they should -------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["poll", "reserve"])
@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (OSError("no power"), "failed", "no power"),
        ({"takes-part": "perhaps"}, "refused", "takes-part"),
        ({"name": "client-3"}, "refused", "client-3"),
    ],
)
def test_a_bad_answer_costs_the_others_nothing(wire, answer, outcome, words, tmp_path, seed, runs):
    def spoil(kind, round_, partition):
        if kind != "query.participate" or partition != 2:
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    notes, _ = play(markov(wire), tmp_path, seed, app=disturbed(spoil), rounds=8)
    for record, selection in zip(notes.rounds, runs[wire][0].trained(), strict=False):
        if record.forced:
            break
        assert notes.trained()[record.round - 1] == [c for c in selection if c != 2]
        (offender,) = [p for p in record.participations if p.outcome != "trained"]
        assert (offender.client, offender.outcome) == (2, outcome) and words in offender.reason
        assert record.asked == (N if wire == "poll" or record.round == 1 else 1)  # it has no reservation
