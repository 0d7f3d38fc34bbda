"""Files that describe devices are read, and wrong ones are refused with their place."""

import math

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.devices import without_loading
from aoi_fl.lab.simulated_time.phone_availability import phones
from aoi_fl.lab.simulated_time.traces import make_trace, read_trace, too_few, too_few_decide
from tests.fakes import availability
from tests.refusals import refused


def changes(folder, **other):
    arrays = {
        "offsets": [0, 3, 5],
        "seconds": [0, 10, 30, 0, 40],
        "available": [False, True, False, True, False],
        "training_seconds": [3.0, 5.0],
    }
    path = folder / "trace.npz"
    np.savez(path, **{k: np.array(v) for k, v in (arrays | other).items() if v is not None})
    return path


def test_a_trace_of_changes_is_read(tmp_path):
    trace = read_trace(changes(tmp_path))
    assert (trace.clients, trace.unit, trace.availability.period) == (2, "training", 40.0)
    assert trace.availability.begins.tolist() == [10.0, 0.0]
    assert trace.availability.ends.tolist() == [30.0, 40.0]
    assert trace.speed.tolist() == [3.0, 5.0] and np.isinf(trace.download).all()
    assert read_trace(changes(tmp_path, upload=[8.0, 9.0])).upload.tolist() == [8.0, 9.0]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"available": [math.nan, 0, 1, 1, 0]}, "client 0: available"),
        ({"seconds": [0, 30, 10, 0, 40]}, "client 0: second"),
        ({"training_seconds": [3.0, -1.0]}, "client 1: seconds for its training"),
        ({"training_seconds": [3.0]}, "training_seconds"),
        ({"available": None}, "arrays"),
        ({"offsets": [0, 3, 9]}, "offsets"),
        ({"offsets": np.array([0, 7, 5], np.uint64)}, "offsets"),
        ({"upload": [9.0, 0.0]}, "client 1: upload"),
        ({"seconds": [0, 10j, 30, 0, 40]}, "seconds"),
        ({"seconds": [0, 10, 30, 0, math.inf]}, "client 1: second"),
        ({"offsets": [0, 1, 2], "seconds": [0, 0], "available": [True, True]}, "largest second"),
    ],
)
def test_wrong_changes_are_named_with_their_file(tmp_path, other, words):
    path = changes(tmp_path, **other)
    with refused(words) as error:
        read_trace(path)
    assert str(path) in str(error.value)


def test_another_format_is_refused(tmp_path):
    (tmp_path / "trace").write_bytes(b"client,begin,end\n0,0,5\n")
    with refused("content"):
        read_trace(tmp_path / "trace")


def test_too_few_available_clients_are_counted():
    day = [[(0.0, 50.0)], [(0.0, 100.0)], [(0.0, 30.0)]]
    trace = without_loading(availability(day, 100.0))
    assert too_few(trace, 1) is None and too_few_decide(make_trace("always", 3, 1), 3) is None
    assert "selects 2 clients, but only 1.8 of 3" in too_few(trace, 2) and "1.3" in too_few(trace, 2, 1.3)
    assert all(number in too_few_decide(trace, 2) for number in ("60.0 %", "1.2 of 2"))


@pytest.mark.parametrize(
    ("clock", "words"),
    [("alway", "always"), ("bernoulli:x", "number"), ("bernoulli:0", "above 0"), ("nowhere.npz", "a file that exists")],
)
def test_a_clock_without_a_meaning_is_refused(clock, words):
    with refused("clock", clock, words):
        make_trace(clock, 5, 1)


def test_a_run_with_more_clients_than_the_trace_is_refused(tmp_path):
    assert make_trace(str(changes(tmp_path)), 1, 1).clients == 1
    with refused("num-clients", 3):
        make_trace(str(changes(tmp_path)), 3, 1)


def test_generated_phones_resemble_measured_ones():
    trace = make_trace("generated", 400, 3)
    assert not np.array_equal(trace.speed, phones(400, 4).speed)
    shares = trace.availability.shares
    assert 0.12 < shares.mean() < 0.20 and (shares < 0.05).mean() > 0.1 and shares.max() > 0.6
    assert trace.speed.min() >= 2 and trace.speed.max() <= 56
    by_hour = [np.mean([trace.availability.here(86400 * d + 3600 * h).mean() for d in range(7)]) for h in range(24)]
    assert max(by_hour) > 1.3 * min(by_hour)
