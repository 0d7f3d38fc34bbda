"""Hostile clients: the reply is dropped and named, the rest make the round."""

import io
from functools import partial

import numpy as np
import pytest
from flwr.app import Array, Error, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg

from aoi_fl.flower.errors import CLIENT_APP_CRASHED
from aoi_fl.strategies import AskedChoice
from tests.fakes import (
    HOSTILE,
    MODEL,
    everyone,
    expected,
    hostile_app,
    model,
    play,
    raises,
    same_model,
    with_answer,
    with_arrays,
    with_metrics,
    with_record,
    with_w,
)


def with_bytes(data):
    own = Array(MODEL["w"])
    return with_w(lambda w: Array(dtype=own.dtype, shape=own.shape, stype=own.stype, data=data))


def header(text):
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


def pickled():
    file = io.BytesIO()
    np.save(file, np.array([print, None], object), allow_pickle=True)
    return file.getvalue()


def in_place(message, act):
    message.content["arrays"]["w"] = Array(np.full((2, 3), np.nan, np.float32))
    del message.content["arrays"]["b"]
    message.content["aoi"]["run"] = "another"
    raise ValueError("wrote into what it was sent")


FAILED = {
    "raises": (raises(RuntimeError("power \ud800left")), ["error: RuntimeError", "left"]),
    "error reply": (lambda m, act: Message(Error(7, "gone"), reply_to=m), ["gone"]),
    "a killed app": (lambda m, act: Message(Error(CLIENT_APP_CRASHED, "gone"), reply_to=m), ["memory"]),
    "no message": (lambda m, act: None, ["reply"]),
    "writes in place": (in_place, ["wrote into", "(test_hostile_replies.py:"]),
}
REFUSED = {
    "NaN": (with_w(lambda w: w * np.float32(np.nan)), ["array w", "NaN"]),
    "one array less": (with_arrays(lambda a: {"w": a["w"], "steps": a["steps"]}), ["names", "b"]),
    "one array more": (with_arrays(lambda a: {**a, "extra": a["b"]}), ["names", "extra"]),
    "another shape": (with_w(np.transpose), ["array w", "(3, 2)", "(2, 3)"]),
    "another dtype": (with_w(lambda w: w.astype("c8")), ["complex64", "float32"]),
    "beyond the type": (with_w(lambda w: np.full(w.shape, 1e300)), ["does not fit float32"]),
    "a huge array": (with_w(lambda w: np.zeros((1000, 1000), "f4")), ["bytes"]),
    "no arrays": (with_record("arrays", None), ["0 array records"]),
    "cut short": (with_bytes(Array(MODEL["w"]).data[:-1]), ["array w", "cannot be read"]),
    "pickled objects": (with_bytes(pickled()), ["array w", "cannot be read"]),
    "a forged header": (with_bytes(header("(" * 999)), ["array w", "cannot be read"]),
    "no metrics": (with_record("metrics", None), ["0 metric records"]),
    "no examples": (with_metrics(loss=1.0), ["num-examples is None"]),
    "absurd examples": (with_metrics(num_examples=10**12), ["1000000000000"]),
    "NaN loss": (with_metrics(num_examples=3, loss=float("nan")), ["loss nan"]),
    "another's name": (with_answer(name="client-0"), ["client-0", "not its name"]),
    "an answer of arrays": (with_record("aoi", model()), ["malformed answer"]),
}


@pytest.mark.parametrize("kind", FAILED | REFUSED)
def test_a_bad_reply_is_dropped_and_named(kind, tmp_path, caplog):
    spoil, words = (FAILED | REFUSED)[kind]
    outcome = "failed" if kind in FAILED else "refused"
    notes = play(everyone, hostile_app(spoil), tmp_path)
    same_model(notes.result.arrays, expected([0, 2, 3], 2))
    for record in notes.rounds:
        assert (record.willing, record.trained, record.dropped) == (4, 3, 1) and not record.empty
        (offender,) = [p for p in record.participations if p.outcome != "trained"]
        assert (offender.client, offender.name, offender.outcome) == (HOSTILE, "client-1", outcome)
        assert all(word in offender.reason for word in words), offender.reason
        assert len(offender.reason) <= 500 and offender.reason.isprintable()
        weights = {p.client: p.weight for p in record.participations if p.outcome == "trained"}
        assert weights == pytest.approx({0: 1 / 8, 2: 3 / 8, 3: 4 / 8})
        assert f"Round {record.round}: client-1 (client 1) {outcome}" in caplog.text


