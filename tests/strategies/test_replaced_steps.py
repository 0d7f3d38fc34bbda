"""A subclass that replaces a step without ``super()`` changes neither participation, nor ages, nor the guard."""

import functools
import operator

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.strategies import OldestAge, RandomSelection
from tests.fakes import (
    HOSTILE,
    MODEL,
    Notes,
    expected,
    honest_app,
    hostile_app,
    play,
    raises,
    same_model,
    values,
    with_arrays,
)
from tests.refusals import refused

N = 4


def mean(replies):
    """Return a plain mean of updates, weighted by examples."""
    sizes = [reply.content["metrics"]["num-examples"] for reply in replies]
    arrays = [values(reply.content["arrays"]) for reply in replies]
    return ArrayRecord(
        {k: Array(np.asarray(sum(s * a[k] for s, a in zip(sizes, arrays, strict=True)) / sum(sizes))) for k in MODEL}
    )


class OwnMean:
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        return (mean(replies), None) if replies else (None, None)


class ByFedAvg:
    """One that lets an object of Flower's do it."""

    def aggregate_train(self, server_round, replies):
        return FedAvg().aggregate_train(server_round, list(replies))


def subclass(kind, how=OwnMean):
    return lambda *args, **settings: type(f"Own{kind.__name__}", (how, kind), {})(*args, **settings)


def assigned(kind):
    """Return a maker of one whose method is given to the object alone."""

    def make(*args, **settings):
        strategy = kind(*args, **settings)
        strategy.aggregate_train = lambda server_round, replies: OwnMean.aggregate_train(None, server_round, replies)
        return strategy

    return make


def patched(kind):
    def make(*args, **settings):
        made = type("Patched", (kind,), {})
        strategy = made(*args, **settings)
        made.aggregate_train = OwnMean.aggregate_train
        return strategy

    return make


HOW = {
    "a method": subclass,
    "Flower's": lambda kind: subclass(kind, ByFedAvg),
    "assigned": assigned,
    "patched": patched,
}


def whom(notes, outcome="trained"):
    return [sorted(p.client for p in record.participations if p.outcome == outcome) for record in notes.rounds]


def facts(notes):
    return [
        [(p.client, p.outcome, p.age, p.examples, p.loss, p.reason) for p in record.participations]
        for record in notes.rounds
    ]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_oldest_age_trains_clients_equally_often(how, tmp_path):
    notes, _result, _ = play(lambda **s: how(OldestAge)(2, **s), honest_app(), tmp_path, rounds=10)
    assert np.bincount(functools.reduce(operator.iadd, whom(notes), []), minlength=N).tolist() == [5] * N
    assert not any(record.empty for record in notes.rounds)
    assert [record.trained for record in notes.rounds] == [2] * 10
    plain, _, _ = play(lambda **s: OldestAge(2, **s), honest_app(), tmp_path / "plain", rounds=10)
    assert facts(notes) == facts(plain)
    assert {p.weight for record in notes.rounds for p in record.participations} == {None}


NAN, WRONG = np.full((2, 3), np.nan, np.float32), np.zeros(3, np.float32)
BAD = [*(with_arrays(lambda a, w=w: a | {"w": w}) for w in (NAN, WRONG)), raises(RuntimeError("no"))]


@pytest.mark.parametrize("spoil", BAD)
@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_what_the_guard_refuses_reaches_no_step(how, spoil, tmp_path):
    notes, result, _ = play(lambda **s: how(RandomSelection)(N, **s), hostile_app(spoil), tmp_path)
    others = [c for c in range(N) if c != HOSTILE]
    assert whom(notes) == [others] * 2
    assert [p.client for r in notes.rounds for p in r.participations if p.outcome in ("failed", "refused")] == [1, 1]
    same_model(result.arrays, expected(others, 2))


def test_what_cannot_be_known_is_said_once(tmp_path, caplog):
    play(lambda **s: subclass(RandomSelection)(N, **s), honest_app(), tmp_path, rounds=3)
    assert caplog.text.count("makes the model without super()") == 1


