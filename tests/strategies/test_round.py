"""The round: real strategies and real clients in the in-process engine."""

import pytest
from flwr.app import ConfigRecord

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.strategies import MarkovParticipation, RoundOptions
from tests.fakes import (
    everyone,
    examples_of,
    expected,
    honest_app,
    model,
    play,
    same_model,
)


def test_an_undisturbed_round_records_the_weighted_mean(tmp_path):
    notes, result, _ = play(everyone, honest_app(), tmp_path, evaluate_clients=4)
    same_model(result.arrays, expected(range(4), 2))
    assert [(c.client, c.name, c.since, c.examples) for c in notes.clients] == [
        (i, f"client-{i}", 1, examples_of(i)) for i in range(4)
    ]
    for number, record in enumerate(notes.rounds, 1):
        assert (record.round, record.willing, record.trained, record.declined, record.dropped) == (number, 4, 4, 0, 0)
        assert not record.empty and not record.forced
        assert record.train_loss == pytest.approx(3.0)  # Σ 10(i+1)(1+i) / Σ 10(i+1)
        assert record.client_loss == pytest.approx(2.0) and record.client_accuracy == 0.5
        assert sorted((p.client, p.examples, p.loss, p.age) for p in record.participations) == [
            (i, examples_of(i), 1.0 + i, 0) for i in range(4)
        ]
        assert sum(p.weight for p in record.participations) == pytest.approx(1)
    assert notes.rounds[0].messages == 2 * 4 * 3  # roll call, training, evaluation
    assert notes.rounds[1].messages == 2 * 4 * 2  # nobody is asked twice who it is
    assert result.train_metrics_clientapp[2]["loss"] == pytest.approx(3.0)


def test_foreign_metrics_and_configuration_reach_the_client(tmp_path):
    seen: list[dict] = []

    class Spy(ClientApp):
        def __call__(self, message, context):
            if message.metadata.message_type == "train":
                seen.append(dict(message.content["config"]))
            return super().__call__(message, context)

    strategy = MarkovParticipation.optimal(
        4,
        4,
        0,
        options=RoundOptions(run="c", join_timeout=0.2, evaluate_clients=0),
        configure=lambda round_: {"lr": 1 / round_},
    )
    grid = LocalGrid(honest_app(Spy), {"runs-dir": str(tmp_path)}, 4)
    strategy.start(grid, model(), 2, train_config=ConfigRecord({"lr": 9.0, "word": "x"}))
    assert [c for c in seen if c["server-round"] == 2] == [{"lr": 0.5, "word": "x", "server-round": 2}] * 4
