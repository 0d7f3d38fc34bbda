"""The decentralised policy and the central ones as they are played: against the simulator, and by wire mode."""

from functools import partial

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.science import draws
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import OldestAgeSelector, Population, ProportionalSelector, RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation, OldestAge, ProportionalSelection, RandomSelection
from tests import fakes
from tests.fakes import ASK, HUNG, ScriptedGrid, ToyApp, sines, zeros

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


@pytest.mark.parametrize("wire", WIRES)
def test_ages_are_those_of_the_history_and_weights_are_equal(wire, runs):
    last: dict[int, int] = {}
    for record in runs[wire][0].rounds:
        assert (record.willing, record.dropped, record.forced, record.empty) == (record.trained, 0, False, False)
        for part in record.participations:
            assert part.weight == pytest.approx(1 / record.trained) and not part.forced
            if part.client in last:
                assert part.age == record.round - last[part.client] - 1
            last[part.client] = record.round
    assert len(last) == N


def test_poll_asks_everyone_and_trains_the_willing(runs):
    for record in runs["poll"][0].rounds:
        assert (record.asked, record.declined) == (N, N - record.trained)
        assert record.messages == 2 * (N + record.trained) + 2 * N * (record.round == 1)


def test_broadcast_sends_the_model_to_all_and_takes_declines(runs):
    for record in runs["broadcast"][0].rounds:
        assert (record.asked, record.declined) == (N, N - record.trained)
        assert record.messages == 2 * N + 2 * N * (record.round == 1)


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


@pytest.mark.parametrize("wire", WIRES)
def test_a_forced_client_that_fails_leaves_the_round_empty(wire, tmp_path):
    def fails(kind, round_, partition):
        if kind == "train" and wire != "broadcast" and round_ > 1:
            raise OSError("no power")
        if kind == "train":
            fails.trainings += 1

    fails.trainings = 0
    lonely = MarkovPolicy.optimal(3, 1, 0)
    notes, model = play(markov(wire, lonely), tmp_path, 2, rounds=8, nodes=3, app=disturbed(fails))
    if wire == "broadcast":
        assert fails.trainings == 3 * 8 + sum(r.forced for r in notes.rounds)
        return
    later = notes.rounds[1:]
    assert all(r.empty and r.trained == 0 for r in later) and any(r.forced for r in later)
    assert all(len(r.participations) == r.dropped == max(r.willing, 1) for r in later)
    _, first = play(markov(wire, lonely), tmp_path / "first", 2, rounds=1, nodes=3)
    np.testing.assert_array_equal(model, first)


def test_a_silent_client_is_not_forced_in_the_same_round(tmp_path):
    def silent(kind, round_, partition):
        if kind == "query.participate" and (partition > 0 or round_ > 10):
            raise OSError("no power")

    lonely = MarkovPolicy.optimal(3, 1, 0)
    notes, _ = play(markov("poll", lonely), tmp_path, 2, rounds=12, nodes=3, app=disturbed(silent))
    assert any(r.forced for r in notes.rounds[:10])
    for record in notes.rounds[:10]:  # the one that answers volunteers or is forced
        assert [p.client for p in record.participations if p.outcome == "trained"] == [0]
    assert all(r.empty and not r.forced and r.dropped == 3 for r in notes.rounds[10:])


# Clients that do not answer as they should -------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["poll", "reserve"])
@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (OSError("no power"), "failed", "no power"),
        ({"takes-part": "perhaps"}, "refused", "takes-part"),
        ({"name": "client-3"}, "refused", "client-3"),
        ({"age": -3}, "refused", "age is -3"),
        ({"next-round": 10**30}, "refused", "64 bits"),
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


def test_a_client_that_missed_its_reservation_is_asked_again(tmp_path, seed, runs):
    calm, _ = runs["reserve"]
    when, who = next((r.round, r.participations[0].client) for r in calm.rounds if r.round > 3 and r.trained > 1)

    def spoil(kind, round_, partition):
        if (kind, round_, partition) == ("train", when, who):
            raise OSError("no power")

    notes, _ = play(markov("reserve"), tmp_path / "disturbed", seed, app=disturbed(spoil))
    asked = {r.round: r.asked for r in notes.rounds}
    assert asked[1] == N and asked[when + 1] == 1
    assert sum(asked.values()) == N + 1
    back = next(r.round for r in notes.rounds if r.round > when and who in notes.trained()[r.round - 1])
    missed = [p for p in notes.rounds[back - 1].participations if p.client == who]
    before = max((r.round for r in notes.rounds[: when - 1] if who in notes.trained()[r.round - 1]), default=None)
    assert before is None or missed[0].age == back - before - 1


def test_a_silent_client_is_named_and_retried_with_pauses(tmp_path, seed):
    def deaf(kind, round_, client):
        return HUNG if (kind, client) == (ASK, 0) else 0

    grid = partial(ScriptedGrid, script=deaf)
    notes, _ = play(markov("poll"), tmp_path, seed, rounds=8, grid=grid, ask_timeout=2.0)
    asked = [1, 2, 4, 8]
    for record in notes.rounds:
        late = [(p.client, p.outcome, p.reason) for p in record.participations if p.outcome != "trained"]
        assert late == [(0, "late", "no answer by the deadline")] * (record.round in asked)
        assert record.asked == N - (record.round not in asked)
    assert notes.rounds[0].seconds >= 2 and all(record.seconds < 1.5 for record in notes.rounds[1:])


def test_a_client_that_was_slow_once_takes_part_again(tmp_path, seed):
    """In reserve mode nobody else is asked: with no waiting for it at all, it would never be heard again."""

    looks: dict[str, int] = {}

    class Slow(ScriptedGrid):
        def pull_messages(self, message_ids):
            first = next(iter(self._contexts))

            def coming(i):
                metadata = self._waiting[i].metadata if i in self._waiting else None
                if not metadata or metadata.dst_node_id != first or metadata.message_type != "query.participate":
                    return False
                looks[i] = looks.get(i, 0) + 1
                newest = i == max(looks, key=int)
                return newest and (metadata.group_id == "1" or looks[i] == 1)

            return super().pull_messages([i for i in message_ids if not coming(i)])

    notes, _ = play(markov("reserve"), tmp_path, seed, grid=Slow, ask_timeout=0.5)
    late = [r.round for r in notes.rounds if any(p.outcome == "late" for p in r.participations)]
    assert late == [1, 2]  # the first answer, which came too late, is heard when the second has been asked in vain
    assert [r.asked for r in notes.rounds[1:5]] == [1, 1, 0, 0]  # and says that its sender is there: no pause
    assert any(0 in clients for clients in notes.trained())
