"""Aggregations of any kind, over replies that pass our own checks: a reply that spoils them is left out and named."""

import json
from functools import partial

import numpy as np
import pytest
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import strategy as flower

from aoi_fl.strategies import PrivateMean, RandomSelection
from aoi_fl.strategies.aggregation import state
from aoi_fl.strategies.aggregation.base import together
from tests import fakes
from tests.fakes import HOSTILE, ToyApp, hostile_app, raises, slow, values, with_arrays, with_metrics, with_w

CLIENTS = 7
STRATEGIES = {
    "FedYogi": partial(flower.FedYogi, eta=0.1),
    "FedAdam": partial(flower.FedAdam, eta=0.1),
    "FedAdagrad": partial(flower.FedAdagrad, eta=0.1),
    "FedAvgM": partial(flower.FedAvgM, server_momentum=0.9, server_learning_rate=1.0),
    "Bulyan": partial(flower.Bulyan, num_malicious_nodes=1),
    "Krum": partial(flower.Krum, num_malicious_nodes=1),
    "FedMedian": flower.FedMedian,
    "QFedAvg": partial(flower.QFedAvg, client_learning_rate=0.5, train_loss_key="loss"),
    "FedAvg": flower.FedAvg,
}


def floats():
    """Return the model without its integers, which some strategies cannot take."""
    return ArrayRecord({k: v for k, v in fakes.model().items() if k != "steps"})


START = floats()
play = partial(fakes.play, nodes=CLIENTS, start=START)


def in_round(spoil, rounds=(1,)):
    """Misbehave in some rounds, and be honest in the others."""
    return lambda message, act: spoil(message, act) if message.content["config"]["server-round"] in rounds else act()


def huge(value):
    return with_w(lambda w: np.full_like(w, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 3e38) for name in STRATEGIES if name != "QFedAvg"),
        *(("FedYogi", 1e25), ("QFedAvg", 1e25), ("Krum", -3.4e38)),
        *slow(("QFedAvg", 3e38)),
    ],
)
def test_one_huge_update_never_ruins_the_model(name, value, tmp_path):
    """Where the strategy withstands it, the reply counts; else the round is as if its client had failed."""
    strategy = STRATEGIES[name]()
    make = partial(RandomSelection, CLIENTS, aggregation=strategy)
    notes = play(make, hostile_app(in_round(huge(value), (2,))), tmp_path, rounds=3)
    found, kept = values(notes.result.arrays), state.dump(vars(strategy))[0]
    assert all(np.isfinite(array).all() for array in (*found.values(), *kept.values()))
    assert values(START).keys() == found.keys()  # QFedAvg empties the record that it is given
    assert not any(notes.column("empty"))
    if refusals(notes):
        assert refusals(notes) == {2: [HOSTILE]}
        without = partial(RandomSelection, CLIENTS, aggregation=STRATEGIES[name]())
        expected = play(without, hostile_app(in_round(FAILS, (2,))), tmp_path / "b", rounds=3)
        for key, array in values(expected.arrays).items():
            assert array.tobytes() == found[key].tobytes()


def refusals(notes):
    """Return the clients that were refused by round."""
    return {round_: clients for round_, clients in enumerate(notes.of_outcome("refused"), 1) if clients}


FAILS = raises(RuntimeError("not in this round"))


def mean_of(key):
    """Return a function for the metrics that expects one of every client, as users write it."""
    return lambda contents, weight: MetricRecord({key: float(np.mean([c["metrics"][key] for c in contents]))})


def private(**settings):
    return PrivateMean(clip=1.0, noise_multiplier=0.5, rounds=2, per_round=CLIENTS, metrics="clear", **settings)


LACKS_LOSS = with_metrics(num_examples=20)
BY_LOSS = {"train_metrics_aggr_fn": mean_of("loss")}
FAILURES = {
    "QFedAvg without a loss": (STRATEGIES["QFedAvg"], {}),
    "a function of FedAvg's": (partial(flower.FedAvg, **BY_LOSS), {}),
    "a function of ours": (lambda: None, BY_LOSS),
    "late updates": (lambda: None, BY_LOSS | {"late_rounds": 2}),
    "a private mean": (private, BY_LOSS),
    "a private FedAdam's": (lambda: private(strategy=flower.FedAdam(**BY_LOSS)), {}),
}


