"""The round: real strategies and real clients in the in-process engine."""

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.strategies import MarkovParticipation, OldestAge, ProportionalSelection, RoundOptions
from tests.fakes import (
    HOSTILE,
    MODEL,
    everyone,
    examples_of,
    expected,
    honest_app,
    hostile_app,
    model,
    play,
    raises,
    same_model,
    steps_of,
    values,
    with_metrics,
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


def test_the_choice_and_its_weights_are_the_policys(tmp_path):
    def proportional(**settings):
        return ProportionalSelection(4, **settings)

    notes, result, strategy = play(proportional, honest_app(), tmp_path, rounds=1, nodes=6)
    selection = strategy.policy.selector.select(1, strategy.roster.population(1))
    assert selection.draws.max() > 1  # drawn twice, trained once
    parts = sorted(notes.rounds[0].participations, key=lambda p: p.client)
    assert [p.client for p in parts] == selection.clients.tolist()
    np.testing.assert_allclose([p.weight for p in parts], selection.draws / 4)
    step = sum(w * steps_of(c)["w"] for c, w in zip(selection.clients.tolist(), selection.draws / 4, strict=True))
    np.testing.assert_allclose(values(result.arrays)["w"], MODEL["w"] + step, rtol=1e-6)


@pytest.mark.parametrize(
    "spoil", [raises(OSError("dead")), with_metrics(num_examples=0), with_metrics(num_examples=1, loss=float("inf"))]
)
def test_a_bad_evaluation_is_left_out(spoil, tmp_path, caplog):
    app = hostile_app(spoil, kinds=("evaluate",))
    notes, _, _ = play(everyone, app, tmp_path, rounds=1, evaluate_clients=4)
    assert notes.rounds[0].client_loss == pytest.approx((0 * 10 + 2 * 30 + 3 * 40) / 80)
    assert "evaluation of client-1 dropped" in caplog.text


def test_a_client_whose_update_was_dropped_stays_old(tmp_path):
    """Age resets with an update that counts, so the server tries again at once, then after a pause."""

    def two(**settings):
        return OldestAge(2, **settings)

    notes, _, _ = play(two, hostile_app(raises(OSError("dead"))), tmp_path, rounds=5)
    tries = [r.round for r in notes.rounds if HOSTILE in [p.client for p in r.participations]]
    assert [later - tries[0] for later in tries][:3] == [0, 1, 3]


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
