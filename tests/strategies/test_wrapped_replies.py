"""One hostile client under Flower's wrappers for differential privacy, which act before our own guard."""

from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from aoi_fl.strategies import RandomSelection, RoundOptions
from tests.fakes import TRAIN, Notes, ScriptedGrid, ToyApp
from tests.strategies.test_hostile_replies import pickled

CLIENTS, HOSTILE = 4, 1
FIXED = {"noise_multiplier": 0.0, "num_sampled_clients": CLIENTS, "clipping_norm": 1e6}
ADAPTED = {"noise_multiplier": 0.0, "num_sampled_clients": CLIENTS, "clipped_count_stddev": 0.0}
DRIVERS = {
    "server-side, fixed": (partial(flower.DifferentialPrivacyServerSideFixedClipping, **FIXED), []),
    "server-side, adaptive": (
        partial(flower.DifferentialPrivacyServerSideAdaptiveClipping, **ADAPTED, initial_clipping_norm=1e6),
        [],
    ),
    "client-side, fixed": (partial(flower.DifferentialPrivacyClientSideFixedClipping, **FIXED), [fixedclipping_mod]),
    "client-side, adaptive": (
        partial(flower.DifferentialPrivacyClientSideAdaptiveClipping, **ADAPTED, initial_clipping_norm=1e6),
        [adaptiveclipping_mod],
    ),
    "flower's own loop": (lambda strategy: Loop(strategy), []),
}


class Loop:
    """Flower's loop around ours, without a wrapper."""

    def __init__(self, strategy):
        self.start = partial(Strategy.start, strategy)


def model() -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros((2, 3), np.float32)), "b": Array(np.zeros(2, np.float32))})


def arrays(change):
    def spoil(message, reply):
        own = dict(reply.content["arrays"].items())
        reply.content["arrays"] = ArrayRecord(change(own))
        return reply

    return spoil


def raw(data):
    return Array(dtype="float32", shape=(2,), stype="numpy.ndarray", data=data)


def with_record(key, record):
    def spoil(message, reply):
        reply.content[key] = record
        return reply

    return spoil


def without(key):
    def spoil(message, reply):
        del reply.content[key]
        return reply

    return spoil


FORMS = {
    "an error": lambda message, reply: Message(Error(7, "gone"), reply_to=message),
    "a wrong shape": arrays(lambda a: {**a, "b": Array(np.zeros(5, np.float32))}),
    "another number of dimensions": arrays(lambda a: {**a, "w": Array(np.zeros(6, np.float32))}),
    "a missing array": arrays(lambda a: {"w": a["w"]}),
    "one array more": arrays(lambda a: {**a, "x": a["w"]}),
    "pickled objects": arrays(lambda a: {**a, "b": raw(pickled())}),
    "a pickle": arrays(lambda a: {**a, "b": raw(b"\x80\x04N.")}),
    "no bytes": arrays(lambda a: {**a, "b": raw(b"")}),
    "NaN": arrays(lambda a: {**a, "b": Array(np.full(2, np.nan, np.float32))}),
    "no arrays": without("arrays"),
    "no metrics": without("metrics"),
    "two models": with_record("second", ArrayRecord({"x": Array(np.zeros(7))})),
    "a garbage answer": with_record("aoi", ConfigRecord({"x": 1})),
    "no examples": with_record("metrics", MetricRecord({"loss": 1.0})),
}


def client_app(mods, spoil, whom=(HOSTILE,)):
    def behave(message, act, kind, round_, client):
        reply = act()
        return spoil(message, reply) if kind == TRAIN and client in whom else reply

    return ToyApp(examples=5, evaluates=1.0, spoil=behave, mods=mods)


def play(driver, spoil, tmp_path, rounds=3, **who):
    wrap, mods = DRIVERS[driver]
    notes = Notes()
    options = RoundOptions(run="r", seed=3, join_timeout=0.2)
    strategy = RandomSelection(CLIENTS, options=options, observer=notes)
    grid = ScriptedGrid(client_app(mods, spoil, **who), {"runs-dir": str(tmp_path)}, CLIENTS)
    result = wrap(strategy).start(grid, model(), rounds)
    strategy._loop.leave()  # as the interpreter does at its end
    return notes, result


# One wrapper meets every form, since the guard before it is the same for all; each other one meets the forms it reads.
MET = [("server-side, fixed", form) for form in FORMS] + [
    (driver, form)
    for driver in DRIVERS
    for form in ("an error", "a wrong shape", "NaN", "no arrays", "no metrics")
    if driver != "server-side, fixed"
]


@pytest.mark.parametrize(("driver", "form"), MET)
def test_a_wrapper_sees_honest_replies_alone(driver, form, tmp_path):
    notes, result = play(driver, FORMS[form], tmp_path)
    assert len(notes.rounds) == 3
    for record in notes.rounds:
        out = {p.name: p.outcome for p in record.participations if p.outcome != "trained"}
        assert record.trained == CLIENTS - 1 and not record.empty
        assert list(out) == [f"client-{HOSTILE}"] and set(out.values()) <= {"failed", "refused"}
    for array in result.arrays.values():
        np.testing.assert_allclose(array.numpy(), 3.0, rtol=1e-5)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_round_of_which_a_wrapper_sees_nothing_names_all(driver, tmp_path):
    def spoil(message, reply):
        if message.content["config"]["server-round"] == 2:
            return arrays(lambda a: {"w": a["w"]})(message, reply)
        return reply

    notes, result = play(driver, spoil, tmp_path, whom=range(CLIENTS))
    assert [(r.trained, r.empty) for r in notes.rounds] == [(CLIENTS, False), (0, True), (CLIENTS, False)]
    assert [p.outcome for p in notes.rounds[1].participations] == ["refused"] * CLIENTS
    for array in result.arrays.values():
        np.testing.assert_allclose(array.numpy(), 2.0, rtol=1e-5)


@pytest.mark.parametrize("key", ["norm_bit", "loss"])
def test_a_metric_that_a_wrapper_looks_up_is_not_left_out_by_one(key, tmp_path):
    def spoil(message, reply):
        kept = {k: v for k, v in reply.content["metrics"].items() if k != key}
        reply.content["metrics"] = MetricRecord(kept)
        return reply

    notes, _ = play("client-side, adaptive", spoil, tmp_path)
    for record in notes.rounds:
        (out,) = [p for p in record.participations if p.outcome != "trained"]
        assert (out.client, record.trained) == (HOSTILE, CLIENTS - 1) and key in out.reason


def test_arrays_in_another_order_are_clipped_as_the_same(tmp_path):
    turned = arrays(lambda a: dict(reversed(a.items())))
    notes, result = play("server-side, fixed", turned, tmp_path)
    assert [record.trained for record in notes.rounds] == [CLIENTS] * 3
    assert list(result.arrays) == ["w", "b"]
