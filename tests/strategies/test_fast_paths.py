"""What was made fast gives what the plain way gives: reading updates, summing them, and drawing."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from aoi_fl.protocol import npy
from aoi_fl.protocol.arrays import from_record, to_record
from aoi_fl.science import draws
from aoi_fl.strategies.aggregation.mean import RunningMean
from aoi_fl.strategies.validation import read_update

SHAPES = [(), (0,), (0, 3), (7,), (3, 5, 2), (140_000,)]


def reply_with(record):
    sent = Message(RecordDict(), 1, "train")
    content = RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=sent)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", ">f8", "float16", "int64", "bool"])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_arrays_are_written_and_read_as_by_numpy_and_flower(layout, dtype, shape):
    order = "F" if layout == "F" else "C"
    values = np.asarray(np.random.default_rng(1).integers(0, 2, shape), dtype, order=order)
    values = values[..., ::2] if layout == "strided" and values.ndim else values
    wanted, found = Array(values), to_record({"w": values})["w"]
    assert vars(found) == vars(wanted)
    record = ArrayRecord({"w": wanted})
    back = from_record(record)["w"]
    assert back.flags.writeable and not np.shares_memory(back, npy.view(wanted.data))
    read = read_update(reply_with(record), record, "num-examples").arrays["w"]
    assert np.shares_memory(read, np.frombuffer(wanted.data, np.uint8)) == (values.size > 0)  # it is not copied
    for array in (back, read):
        assert (array.dtype, array.shape) == (values.dtype, values.shape)
        np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_running_mean_equals_a_plain_sum_bit_for_bit(shape):
    rng = np.random.default_rng(2)
    updates = [np.asarray(rng.standard_normal(shape), np.float32, order=o) for o in "CFC"]
    weights = [0.3, 7.0, 1.9]
    mean = RunningMean(ArrayRecord({"w": Array(updates[0])}))
    total = np.zeros(shape)
    for update, weight in zip(updates, weights, strict=True):
        mean.add({"w": update}, weight)
        total = total + update.astype(np.float64) * weight
    wanted = np.asarray(total / np.float64(0.3 + 7.0 + 1.9), np.float32)
    assert mean.result()["w"].numpy().tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "complex64"])
def test_values_that_are_not_finite_are_found_wherever_they_are(dtype):
    for order in ["C", "F"]:
        values = np.ones((3, 50_000), dtype, order=order)
        largest = np.finfo(dtype).max
        for place in [(0, 0), (1, 17), (2, 49_999)]:
            for value in (np.nan, np.inf, -np.inf, largest, -largest):
                values[place] = value
                for part in (values, values[:, ::7]):
                    assert npy.is_finite(part) is bool(np.isfinite(part).all())
            values[place] = 1
        values[:2, :2] = largest  # their sum is none, and each is a number
        with np.errstate(all="raise"):
            assert npy.is_finite(values)


def test_a_single_draw_is_the_one_of_the_vector_across_blocks():
    vector = draws.uniforms(5, 9, "participate", 1030)
    assert [draws.uniform(5, 9, "participate", i) for i in range(1030)] == vector.tolist()
    far = 2**63 - 1  # as a client has that is numbered by its name
    bits = draws._philox(5, 9, "x")
    bits.advance(far // 4)
    assert draws.uniform(5, 9, "x", far) == np.random.Generator(bits).random(4)[3]