@pytest.mark.parametrize(("make", "options"), FAILURES.values(), ids=FAILURES)
def test_an_exception_over_one_reply_costs_that_reply(make, options, tmp_path):
    strategy = partial(RandomSelection, CLIENTS, aggregation=make())
    start = ArrayRecord({"b": fakes.model()["b"]})
    notes = play(strategy, hostile_app(in_round(LACKS_LOSS)), tmp_path, start=start, **options)
    assert refusals(notes) == {1: [HOSTILE]} and not any(notes.column("empty"))
    assert notes.column("trained") == [CLIENTS - 1, CLIENTS] and notes.memories[1]["last"][HOSTILE] == 0
    assert all(part.weight is None for part in notes.rounds[0].participations if part.client == HOSTILE)
    assert len(notes.memories[1]["failures"]) == 1  # the client rests where a selector can do without it
    if "train_metrics_aggr_fn" in options:
        assert notes.result.train_metrics_clientapp[1]["loss"] == np.mean(
            [1.0 + i for i in range(CLIENTS) if i != HOSTILE]
        )


def test_an_update_near_the_end_of_its_type_spoils_no_weighted_sum(tmp_path):
    for name, weights, options in (("b", "size", {}), ("w", "unbiased", {}), ("b", "size", {"max_weight": 0.5})):

        def largest(arrays, name=name):
            return arrays | {name: np.full_like(arrays[name], np.finfo(arrays[name].dtype).max)}

        make = partial(RandomSelection, CLIENTS, weights=weights)
        notes = play(make, hostile_app(with_arrays(largest)), tmp_path / f"{name}{len(options)}", **options)
        assert refusals(notes) == {1: [HOSTILE], 2: [HOSTILE]} and not any(notes.column("empty"))
        assert all(np.abs(array).max() < 1e3 for array in values(notes.result.arrays).values())


@pytest.mark.parametrize("needs", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_the_replies_to_blame_are_found(count, needs):
    """The oracle knows them; an aggregation may need several replies, and a few calls are enough for one of many."""
    for bad in (
        {0},
        {count - 1},
        {3 * count // 7},
        {1 % count, count // 2},
        set(range(0, count, 3)),
        set(range(count)),
    ):
        calls = []

        def make(some, bad=bad, calls=calls):
            calls.append(some)
            if bad.intersection(some) or len(some) < min(needs, count - len(bad)):
                raise ValueError

        _, good, why = together({i: i for i in range(count)}, make)
        assert isinstance(why, ValueError) and not bad.intersection(good)
        if len(bad) == 1:
            assert len(calls) <= 3 * count.bit_length() + 8
        assert len(calls) <= 64
        assert len(bad) > (2, 20)[needs == 1] or good == [i for i in range(count) if i not in bad]


EVALUATIONS = {
    "a function of ours": (lambda: None, {"evaluate_metrics_aggr_fn": mean_of("accuracy")}),
    "a function of FedAvg's": (lambda: flower.FedAvg(evaluate_metrics_aggr_fn=mean_of("accuracy")), {}),
}


@pytest.mark.parametrize(("make", "options"), EVALUATIONS.values(), ids=EVALUATIONS)
def test_an_exception_over_one_evaluation_loses_it_alone(make, options, tmp_path, caplog):
    strategy = partial(RandomSelection, CLIENTS, aggregation=make())
    app = hostile_app(with_metrics(num_examples=1, loss=1.0), kinds=("evaluate",))
    notes = play(strategy, app, tmp_path, evaluate_clients=CLIENTS, **options)
    assert [(r.empty, r.client_accuracy) for r in notes.rounds] == [(False, 0.5)] * 2
    assert "is left out" in caplog.text


TREES = {
    "no JSON": b"\xff\xfe garbage",
    "an empty object": b"{}",
    "nested without end": b"[" * 50_000,
}


GOOD = (
    b'{"learner": {"gradient_booster": {"model": {"gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "1"}, '
    b'"iteration_indptr": [0, 1], "tree_info": [0], "trees": [{"id": 0}]}}}}'
)


@pytest.mark.parametrize("payload", TREES.values(), ids=TREES)
def test_a_garbage_tree_does_not_end_a_run_of_xgboost(payload, tmp_path):
    def tree(array, client, round_):
        return np.frombuffer(payload if client == HOSTILE and round_ == 2 else GOOD, np.uint8)

    app = ToyApp(tree, examples=1, loss=None)
    make = partial(RandomSelection, CLIENTS, aggregation=flower.FedXgbBagging())
    notes = play(make, app, tmp_path, rounds=3, start=ArrayRecord([np.zeros(0, np.uint8)]))
    assert refusals(notes) == {2: [HOSTILE]} and not any(notes.column("empty"))
    trees = json.loads(notes.result.arrays["0"].numpy().tobytes())["learner"]["gradient_booster"]["model"]["trees"]
    assert len(trees) == 3 * CLIENTS - 1  # the half-made bags of round 2 have left nothing
