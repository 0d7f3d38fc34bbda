"""What was made fast gives what the plain way gives: reading updates, summing them, drawing, and storing states."""

import io

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.client.state import ClientState, StateFile, written_together
from aoi_fl.engine.local import LocalGrid
from aoi_fl.protocol import npy
from aoi_fl.protocol.arrays import from_record, to_record
from aoi_fl.science import draws
from aoi_fl.strategies.aggregation.mean import RunningMean
from aoi_fl.strategies.validation import read_update
from tests.refusals import refused

SHAPES = [(), (0,), (0, 3), (7,), (3, 5, 2), (140_000,)]


def reply_with(record: ArrayRecord) -> Message:
    sent = Message(RecordDict(), 1, "train")
    content = RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=sent)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_update_is_read_as_numpy_reads_it_and_not_copied(shape):
    for dtype in ["float32", "float64", "int64", "float16", "uint8", "bool"]:
        for order in ["C", "F"]:
            values = np.asarray(np.random.default_rng(1).integers(0, 2, shape), dtype, order=order)
            record = ArrayRecord({"w": Array(values)})
            found = read_update(reply_with(record), record, "num-examples").arrays["w"]
            wanted = np.load(io.BytesIO(record["w"].data))
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(found, wanted)
            if values.size:
                assert np.shares_memory(found, np.frombuffer(record["w"].data, np.uint8))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_arrays_are_written_as_numpy_and_flower_write_them(shape):
    for dtype in ["float32", ">f8", "int16", "bool"]:
        for layout in ["C", "F", "strided"]:
            values = np.asarray(
                np.random.default_rng(1).integers(0, 2, shape), dtype, order=layout[0].replace("s", "C")
            )
            values = values[..., ::2] if layout == "strided" and values.ndim else values
            wanted = Array(values)
            found = to_record({"w": values})["w"]
            assert (found.dtype, found.shape, found.stype, found.data) == (
                wanted.dtype,
                wanted.shape,
                wanted.stype,
                wanted.data,
            )
            back = from_record(ArrayRecord({"w": wanted}))["w"]
            assert (
                back.dtype == values.dtype
                and back.flags.writeable
                and not np.shares_memory(back, npy.view(wanted.data))
            )
            np.testing.assert_array_equal(back, values)


def test_only_arrays_of_numbers_are_written_and_read():
    with pytest.raises(ValueError, match="objects"):
        npy.dumps(np.array([None]))
    file = io.BytesIO()
    np.save(file, np.array([{}]))
    for blob, text in [
        (file.getvalue(), "pickled"),
        (b"\x93NUMPY\x03\0" + bytes(20), "version"),
        (b"PK", "magic"),
        (b"", "magic"),
    ]:
        with pytest.raises(ValueError, match=text):
            npy.view(blob)


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
            for value, finite in [
                (np.nan, False),
                (np.inf, False),
                (-np.inf, False),
                (largest, True),
                (-largest, True),
            ]:
                values[place] = value
                assert npy.is_finite(values) is finite
                assert npy.is_finite(values[:, ::7]) is bool(np.isfinite(values[:, ::7]).all())
            values[place] = 1
        values[0, :2], values[1, :2] = (
            [np.inf, largest],
            [-np.inf, largest],
        )  # a sum must not make up for one by another
        assert not npy.is_finite(values)
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


def test_unwritable_states_are_named_and_leave_nothing(tmp_path):
    StateFile(tmp_path / "t", "b").save(ClientState(1))
    file = StateFile(tmp_path / "t", "c")
    with written_together() as write:
        file.save(ClientState(2))
        (tmp_path / "t").rename(tmp_path / "u")
        (tmp_path / "t").write_text("no folder")
        with refused("state-dir"):
            write()
    assert [p.name for p in (tmp_path / "u").iterdir()] == ["b.json"]


def test_the_local_engine_settles_before_the_last_reply():
    app, events = ClientApp(), []

    @app.train()
    def train(message, context):
        events.append(context.node_config["partition-id"])
        return Message(RecordDict(), reply_to=message)

    grid = LocalGrid(app, {}, 3, lambda: events.append("settled"))
    ids = list(grid.push_messages([Message(RecordDict(), node, "train") for node in grid.get_node_ids()]))
    for i in ids:
        events.append(len(list(grid.pull_messages([i]))))
    assert events == [0, 1, 1, 1, 2, "settled", 1]
