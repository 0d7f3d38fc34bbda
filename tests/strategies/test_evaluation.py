"""The next round's question rides on an evaluation: the same selections as without, in fewer messages."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.strategies import MarkovParticipation, RandomSelection, RoundOptions
from tests.strategies.federation import Notes

N, ROUNDS, SEED = 12, 25, 1  # a seed without an empty round
POLICY = MarkovPolicy.increasing(N, 4, 5)


class Counting(LocalGrid):
    """A grid that notes which client was sent what in which round."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.sent: list[tuple[str, int, int, dict]] = []

    def push_messages(self, messages):
        first = next(iter(self._contexts))
        for m in messages:
            record = dict(m.content["aoi"])
            self.sent.append((m.metadata.message_type, record["round"], m.metadata.dst_node_id - first, record))
        return super().push_messages(messages)

    def whom(self, kind, round_):
        return {client for k, r, client, _ in self.sent if (k, r) == (kind, round_)}

    def asked_ahead(self, round_):
        return {c for k, r, c, record in self.sent if (k, r) == ("evaluate", round_) and record.get("ahead")}


class App(ClientApp):
    """An app whose replies are handed to ``spoil(kind, round, partition, reply)``, which may raise or change them."""

    def __init__(self, spoil=lambda kind, round_, partition, reply: None):
        super().__init__()
        self.spoil = spoil
        self.train()(lambda message, context: answered(message, context, arrays=message.content["arrays"]))
        self.evaluate()(answered)

    def __call__(self, message, context):
        reply = super().__call__(message, context)
        round_ = message.content["aoi"]["round"]
        self.spoil(message.metadata.message_type, round_, context.node_config["partition-id"], reply)
        return reply


def answered(message, context, **records):
    return Message(
        RecordDict({**records, "metrics": MetricRecord({"num-examples": 10, "loss": 1.0})}), reply_to=message
    )


def play(folder, evaluate_clients, *, spoil=None, wire="poll", make=MarkovParticipation, rounds=ROUNDS, **settings):
    notes = Notes()
    options = RoundOptions(run="r", seed=SEED, deterministic=True, join_timeout=0.2, evaluate_clients=evaluate_clients)
    if make is MarkovParticipation:
        settings = {"policy": POLICY, "coordination": wire} | settings
    strategy = make(**settings, options=options, observer=notes)
    grid = Counting(App(spoil) if spoil else App(), {"runs-dir": str(folder), "seed": SEED}, N)
    strategy.start(grid, ArrayRecord({"w": Array(np.zeros(3, np.float32))}), rounds)
    return notes.rounds, grid


def trained(rounds):
    return [sorted(p.client for p in r.participations if p.outcome == "trained") for r in rounds]


@pytest.mark.parametrize("evaluate_clients", [1, 5, N])
def test_a_question_asked_ahead_saves_two_messages(evaluate_clients, tmp_path):
    rounds, grid = play(tmp_path, evaluate_clients)
    population = Population(np.zeros(N, np.int64), np.full(N, 10), np.ones(N, bool))
    history = simulate(POLICY, population, ROUNDS, SEED)
    assert trained(rounds) == [history.selection(t).clients.tolist() for t in range(1, ROUNDS + 1)]
    for record in rounds:
        ridden = grid.asked_ahead(record.round - 1)
        assert len(ridden) == (evaluate_clients if record.round > 1 else 0)
        assert grid.whom("query.participate", record.round) == set(range(N)) - ridden
        assert (record.asked, record.declined) == (N, N - record.willing)
        roll_call = 2 * N * (record.round == 1)
        full = 2 * (N + record.trained + evaluate_clients) + roll_call
        assert record.messages == full - 2 * len(ridden)
    assert not grid.asked_ahead(ROUNDS)  # nothing follows the last round


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_run_with_riding_questions_is_the_run_without(adaptive, tmp_path):
    """Clients are lost on the way, so that the adaptive policy issues table after table."""

    def spoil(kind, round_, partition, reply):
        if kind == "train" and (round_ + partition) % 3 == 0:
            raise OSError("no power")
        if kind == "evaluate" and partition == 2:
            raise OSError("no power")

    policy = MarkovPolicy.optimal(N, 5, 4)
    settings = {"spoil": spoil, "policy": policy, "adaptive_dropout": adaptive}
    plain, asked = play(tmp_path / "plain", 0, **settings)
    riding, grid = play(tmp_path / "riding", 7, **settings)
    tables = {tuple(record.get("table", ())) for kind, *_, record in asked.sent if kind == "query.participate"}
    assert len(tables) > 5 if adaptive else len(tables) == 1
    whole = [(r.willing, r.asked, r.declined, r.forced, r.dropout, trained([r])) for r in plain]
    assert [(r.willing, r.asked, r.declined, r.forced, r.dropout, trained([r])) for r in riding] == whole
    assert sum(len(grid.asked_ahead(t)) for t in range(1, ROUNDS)) > 3 * ROUNDS
    for t in range(1, ROUNDS):
        lost = {p.client for p in riding[t - 1].participations if p.outcome != "trained"}
        assert not lost & grid.asked_ahead(t)  # they may still be at work on their update
        answered = grid.asked_ahead(t) - {2}
        assert grid.whom("query.participate", t + 1) == set(range(N)) - answered  # who failed is asked by itself


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
    assert all(grid.whom("query.participate", t) == {5} for t in range(2, 7))
    assert all(r.dropped == 0 and r.client_loss == 1.0 for r in rounds)  # its metrics are as good as any
    assert ("Client 5 will be asked again" in caplog.text) == (change is not None)


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
    assert refused and all(5 not in grid.asked_ahead(t) for t in refused)
    after = [t + 1 for t in refused if t < ROUNDS]
    assert all(5 in grid.whom("query.participate", t) for t in after)
    assert [rounds[t - 1].willing for t in after] == [plain[t - 1].willing for t in after]


@pytest.mark.parametrize("wire", ["broadcast", "reserve", "central"])
def test_other_modes_ask_nothing_ahead(wire, tmp_path):
    settings = {"make": RandomSelection, "per_round": 4} if wire == "central" else {"coordination": wire}
    rounds, grid = play(tmp_path, 3, rounds=4, **settings)
    assert not any(grid.asked_ahead(t) for t in range(1, 5)) and all(r.client_loss == 1.0 for r in rounds)