def test_compressed_updates_reach_a_step_as_arrays(tmp_path):
    shapes = []

    class Own(RandomSelection):
        def aggregate_train(self, server_round, replies):
            for reply in replies:
                shapes.append({k: (a.dtype, tuple(a.shape)) for k, a in reply.content["arrays"].items()})
            return mean(replies), None

    play(lambda **s: Own(N, **s), honest_app(), tmp_path, rounds=1, compression="int8")
    assert shapes == [{k: (str(v.dtype), v.shape) for k, v in MODEL.items()}] * N


def test_an_update_that_a_subclass_leaves_out_has_no_weight(tmp_path):
    class Own(RandomSelection):
        def aggregate_train(self, server_round, replies):
            return super().aggregate_train(server_round, [r for r in replies if r.content["metrics"]["loss"] != 2.0])

    notes, result, _ = play(lambda **s: Own(N, **s), honest_app(), tmp_path, rounds=1)
    assert whom(notes) == [[0, 1, 2, 3]]
    assert {p.client: p.weight for p in notes.rounds[0].participations} == {0: 0.125, 1: 0.0, 2: 0.375, 3: 0.5}
    same_model(result.arrays, expected([0, 2, 3], 1))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_step_whose_model_is_not_finite_leaves_the_model(value, tmp_path, caplog):
    class Own(RandomSelection):
        def aggregate_train(self, server_round, replies):
            arrays = values(mean(list(replies)))
            return ArrayRecord({k: Array(np.asarray(v * value if k == "b" else v)) for k, v in arrays.items()}), None

    notes = Notes()
    with pytest.raises(NothingTrainedError, match="no model was made of 4 updates"):
        play(lambda **s: Own(N, **s), honest_app(), tmp_path, notes=notes)
    same_model(notes.arrays, MODEL)
    assert [record.empty for record in notes.rounds] == [True, True] and whom(notes) == [[0, 1, 2, 3]] * 2
    assert ": None" not in caplog.text


def test_a_client_chosen_by_a_subclass_alone_is_recorded(tmp_path, caplog):
    class Own(OldestAge):
        def configure_train(self, server_round, arrays, config, grid):
            nodes = sorted(grid.get_node_ids())[:2]
            return [Message(RecordDict({"arrays": arrays, "config": config}), node, "train") for node in nodes]

    notes, result, _ = play(lambda **s: Own(2, **s), honest_app(), tmp_path, rounds=3)
    assert [len(clients) for clients in whom(notes)] == [2, 2, 2]
    assert not any(record.empty for record in notes.rounds)
    assert [p.age for p in notes.rounds[2].participations] == [0, 0]
    assert caplog.text.count("chooses the clients without super()") == 1
    same_model(result.arrays, expected(whom(notes)[0], 3))


def test_a_step_outside_a_round_is_refused():
    with refused("round", 1, "RandomSelection.start"):
        RandomSelection(2).aggregate_train(1, [])


class Evaluates(RandomSelection):
    def configure_evaluate(self, server_round, arrays, config, grid):
        content = RecordDict({"arrays": arrays, "config": config})
        return [Message(content, node, "evaluate") for node in grid.get_node_ids()]


class Judges(RandomSelection):
    def aggregate_evaluate(self, server_round, replies):
        losses = [reply.content["metrics"]["loss"] for reply in replies]
        return MetricRecord({"loss": float(np.mean(losses))})


class Both(Judges, Evaluates):
    pass


def test_evaluations_a_subclass_asks_for_are_used(tmp_path):
    notes, _result, _ = play(lambda **s: Evaluates(N, **s), honest_app(), tmp_path)
    wanted = sum(c * (c + 1) for c in range(N)) / 10  # the loss is the client's number, its examples 10 more each
    assert [r.client_loss for r in notes.rounds] == [pytest.approx(wanted)] * 2


@pytest.mark.parametrize("kind", [Judges, Both])
def test_a_bad_evaluation_reaches_no_step(kind, tmp_path):
    def bad(message, act):
        reply = act()
        reply.content["metrics"]["loss"] = float("nan")
        return reply

    notes, _, _ = play(lambda **s: kind(N, **s), hostile_app(bad, ("evaluate",)), tmp_path, evaluate_clients=N)
    assert [r.client_loss for r in notes.rounds] == [pytest.approx((0 + 2 + 3) / 3)] * 2
