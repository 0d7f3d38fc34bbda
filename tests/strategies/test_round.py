"""The round: real strategies and real clients in the in-process engine."""

import pytest
from flwr.app import ConfigRecord

from aoi_fl.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection, RoundOptions
from tests.fakes import (
    TRAIN,
    ToyApp,
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
    assert notes.rounds[1].messages == 2 * 4 * 2  # without a second roll call
    assert result.train_metrics_clientapp[2]["loss"] == pytest.approx(3.0)


def test_the_configuration_of_a_round_reaches_the_client(tmp_path):
    seen = []

    def note(message, act, kind, round_, client):
        if (kind, round_) == (TRAIN, 2):
            seen.append(dict(message.content["config"]))
        return act()

    options = RoundOptions(run="c", join_timeout=0.2, evaluate_clients=0)
    strategy = RandomSelection(4, options=options, configure=lambda round_: {"lr": 1 / round_})
    grid = LocalGrid(ToyApp(spoil=note), {"runs-dir": str(tmp_path)}, 4)
    strategy.start(grid, model(), 2, train_config=ConfigRecord({"lr": 9.0, "word": "x"}))
    assert seen == [{"lr": 0.5, "word": "x", "server-round": 2}] * 4
