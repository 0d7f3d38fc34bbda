"""Files that describe devices: what is read of them, and what is said of those that are wrong."""

import math
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.availability import Availability
from aoi_fl.lab.simulated_time.devices import alike, steady
from aoi_fl.lab.simulated_time.phone_availability import PhoneAvailability
from aoi_fl.lab.simulated_time.traces import make_trace, read_trace, too_few, too_few_decide
from tests.refusals import refused

PHONES = Path(__file__).parents[3] / "shared" / "data" / "availability_300.npz"


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


def test_changes_are_read(tmp_path):
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
        ({"available": [0, 1, 0, 5, 0]}, "client 1: available"),
        ({"available": [0, -1, 0, 1, 0]}, "client 0: available"),
        ({"seconds": [0, 30, 10, 0, 40]}, "client 0: second"),
        ({"seconds": [-5, 10, 30, 0, 40]}, "client 0: second"),
        ({"training_seconds": [3.0, -1.0]}, "client 1: seconds for its training"),
        ({"training_seconds": [3.0]}, "training_seconds"),
        ({"available": None}, "arrays"),
        ({"offsets": [0, 3, 9]}, "offsets"),
        ({"offsets": [0.0, 3.0, 5.0]}, "offsets"),
        ({"offsets": np.array([0, 7, 5], np.uint64)}, "offsets"),
        ({"offsets": 5}, "offsets"),
        ({"download": [9.0]}, "download"),
        ({"upload": [9.0, 0.0]}, "client 1: upload"),
        ({"seconds": ["0", "10", "30", "0", "40"]}, "seconds"),
        ({"seconds": [0, 10j, 30, 0, 40]}, "seconds"),
        ({"seconds": [0, 10, 30, 0, math.inf]}, "client 1: second"),
        ({"seconds": [0, 10, math.nan, 0, 40]}, "client 0: second"),
        ({"offsets": [0, 1, 2], "seconds": [0, 0], "available": [True, True]}, "largest second"),
    ],
)
def test_wrong_changes_are_named_with_their_file(tmp_path, other, words):
    path = changes(tmp_path, **other)
    with refused(words) as error:
        read_trace(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("member", ["offsets", "seconds", "available", "training_seconds"])
@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 0.9])
def test_a_damaged_npz_file_is_named(tmp_path, member, where):
    path = tmp_path / "t.npz"
    arrays = dict(np.load(changes(tmp_path)))
    np.savez_compressed(path, **arrays)
    assert read_trace(path).clients == 2
    blob = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        about = file.getinfo(f"{member}.npy")
    lengths = np.frombuffer(blob, "<u2", 2, about.header_offset + 26)  # of its name, and of what else stands there
    blob[about.header_offset + 30 + int(lengths.sum()) + int(where * about.compress_size)] ^= 0xFF
    path.write_bytes(blob)
    with refused("content"):
        read_trace(path)


def test_a_member_that_is_no_array_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as file:
        for name in ("offsets", "seconds", "available", "training_seconds"):
            file.writestr(name, "0,1,2")
    with refused("content", None, "offsets"):
        read_trace(tmp_path / "t.npz")


@pytest.mark.parametrize(
    "held", [b"client,begin,end\n0,0,5\n", b"\x93NUMPY\x01\x00v\x00{'descr'}", pickle.dumps({1: {"active": [0]}}), b""]
)
def test_another_format_is_refused(held, tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(held)
    with refused("content"):
        read_trace(path)


def test_a_trace_is_shown_to_policies_with_the_key(tmp_path):
    day = [[(0.0, 50.0)], [(0.0, 100.0)], [(0.0, 30.0)]]
    trace = alike(Availability.from_spells(day, 100.0))
    assert too_few(trace, 1) is None and too_few_decide(steady(3), 3) is None
    assert "A round selects 2 clients, but only 1.8 of 3 are available" in too_few(trace, 2)
    assert "Lower clients-per-round (2 times over-selection 1.3), or" in too_few(trace, 2, 1.3)
    warning = too_few_decide(trace, 2)
    assert "for 60.0 % of the time" in warning and "about 1.2 of 2 will take part" in warning
    assert "compensate=availability (markov-optimal, systematic)" in warning


@pytest.mark.parametrize(
    ("clock", "words"),
    [("alway", "always"), ("bernoulli:x", "number"), ("bernoulli:0", "above 0"), ("nowhere.npz", "a file that exists")],
)
def test_a_clock_that_names_nothing_is_answered(clock, words):
    with refused("clock", clock, words):
        make_trace(clock, 5, 1)


def test_a_run_with_more_clients_than_the_trace_is_refused(tmp_path):
    assert make_trace(str(changes(tmp_path)), 1, 1).clients == 1
    with refused("num-clients", 3):
        make_trace(str(changes(tmp_path)), 3, 1)


def test_the_generator_resembles_the_phones_of_the_trace():
    trace = make_trace("generated", 400, 3)
    again, other = PhoneAvailability().trace(400, 3), PhoneAvailability().trace(400, 4)
    assert np.array_equal(trace.availability.begins, again.availability.begins)
    assert not np.array_equal(trace.speed, other.speed)
    shares = trace.availability.shares
    assert 0.12 < shares.mean() < 0.20
    assert (shares < 0.05).mean() > 0.1
    assert shares.max() > 0.6
    assert trace.speed.min() >= 2.0
    assert trace.speed.max() <= 56.0
    by_hour = [np.mean([trace.availability.here(86400 * d + 3600 * h).mean() for d in range(7)]) for h in range(24)]
    assert max(by_hour) > 1.3 * min(by_hour)


def test_the_phones_are_read():
    if not PHONES.is_file():
        pytest.skip("the trace of 300 phones is not beside this checkout (../shared/data)")
    trace = read_trace(PHONES)
    shares = trace.availability.shares
    assert trace.clients == 300
    assert shares.mean() == pytest.approx(0.157, abs=0.001)
    assert shares.max() == pytest.approx(0.91, abs=0.01)
    assert (trace.speed.min(), np.median(trace.speed), trace.speed.max()) == (2, 10, 56)
    assert math.isfinite(trace.availability.returns(trace.availability.period).min())
