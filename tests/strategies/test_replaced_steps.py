"""A subclass that replaces a step without ``super()`` changes neither participation, nor ages, nor the guard."""

from functools import partial

import numpy as np
import pytest
from flwr.app import Array, Message, MetricRecord, RecordDict
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
    with_w,
)
from tests.refusals import refused

N = 4


class OwnMean:
    """A step by an object of Flower's."""

    def aggregate_train(self, server_round, replies):
        return FedAvg().aggregate_train(server_round, list(replies))


def subclass(kind):
    return type(f"Own{kind.__name__}", (OwnMean, kind), {})


def assigned(kind):
    """Return a maker of one whose method is given to the object alone."""

    def make(*args, **settings):
        strategy = kind(*args, **settings)
        strategy.aggregate_train = partial(OwnMean.aggregate_train, None)
        return strategy

    return make


HOW = {"a method": subclass, "assigned": assigned}


def facts(notes):
    return [
        [(p.client, p.outcome, p.age, p.examples, p.loss, p.reason) for p in record.participations]
        for record in notes.rounds
    ]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_a_step_of_its_own_changes_no_participation(how, tmp_path):
    notes, plain = (
        play(partial(make, 2, weights="size"), honest_app(), tmp_path / name, rounds=6, compression="int8")
        for name, make in (("own", how(OldestAge)), ("plain", OldestAge))
    )
    assert facts(notes) == facts(plain) and notes.column("trained") == [2] * 6
    assert {p.weight for p in notes.parts} == {None}
    for name, array in plain.models[-1].items():  # it gets arrays, not codes
        np.testing.assert_allclose(notes.models[-1][name], array, rtol=1e-6)


BAD = [with_w(lambda w: w * np.float32(np.nan)), raises(RuntimeError("no"))]


@pytest.mark.parametrize("spoil", BAD)
@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_what_the_guard_refuses_reaches_no_step(how, spoil, tmp_path):
    notes = play(partial(how(RandomSelection), N), hostile_app(spoil), tmp_path)
    others = [c for c in range(N) if c != HOSTILE]
    assert notes.trained() == [others] * 2 and notes.column("dropped") == [1, 1]
    same_model(notes.result.arrays, expected(others, 2))


def test_an_update_that_a_subclass_leaves_out_has_no_weight(tmp_path):
    class Own(RandomSelection):
        def aggregate_train(self, server_round, replies):
            return super().aggregate_train(server_round, [r for r in replies if r.content["metrics"]["loss"] != 2.0])

    notes = play(partial(Own, N), honest_app(), tmp_path, rounds=1)
    assert notes.trained() == [[0, 1, 2, 3]]
    assert {p.client: p.weight for p in notes.parts} == {0: 0.125, 1: 0.0, 2: 0.375, 3: 0.5}
    same_model(notes.result.arrays, expected([0, 2, 3], 1))


def test_a_step_whose_model_is_not_finite_leaves_the_model(tmp_path):
    class Own(OwnMean, RandomSelection):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            arrays["b"] = Array(arrays["b"].numpy() * np.nan)
            return arrays, metrics

    notes = Notes()
    with pytest.raises(NothingTrainedError, match="no model was made of 4 updates"):
        play(partial(Own, N), honest_app(), tmp_path, notes=notes)
    same_model(notes.arrays, MODEL)
    assert notes.column("empty") == [True, True] and notes.trained() == [[0, 1, 2, 3]] * 2


def test_a_client_chosen_by_a_subclass_alone_is_recorded(tmp_path):
    class Own(OldestAge):
        def configure_train(self, server_round, arrays, config, grid):
            nodes = sorted(grid.get_node_ids())[:2]
            return [Message(RecordDict({"arrays": arrays, "config": config}), node, "train") for node in nodes]

    notes = play(partial(Own, 2), honest_app(), tmp_path, rounds=3)
    assert [len(clients) for clients in notes.trained()] == [2, 2, 2]
    assert not any(notes.column("empty"))
    assert [p.age for p in notes.rounds[2].participations] == [0, 0]
    same_model(notes.result.arrays, expected(notes.trained()[0], 3))


def test_a_step_outside_a_round_is_refused():
    with refused("round", 1, "RandomSelection.start"):
        RandomSelection(2).aggregate_train(1, [])


class Evaluates(RandomSelection):
    def configure_evaluate(self, server_round, arrays, config, grid):
        content = RecordDict({"arrays": arrays, "config": config})
        return [Message(content, node, "evaluate") for node in grid.get_node_ids()]

    def aggregate_evaluate(self, server_round, replies):
        losses = [reply.content["metrics"]["loss"] for reply in replies]
        return MetricRecord({"loss": float(np.mean(losses))})


def test_a_bad_evaluation_reaches_no_step(tmp_path):
    def bad(message, act):
        reply = act()
        reply.content["metrics"]["loss"] = float("nan")
        return reply

    notes = play(partial(Evaluates, N), hostile_app(bad, ("evaluate",)), tmp_path)
    assert notes.column("client_loss") == [pytest.approx((0 + 2 + 3) / 3)] * 2