TOLERATED = {
    "a wider type": with_w(lambda w: w.astype("f8")),
    "another order": with_arrays(lambda a: dict(reversed(a.items()))),
    "another byte order": with_w(lambda w: w.astype(">f4")),
    "two array records": with_record("again", model()),
    "two metric records": with_record("more", MetricRecord({"a": 1})),
    "examples as a float": with_metrics(num_examples=20.0, loss=2.0),
}


@pytest.mark.parametrize("spoil", TOLERATED.values(), ids=TOLERATED)
def test_what_flower_would_take_is_taken(spoil, tmp_path):
    notes = play(everyone, hostile_app(spoil), tmp_path)
    same_model(notes.result.arrays, expected(range(4), 2))
    assert notes.column("trained") == [4, 4]


LARGE = {
    "the largest float": {"accuracy": 1.797e308},
    "a list of large numbers": {"accuracy": 0.5, "curve": [0.0, 1.7e308]},
    "infinite": {"accuracy": float("inf")},
}


@pytest.mark.parametrize("metrics", LARGE.values(), ids=LARGE)
def test_colluding_evaluators_make_no_metric_infinite(metrics, tmp_path):
    app = hostile_app(with_metrics(num_examples=10**9, **metrics), kinds=("evaluate",), whom=(0, 1, 3))
    notes = play(everyone, app, tmp_path, evaluate_clients=4)
    for record in notes.rounds:
        assert (record.client_accuracy, record.client_loss, record.dropped) == (0.5, 2.0, 3)
    for metrics in notes.result.evaluate_metrics_clientapp.values():
        assert np.isfinite([metrics["accuracy"], metrics["loss"]]).all()


def test_a_candidate_of_infinite_loss_is_refused(tmp_path):
    app = hostile_app(with_metrics(num_examples=1, loss=float("inf"), accuracy=0.5), ("evaluate",))
    notes = play(partial(AskedChoice, 2, candidates=4), app, tmp_path, 1)
    assert notes.of_outcome("refused") == [[HOSTILE]]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_a_function_makes_infinite_is_not_recorded(value, tmp_path):
    made = MetricRecord({"accuracy": value, "loss": value})
    notes = play(
        everyone,
        hostile_app(lambda m, act: act()),
        tmp_path,
        evaluate_clients=4,
        evaluate_metrics_aggr_fn=lambda contents, key: made,
    )
    assert [(r.client_accuracy, r.client_loss) for r in notes.rounds] == [(None, None)] * 2


MANY = {
    "many": {f"m{i}": float(i) for i in range(20_000)},
    "long names": {"n" * 10_000 + str(i): 1.0 for i in range(3)},
    "long lists": {f"l{i}": [1.0] * 10_000 for i in range(10)},
}


@pytest.mark.parametrize("whom", [(HOSTILE,), range(4)], ids=["one", "all"])
@pytest.mark.parametrize("more", MANY.values(), ids=MANY)
def test_of_too_many_metrics_the_rest_is_dropped_and_named_once(more, whom, tmp_path, caplog):
    def spoil(message, act):
        reply = act()
        reply.content["metrics"] = MetricRecord(
            {**more, **reply.content["metrics"]} if whom == (HOSTILE,) else {**reply.content["metrics"], **more}
        )
        return reply

    app = hostile_app(spoil, kinds=("train", "evaluate"), whom=whom)
    notes = play(everyone, app, tmp_path, evaluate_clients=4, deterministic=False)
    assert notes.column("trained") == [4, 4] and set(notes.column("client_accuracy")) == {0.5}
    for found in (*notes.result.train_metrics_clientapp.values(), *notes.result.evaluate_metrics_clientapp.values()):
        assert len(found) <= 256 and all(len(name) <= 256 for name in found)
        assert sum(len(v) if isinstance(v, list) else 1 for v in found.values()) <= 1 << 14
    named = [m for m in caplog.messages if "more metrics" in m]
    assert len(named) == len(whom)


@pytest.mark.parametrize("aggregation", [lambda: None, FedAvg], ids=["ours", "FedAvg"])
def test_one_client_hides_no_metric_of_the_others(aggregation, tmp_path):
    for metrics in ({}, {"accuracy": [1.0, 2.0]}):
        app = hostile_app(with_metrics(num_examples=10, loss=1.0, **metrics), kinds=("evaluate",))
        make = partial(everyone, aggregation=aggregation())
        notes = play(make, app, tmp_path / str(len(metrics)), evaluate_clients=4)
        assert notes.column("client_accuracy") == [0.5, 0.5]
