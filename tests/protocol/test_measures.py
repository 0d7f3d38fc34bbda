"""Which metric is the loss and which the accuracy; one that is not finite costs no other, and no update."""

import numpy as np
import pytest
from flwr.app import MetricRecord

from aoi_fl.protocol.measures import TRAINING, as_share, measured
from tests.fakes import HOSTILE, everyone, examples_of, honest_app, hostile_app, play

N = 4
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("metrics", "loss"),
    [
        ({"val_loss": 1.0, "train_loss": 2, "loss": 3.0}, 2.0),
        ({"loss_scale": 65536.0, "loss": 3.0}, 3.0),
        ({"train_loss": [1.0, 2.0], "loss": 3.0}, 3.0),
        ({"gloss": 1.0, "val_loss": 2.0, "my_train_loss": 3.0}, None),
    ],
)
def test_the_loss_of_a_training(metrics, loss):
    assert measured(MetricRecord(metrics), TRAINING) == loss


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ({"loss_scale": 9.0, "loss": 1.0, "access_rate": 3.0, "accuracy": 0.5}, (1.0, 0.5, None)),
        ({"eval_loss": 1.0, "eval_acc": 0.5}, (1.0, 0.5, None)),
        ({"accumulated": 7.0, "top1_accuracy": 0.5, "aux_loss": 3.0, "val_rmse": 2.0}, (None, 0.5, 2.0)),
    ],
)
def test_the_measures_of_an_evaluation(metrics, found):
    assert tuple(measured(MetricRecord(metrics), kind) for kind in ("loss", "accuracy", "rmse")) == found


def measuring(kind, metrics):
    """Return an app in which one client adds metrics to its own."""

    def spoil(message, act):
        reply = act()
        reply.content["metrics"].update(metrics)
        return reply

    return hostile_app(spoil, (kind,))


def test_only_the_loss_itself_must_be_finite(tmp_path):
    metrics = {"loss_scale": NAN, "aux_loss": INF, "b": [NAN, 1.0]}
    notes = play(everyone, measuring("train", metrics), tmp_path, rounds=1)
    (part,) = [part for part in notes.parts if part.client == HOSTILE]
    assert (part.outcome, part.loss) == ("trained", 1.0 + HOSTILE)


def test_an_evaluation_keeps_its_good_metrics(tmp_path):
    metrics = {"loss": NAN, "accuracy": 0.9, "speed": 3.0}
    notes = play(everyone, measuring("evaluate", metrics), tmp_path, 1, evaluate_clients=N)
    (record,) = notes.rounds
    clients = [client for client in range(N) if client != HOSTILE]
    assert record.client_loss == pytest.approx(np.average(clients, weights=[*map(examples_of, clients)]))
    share = examples_of(HOSTILE) / sum(map(examples_of, range(N)))
    assert record.client_accuracy == pytest.approx(0.5 + share * 0.4) and record.dropped == 0


@pytest.mark.parametrize(
    ("accuracy", "share", "cautioned"),
    [
        (1.0000000000000002, 1.0, False),
        (100.0, 1.0, True),
        (4531.0, None, True),
        (-0.1, None, True),
        (None, None, False),
    ],
)
def test_an_accuracy_is_a_share(accuracy, share, cautioned):
    found, caution = as_share(accuracy)
    assert found == (share if share is None else pytest.approx(share)) and (caution is not None) == cautioned


def test_a_central_accuracy_in_per_cent_is_recorded_as_a_share(tmp_path, caplog):
    percents = [0.0, 12.5, 80.0, 99.43]
    judge = lambda round_, arrays: MetricRecord({"centralized_acc": percents[round_]})  # noqa: E731
    notes = play(everyone, honest_app(), tmp_path, 3, evaluate_fn=judge)
    assert notes.column("test_accuracy") == pytest.approx([0.125, 0.8, 0.9943])
    assert caplog.text.count("taken for per cent") == 1
