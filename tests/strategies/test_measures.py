"""Which metric is the loss and which the accuracy; one that is not finite costs no other, and no update."""

import numpy as np
import pytest
from flwr.app import MetricRecord

from aoi_fl.report.measure import ACCURACY
from aoi_fl.strategies import RandomSelection
from aoi_fl.strategies.measures import as_share, evaluation_loss, measured, training_loss
from tests.fakes import HOSTILE, everyone, examples_of, honest_app, hostile_app, play, play_in_vain

N = 4
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("metrics", "loss"),
    [
        ({"val_loss": 1.0, "train_loss": 2.0, "loss": 3.0}, 2.0),
        ({"loss_scale": 65536.0, "loss": 3.0}, 3.0),
        ({"aux_loss": 0.1, "loss": 3}, 3.0),
        ({"loss": 3, "train_loss": 2}, 2.0),
        ({"val_loss": 1.0}, None),
        ({"val_loss": 1.0, "mine": 4}, 4.0),
        ({"train_loss": [1.0, 2.0], "loss": 3.0}, 3.0),
        ({"gloss": 1.0, "lossless": 2.0, "my_train_loss": 3.0}, None),
        ({}, None),
    ],
)
def test_the_loss_of_a_training(metrics, loss):
    assert training_loss(MetricRecord(metrics), "mine") == loss


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ({"loss_scale": 9.0, "loss": 1.0, "access_rate": 3.0, "accuracy": 0.5}, (1.0, 0.5, None)),
        ({"eval_loss": 1.0, "eval_acc": 0.5}, (1.0, 0.5, None)),
        ({"accumulated": 7.0, "top1_accuracy": 0.5, "aux_loss": 3.0}, (None, 0.5, None)),
        ({"loss": 1, "val_rmse": 2.0}, (1.0, None, 2.0)),
    ],
)
def test_what_an_evaluation_has_measured(metrics, found):
    assert tuple(measured(MetricRecord(metrics), kind) for kind in ("loss", "accuracy", "rmse")) == found
    assert evaluation_loss({"mine": 2}, "mine") == 2.0


def reporting(kind="train", **metrics):
    """Return an app in which every client reports these metrics; of a function, what it makes of the client."""

    def spoil(message, act):
        reply = act()
        number = reply.content["metrics"]["num-examples"] // 10 - 1
        own = {k: v(number) if callable(v) else v for k, v in metrics.items()}
        reply.content["metrics"] = MetricRecord({"num-examples": examples_of(number), **own})
        return reply

    return hostile_app(spoil, (kind,), range(N))


@pytest.mark.parametrize(
    ("metrics", "losses"),
    [
        ({"val_loss": 9.0, "loss": lambda c: float(c)}, [0, 1, 2, 3]),
        ({"loss_scale": NAN, "aux_loss": INF, "train_loss": lambda c: c}, [0, 1, 2, 3]),
        ({"a_loss": NAN, "b": [NAN, 1.0]}, [None] * 4),
        ({"loss": 7}, [7.0] * 4),
    ],
)
def test_another_metric_costs_no_update_and_is_no_loss(metrics, losses, tmp_path):
    notes, _, _ = play(everyone, reporting(**metrics), tmp_path)
    for record in notes.rounds:
        parts = sorted(record.participations, key=lambda part: part.client)
        assert [(part.outcome, part.loss) for part in parts] == [("trained", loss) for loss in losses]


@pytest.mark.parametrize("metrics", [{"loss": NAN}, {"train_loss": -INF, "loss": 1.0}, {"mine": NAN}])
def test_a_loss_that_is_not_finite_is_refused(metrics, tmp_path):
    notes = play_in_vain(everyone, reporting(**metrics), tmp_path, rounds=1, loss_metric="mine")
    assert {part.outcome for part in notes.rounds[0].participations} == {"refused"}


def one_bad(**bad):
    """Return an app in which one client's evaluation has other metrics."""

    def spoil(message, act):
        reply = act()
        reply.content["metrics"].update(bad)
        return reply

    return hostile_app(spoil, ("evaluate",))


def mean(values, without=()):
    clients = [c for c in range(N) if c not in without]
    return np.average([values(c) for c in clients], weights=[examples_of(c) for c in clients])


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_an_evaluation_keeps_its_good_metrics(bad, tmp_path, caplog):
    notes, _result, _ = play(everyone, one_bad(loss=bad, accuracy=0.9, speed=3.0), tmp_path, evaluate_clients=N)
    for record in notes.rounds:
        assert record.client_loss == pytest.approx(mean(float, [HOSTILE])) and record.dropped == 0
        assert record.client_accuracy == pytest.approx(mean(lambda c: 0.9 if c == HOSTILE else 0.5))
    assert "metric loss of client-1 is not finite" in caplog.text
    notes, _, _ = play(everyone, one_bad(extra=bad), tmp_path / "extra", evaluate_clients=N)
    assert notes.rounds[0].client_loss == pytest.approx(mean(float))


def test_an_evaluation_without_a_good_metric_is_dropped(tmp_path):
    notes, _, _ = play(everyone, one_bad(loss=NAN, accuracy=INF), tmp_path, evaluate_clients=N)
    assert [record.dropped for record in notes.rounds] == [1, 1]
    assert notes.rounds[0].client_accuracy == pytest.approx(0.5)


def test_a_step_of_ones_own_that_fails_ends_no_run(tmp_path):
    class Own(RandomSelection):
        def aggregate_evaluate(self, server_round, replies):
            raise KeyError("perplexity")

    notes, _, _ = play(lambda **s: Own(N, **s), honest_app(), tmp_path, evaluate_clients=N)
    assert [record.trained for record in notes.rounds] == [N, N] and notes.rounds[0].client_loss is None


# Accuracy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accuracy", "share", "cautioned"),
    [
        (0.5, 0.5, False),
        (1.0, 1.0, False),
        (1.0000000000000002, 1.0, False),
        (99.982, 0.99982, True),
        (100.0, 1.0, True),
        (1.5, 0.015, True),
        (4531.0, None, True),
        (-0.1, None, True),
        (None, None, False),
    ],
)
def test_an_accuracy_is_a_share(accuracy, share, cautioned):
    found, caution = as_share(accuracy)
    assert found == pytest.approx(share) if share is not None else found is None
    assert (caution is not None) == cautioned


@pytest.mark.parametrize("name", ["accuracy", "centralized_acc"])
def test_an_accuracy_in_per_cent_is_shown_right(name, tmp_path, caplog):
    from tests.fakes import LocalGrid, Notes, RoundOptions, model

    notes = Notes()
    strategy = RandomSelection(N, observer=notes, options=RoundOptions(run="r", evaluate_clients=0, join_timeout=0.2))
    percents = [0.0, 12.5, 0.8, 99.43]
    strategy.start(
        LocalGrid(honest_app(), {"runs-dir": str(tmp_path)}, N),
        model(),
        3,
        evaluate_fn=lambda round_, arrays: MetricRecord({name: percents[round_]}),
    )
    assert [r.test_accuracy for r in notes.rounds] == pytest.approx([0.125, 0.008, 0.9943])
    assert [ACCURACY.show(r.test_accuracy) for r in notes.rounds] == ["12.5 %", "0.8 %", "99.4 %"]
    assert caplog.text.count("taken for per cent") == 1
