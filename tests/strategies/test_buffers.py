"""Buffers: infinite values that stay as they are, and whole numbers beyond what float64 holds."""

from functools import partial
from itertools import cycle

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedYogi

from aoi_fl.protocol import npy
from aoi_fl.strategies import MarkovParticipation, RandomSelection
from tests import fakes
from tests.fakes import ToyApp, examples_of, record_of, values

N = 4
INF, NAN = float("inf"), float("nan")
MASK = np.triu(np.full((4, 4), -INF, np.float32), 1)


def play(change, model, tmp_path, rounds=2, make=RandomSelection, **options):
    """Run rounds of clients that return what ``change`` makes of an array's name, its values and their number."""

    app = ToyApp(examples=examples_of)
    app.trained = lambda arrays, client, round_: {k: change(k, array, client) for k, array in arrays.items()}
    notes = fakes.play(partial(make, N), app, tmp_path, rounds, N, start=record_of(model), **options)
    return notes, values(notes.result.arrays)


def outcomes(notes):
    return [sorted((p.client, p.outcome) for p in record.participations) for record in notes.rounds]


TRAINED = [[(c, "trained") for c in range(N)]] * 2
MAKERS = {
    "our mean": RandomSelection,
    "unbiased weights": partial(RandomSelection, weights="unbiased"),
    "Flower's": lambda n, **s: RandomSelection(n, aggregation=FedAvg(), **s),
    "a step of one's own": type(
        "Own",
        (RandomSelection,),
        {"aggregate_train": lambda self, r, replies: FedAvg().aggregate_train(r, list(replies))},
    ),
}
BUFFERS = {
    "a causal mask": MASK,
    "an observer's minimum": np.array(INF, np.float32),
    "an observer's maximum": np.full(3, -INF),
    "not known yet": np.array([NAN, 1.0]),
    "in half precision": np.array([INF, -INF, 2.0], np.float16),
}


@pytest.mark.parametrize(
    ("make", "compression"), [*zip(MAKERS.values(), cycle(["none", "int8", "float16"])), (RandomSelection, "int8")]
)
def test_what_is_not_finite_stays_and_the_rest_is_trained(make, compression, tmp_path, caplog):
    model = {"w": np.zeros(3, np.float32), **BUFFERS}
    notes, found = play(
        lambda name, array, number: array + 1 if name == "w" else array,
        model,
        tmp_path,
        make=make,
        compression=compression,
    )
    assert outcomes(notes) == TRAINED and not any(notes.column("empty"))
    np.testing.assert_allclose(found["w"], 2.0, rtol=1e-2)
    for name, buffer in BUFFERS.items():
        np.testing.assert_allclose(found[name], buffer, rtol=1e-3)
        assert found[name].dtype == buffer.dtype
        assert caplog.text.count(f"Array {name} of the first model holds") == 1


@pytest.mark.parametrize(
    ("at", "value", "bad"),
    [((0, 0), NAN, "refused"), ((0, 0), -INF, "refused"), ((0, 1), INF, "refused"), ((0, 1), -INF, "trained")],
)
def test_what_was_finite_or_another_infinity_is_refused(at, value, bad, tmp_path):
    def spoil(name, array, number):
        if number == 1:
            array = array.copy()
            array[at] = value
        return array

    notes, found = play(spoil, {"mask": MASK}, tmp_path)
    assert outcomes(notes) == [[(0, "trained"), (1, bad), (2, "trained"), (3, "trained")]] * 2
    np.testing.assert_array_equal(found["mask"], MASK)


def test_late_updates_of_such_a_model_are_changes():
    change = npy.change(np.array([-INF, 2.0, NAN, 3.0]), np.array([-INF, 1.0, NAN, 1.0]))
    assert change.tolist() == [0.0, 1.0, 0.0, 2.0]
    assert not np.isfinite(npy.change(np.array([INF]), np.array([-INF])))[0]
    assert npy.change(np.array([2**60 + 1, 1]), np.array([2**60, 3])).tolist() == [1.0, -2.0]
    assert npy.change(np.ones(1, np.float32), np.zeros(1)).dtype == np.float32


# Whole numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_large_whole_numbers_come_back_as_they_are(make, tmp_path):
    model = {
        "ids": np.array([2**53 + 1, 2**60 + 7, -(2**63), 2**63 - 1]),
        "unsigned": np.array([[2**64 - 1, 2**53 + 1, 5]], np.uint64),
        "count": np.array(2**53 + 1),
    }
    notes, found = play(lambda name, array, number: array, model | {"w": np.zeros(2)}, tmp_path, make=make)
    assert outcomes(notes) == TRAINED
    for name, buffer in model.items():
        assert found[name].dtype == buffer.dtype and found[name].tolist() == buffer.tolist()


def test_a_large_whole_number_has_no_mean_and_stays(tmp_path):
    _, found = play(lambda name, array, number: array + number, {"n": np.array([2**40 + 1, 7])}, tmp_path, rounds=1)
    assert found["n"].tolist() == [2**40 + 1, 9]  # 7 and the mean of 0 to 3 by size, 2


STEPS = {
    "server momentum": lambda n, **s: RandomSelection(n, aggregation=FedAvgM(server_momentum=0.9), **s),
    "adaptive": lambda n, **s: RandomSelection(n, aggregation=FedAdam(eta=1.0), **s),
    "weights above 1": lambda n, **s: MarkovParticipation.optimal(n, 2, weights="unbiased", **s),
}


@pytest.mark.parametrize(
    ("name", "make"),
    [*zip(["bn.running_var", "BatchNorm_0/batch_stats/var", "bn/moving_variance", "own"], cycle(STEPS.values()))],
)
def test_batch_statistics_are_averaged_outside_the_step(make, name, tmp_path):
    def change(key, array, client):
        return array + 1 + client if key == "w" else np.full_like(array, 0.1 + 0.1 * client)

    model = {"w": np.zeros(2, np.float32), name: np.full(2, 5.0, np.float32), "bn.num_batches_tracked": np.array(3)}
    notes, found = play(change, model, tmp_path, rounds=5, make=make, measured=("own",))
    weights = {p.client: p.weight for p in notes.rounds[-1].participations}
    mean = np.average([0.1 + 0.1 * client for client in weights], weights=list(weights.values()))
    np.testing.assert_allclose(found[name], mean, rtol=1e-5)
    assert found["bn.num_batches_tracked"] == 0


@pytest.mark.parametrize("make", [FedAdam, FedYogi])
def test_an_array_that_no_client_changes_stays_under_an_adaptive_step(make, tmp_path):
    frozen = np.random.default_rng(0).normal(size=(9, 9)).astype(np.float32)
    _, found = play(
        lambda name, array, client: array + 1 if name == "w" else array,
        {"base": frozen, "w": np.zeros(2, np.float32)},
        tmp_path,
        rounds=5,
        make=lambda n, **s: RandomSelection(n, aggregation=make(eta=0.1, tau=1e-9), **s),
    )
    np.testing.assert_array_equal(found["base"], frozen)
    assert (found["w"] > 0.1).all()
