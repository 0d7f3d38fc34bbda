"""The next round's question rides on an evaluation: the same selections as without, in fewer messages."""

from functools import partial

import pytest
from flwr.app import ConfigRecord

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import MarkovParticipation
from tests import fakes
from tests.fakes import ASK, EVALUATE, ToyApp, unchanged, zeros

N, ROUNDS, SEED = 12, 25, 1  # a seed without an empty round
POLICY = MarkovPolicy.increasing(N, 4, 5)


def asked_ahead(grid, round_):
    """Return the clients that an evaluation asks about the next round."""
    about = zip(grid.sent, grid.records, strict=True)
    return {c for (kind, r, c), record in about if (kind, r) == (EVALUATE, round_) and record.get("ahead")}


def play(folder, evaluate_clients, *, spoil=None, wire="poll", make=MarkovParticipation, rounds=ROUNDS, **settings):
    """Run rounds; ``spoil(kind, round, client, reply)`` may raise or change the reply."""

    def behave(message, act, *about):
        reply = act()
        if spoil:
            spoil(*about, reply)
        return reply

    if make is MarkovParticipation:
        settings = {"policy": POLICY, "coordination": wire} | settings
    how = {"start": zeros(3), "seed": SEED, "evaluate_clients": evaluate_clients}
    app = ToyApp(unchanged, evaluates=1.0, spoil=behave)
    notes, *_ = fakes.play(partial(make, **settings), app, folder, rounds, N, **how)
    return notes.rounds, notes.grid


def trained(rounds):
    return [sorted(p.client for p in r.participations if p.outcome == "trained") for r in rounds]


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_run_with_riding_questions_is_the_run_without(adaptive, tmp_path):
    """Clients are lost on the way, so that the adaptive policy issues table after table."""

    def spoil(kind, round_, partition, reply):
        if kind == "train" and (round_ + partition) % 3 == 0:
            raise OSError("no power")
        if kind == "evaluate" and partition == 2:
            raise OSError("no power")

    policy = MarkovPolicy.optimal(N, 5, 4)
    settings = {"spoil": spoil, "policy": policy, "compensate": "dropout" if adaptive else "none"}
    plain, asked = play(tmp_path / "plain", 0, **settings)
    riding, grid = play(tmp_path / "riding", 7, **settings)
    tables = {
        tuple(record.get("table", ())) for sent, record in zip(asked.sent, asked.records, strict=True) if sent[0] == ASK
    }
    assert len(tables) > 5 if adaptive else len(tables) == 1
    whole = [(r.willing, r.asked, r.declined, r.forced, r.dropout, trained([r])) for r in plain]
    assert [(r.willing, r.asked, r.declined, r.forced, r.dropout, trained([r])) for r in riding] == whole
    assert sum(len(asked_ahead(grid, t)) for t in range(1, ROUNDS)) > 3 * ROUNDS
    for t in range(1, ROUNDS):
        lost = {p.client for p in riding[t - 1].participations if p.outcome != "trained"}
        assert not lost & asked_ahead(grid, t)  # they may still be at work on their update
        answered = asked_ahead(grid, t) - {2}
        assert set(grid.whom(ASK, t + 1)) == set(range(N)) - answered  # who failed is asked by itself


@pytest.mark.parametrize(
    "change", [{"name": "client-3"}, {"takes-part": "perhaps"}, {"age": -1}, None], ids=["name", "type", "age", "none"]
)
def test_an_unusable_early_answer_is_asked_again(change, tmp_path, caplog):
    def spoil(kind, round_, partition, reply):
        if kind == "evaluate" and partition == 5 and "aoi" in reply.content:
            if change is None:
                del reply.content["aoi"]
            else:
                reply.content["aoi"] = ConfigRecord({**reply.content["aoi"], **change})

    plain, _ = play(tmp_path / "plain", 0, rounds=6)
    rounds, grid = play(tmp_path / "spoilt", N, spoil=spoil, rounds=6)
    assert trained(rounds) == trained(plain)
    assert all(set(grid.whom(ASK, t)) == {5} for t in range(2, 7))
    assert all(r.dropped == 0 and r.client_loss == 1.0 for r in rounds)  # its metrics are as good as any
    assert ("will ask client 5 again" in caplog.text) == (change is not None)


def test_an_answer_that_nobody_asked_for_counts_for_nothing(tmp_path):
    def spoil(kind, round_, partition, reply):
        if kind == "train" and partition == 5:
            raise OSError("no power")
        if kind == "evaluate" and partition == 5:
            said = {"name": "client-5", "takes-part": True, "age": 3}
            reply.content["aoi"] = ConfigRecord(said)

    plain, _ = play(tmp_path / "plain", 0, spoil=spoil)
    rounds, grid = play(tmp_path / "spoilt", N, spoil=spoil)
    refused = [r.round for r in rounds if 5 in {p.client for p in r.participations}]
    assert refused and all(5 not in asked_ahead(grid, t) for t in refused)
    after = [t + 1 for t in refused if t < ROUNDS]
    assert all(5 in grid.whom(ASK, t) for t in after)
    assert [rounds[t - 1].willing for t in after] == [plain[t - 1].willing for t in after]
