"""The next round's question rides on an evaluation: the same selections as without, in fewer messages."""

from functools import partial

import pytest
from flwr.app import ConfigRecord

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import MarkovParticipation
from tests import fakes
from tests.fakes import ASK, EVALUATE, TRAIN, ToyApp, unchanged, zeros

N, ROUNDS, SEED = 12, 25, 1  # a seed without an empty round


def asked_ahead(grid, round_):
    """Return the clients that an evaluation asks about the next round."""
    about = zip(grid.sent, grid.records, strict=True)
    return {c for (kind, r, c), record in about if (kind, r) == (EVALUATE, round_) and record.get("ahead")}


def play(folder, evaluate_clients, spoil, rounds=ROUNDS, policy=None, **settings):
    """Run rounds; ``spoil(kind, round, client, reply)`` may raise or change the reply."""

    def behave(message, act, *about):
        reply = act()
        spoil(*about, reply)
        return reply

    make = partial(MarkovParticipation, policy or MarkovPolicy.increasing(N, 4, 5), coordination="poll", **settings)
    how = {"start": zeros(3), "seed": SEED, "evaluate_clients": evaluate_clients}
    app = ToyApp(unchanged, evaluates=1.0, spoil=behave)
    notes, *_ = fakes.play(make, app, folder, rounds, N, **how)
    return notes, notes.grid


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_run_with_riding_questions_is_the_run_without(adaptive, tmp_path):
    """Clients are lost on the way, so that the adaptive policy issues table after table."""

    def spoil(kind, round_, client, reply):
        if (kind == TRAIN and (round_ + client) % 3 == 0) or (kind, client) == (EVALUATE, 2):
            raise OSError("no power")

    settings = {"policy": MarkovPolicy.optimal(N, 5, 4), "compensate": "dropout" if adaptive else "none"}
    plain, asked = play(tmp_path / "plain", 0, spoil, **settings)
    riding, grid = play(tmp_path / "riding", 7, spoil, **settings)
    tables = {
        tuple(record.get("table", ())) for sent, record in zip(asked.sent, asked.records, strict=True) if sent[0] == ASK
    }
    assert len(tables) > 5 if adaptive else len(tables) == 1
    counts = [[(r.willing, r.asked, r.declined, r.forced, r.dropout) for r in run.rounds] for run in (plain, riding)]
    assert counts[0] == counts[1] and plain.trained() == riding.trained()
    assert sum(len(asked_ahead(grid, t)) for t in range(1, ROUNDS)) > 3 * ROUNDS
    for t in range(1, ROUNDS):
        lost = {p.client for p in riding.rounds[t - 1].participations if p.outcome != "trained"}
        assert not lost & asked_ahead(grid, t)  # they may still be at work on their update
        answered = asked_ahead(grid, t) - {2}
        assert set(grid.whom(ASK, t + 1)) == set(range(N)) - answered  # a client that failed is asked by itself


@pytest.mark.parametrize("change", [{"name": "client-3"}, {"takes-part": "perhaps"}, {"age": -1}, None], ids=str)
def test_an_unusable_early_answer_is_asked_again(change, tmp_path, caplog):
    def spoil(kind, round_, client, reply):
        if (kind, client) == (EVALUATE, 5) and "aoi" in reply.content:
            if change is None:
                del reply.content["aoi"]
            else:
                reply.content["aoi"] = ConfigRecord({**reply.content["aoi"], **change})

    plain, _ = play(tmp_path / "plain", 0, spoil, 6)
    riding, grid = play(tmp_path / "spoilt", N, spoil, 6)
    assert riding.trained() == plain.trained()
    assert all(grid.whom(ASK, t) == [5] for t in range(2, 7))
    assert all(r.dropped == 0 and r.client_loss == 1.0 for r in riding.rounds)  # its metrics are as good as any
    assert ("will ask client 5 again" in caplog.text) == (change is not None)


def test_an_answer_to_no_question_counts_for_nothing(tmp_path):
    def spoil(kind, round_, client, reply):
        if (kind, client) == (TRAIN, 5):
            raise OSError("no power")
        if (kind, client) == (EVALUATE, 5):
            reply.content["aoi"] = ConfigRecord({"name": "client-5", "takes-part": True, "age": 3})

    plain, _ = play(tmp_path / "plain", 0, spoil)
    riding, grid = play(tmp_path / "spoilt", N, spoil)
    failed = [r.round for r in riding.rounds if 5 in {p.client for p in r.participations} and r.round < ROUNDS]
    assert failed
    for t in failed:
        assert 5 not in asked_ahead(grid, t) and 5 in grid.whom(ASK, t + 1)
        assert riding.rounds[t].willing == plain.rounds[t].willing
