"""Compressed updates in a federation: from the client's durable residual to the server's guard."""

from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.common.serde import message_from_proto, message_to_proto

from aoi_fl.client.compression import Residuals
from aoi_fl.engine.local import LocalGrid
from aoi_fl.flower.messages import bytes_of
from aoi_fl.protocol import ParticipationReply
from aoi_fl.protocol.arrays import to_record
from aoi_fl.strategies import RandomSelection
from tests import fakes
from tests.fakes import HOSTILE, MODEL, ScriptedGrid, ToyApp

CODES = ["float16", "int8"]
ODD = {
    "scale": np.array(1.5, np.float32),
    "shift": np.array(-0.25),
    "none": np.zeros((0, 3), np.float32),
    "no": np.zeros(0, np.int64),
    "steps": np.array(3),
    "on": np.array(True),
}


def drift(round_, partition):
    """Return what a round of training adds: a little that float16 can't tell beside much, and much of it at random."""
    rng = np.random.default_rng([round_, partition])
    return {"w": rng.standard_normal((2, 3)).astype(np.float32), "b": rng.standard_normal(2) + 1e-4}


class App(ToyApp):
    """An app whose client 1 may change its replies."""

    def __init__(self, change=None):
        super().__init__(spoil=change and self.changed)
        self.change = change

    def changed(self, message, act, kind, round_, client):
        reply = act()
        if (kind, client) == ("train", HOSTILE):
            self.change(reply)
        return reply

    def trained(self, arrays, client, round_):
        change = drift(round_, client)
        return {name: array + change.get(name, 2) for name, array in arrays.items()}


class Listening(ScriptedGrid):
    """A grid that puts every reply into Flower's protobuf form and back."""

    def heard(self, reply, *about):
        return message_from_proto(message_to_proto(reply))


def play(folder, compression, rounds=3, app=None, nodes=4, make=RandomSelection, grid=Listening, **more):
    how = {"grid": grid, "compression": compression, **more}
    notes, *_ = fakes.play(partial(make, nodes), app or App(), folder, rounds, nodes, **how)
    return notes, notes.grid


# A federation


@pytest.mark.parametrize("compression", CODES)
def test_models_differ_from_plain_ones_by_the_residuals(compression, tmp_path):
    plain, _ = play(tmp_path / "plain", "none", rounds=8)
    notes, grid = play(tmp_path / "coded", compression, rounds=8)
    assert all((r.trained, r.dropped) == (4, 0) for r in notes.rounds)
    left = [Residuals(tmp_path / "coded/r/clients", f"client-{i}", _clock(7, 8)).before(9) for i in range(4)]
    for name in ("w", "b"):
        mean = np.mean([residual[name] for residual in left], axis=0)
        assert left[0][name].dtype == MODEL[name].dtype and np.abs(mean).max() > 0
        # Σ decoded = Σ differences − residual, client by client, so the mean model lacks the mean residual, no more.
        np.testing.assert_allclose(notes.models[-1][name] + mean, plain.models[-1][name], rtol=0, atol=2e-6)
        assert not np.array_equal(notes.models[-1][name], plain.models[-1][name])
    assert notes.models[-1]["steps"] == plain.models[-1]["steps"] == 3 + 8 * 2
    said = [ParticipationReply.read(u.content["aoi"]) for u in grid.updates]
    assert {(a.compression, len(a.scales)) for a in said} == {(compression, 2 * (compression == "int8"))}


def _clock(before, last):
    from aoi_fl.science.age import ClientAge

    return ClientAge(last=last, before=before)


def test_the_residuals_of_three_participations_are_kept(tmp_path):
    play(tmp_path, "int8", rounds=6)
    found = sorted(p.relative_to(tmp_path / "r/clients").as_posix() for p in (tmp_path / "r/clients").rglob("*.npz"))
    assert found == [f"client-{i}.residuals/{t}.npz" for i in range(4) for t in (4, 5, 6)]
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_infinite_update_is_refused_without_a_residual(bad, tmp_path):
    class Diverged(App):
        def trained(self, arrays, client, round_):
            made = super().trained(arrays, client, round_)
            if client == HOSTILE:
                made["w"][0, 0] = bad
            return made

    notes, _ = play(tmp_path, "int8", app=Diverged())
    for record in notes.rounds:
        (part,) = [p for p in record.participations if p.outcome != "trained"]
        assert (part.client, part.outcome) == (HOSTILE, "refused") and "NaN or Inf" in part.reason
    assert not (tmp_path / "r/clients/client-1.residuals").exists()


@pytest.mark.parametrize("compression", ["none", *CODES])
def test_arrays_without_axes_and_empty_ones_are_learnt(compression, tmp_path):
    app = ToyApp(lambda a, *_: np.asarray(a if a.dtype == bool else a + 1, a.dtype))
    notes, _ = play(tmp_path, compression, 2, app, start=to_record(ODD))
    assert [r.trained for r in notes.rounds] == [4, 4]
    for name, array in notes.models[-1].items():
        assert (array.dtype, array.shape) == (ODD[name].dtype, ODD[name].shape)
        np.testing.assert_allclose(array, ODD[name] + (0 if name == "on" else 2), rtol=1e-6)


# The guard


def answer(**changes):
    def spoil(reply):
        record = {**reply.content["aoi"], **changes}
        reply.content["aoi"] = ConfigRecord({k: v for k, v in record.items() if v is not None})

    return spoil


def array(name, change):
    def spoil(reply):
        arrays = {k: a.numpy() for k, a in reply.content["arrays"].items()}
        arrays[name] = change(arrays[name])
        reply.content["arrays"] = ArrayRecord({k: Array(np.asarray(v)) for k, v in arrays.items()})

    return spoil


NAN = float("nan")
ADVERSARIES = {
    "a code of another width": ("int8", array("w", lambda w: w.astype("f2")), ["array w is float16", "int8"]),
    "no code": ("int8", array("w", lambda w: w.astype("f4")), ["array w is float32", "the code's is int8"]),
    "a coded integer": ("int8", array("steps", lambda w: w.astype("i1")), ["array steps is int8", "int64"]),
    "another shape": ("int8", array("w", lambda w: w.T), ["array w", "(3, 2)", "(2, 3)"]),
    "a huge code": ("int8", array("w", lambda w: np.zeros(10**6, "i1")), ["array w has", "bytes"]),
    "NaN in float16": ("float16", array("w", lambda w: w * np.float16(NAN)), ["array w holds NaN or Inf"]),
    "a NaN scale": ("int8", answer(scales=[0.1, NAN]), ["malformed answer", "scales"]),
    "a negative scale": ("int8", answer(scales=[0.1, -0.1]), ["scale of array b is -0.1"]),
    "a scale that overflows": ("int8", answer(scales=[3e38, 0.1]), ["array w holds NaN or Inf once it is decoded"]),
    "no scales": ("int8", answer(scales=None), ["0 scales for 2 arrays"]),
    "a scale too many": ("int8", answer(scales=[0.1, 0.1, 0.1]), ["3 scales for 2 arrays"]),
    "scales for float16": ("float16", answer(scales=[0.1, 0.1]), ["2 scales for 0 arrays"]),
    "another code than asked for": ("float16", answer(compression="int8"), ["'int8'", "asked for is 'float16'"]),
    "a code unsaid": ("int8", answer(compression=None), ["array w is int8", "the model's is float32"]),
    "a code nobody asked for": ("none", answer(compression="int8", scales=[0.1, 0.1]), ["asked for is 'none'"]),
}


@pytest.mark.parametrize(("compression", "spoil", "words"), ADVERSARIES.values(), ids=ADVERSARIES)
def test_a_malformed_code_is_dropped_and_named(compression, spoil, words, tmp_path):
    notes, _ = play(tmp_path, compression, app=App(spoil), rounds=2, grid=LocalGrid)
    for record, arrays in zip(notes.rounds, notes.models, strict=True):
        (offender,) = [p for p in record.participations if p.outcome != "trained"]
        assert (offender.client, offender.outcome) == (HOSTILE, "refused")
        assert all(word in offender.reason for word in words), offender.reason
        assert record.trained == 3 and all(np.isfinite(a).all() for a in arrays.values())


# Bytes


@pytest.mark.parametrize(("compression", "share"), [("float16", 0.51), ("int8", 0.26)])
def test_a_compressed_2nn_update_is_smaller_in_flower(compression, share, tmp_path):
    rng = np.random.default_rng(1)
    shapes = [(200, 784), (200,), (200, 200), (200,), (10, 200), (10,)]
    first = {f"layer{i}": rng.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)}
    app = ToyApp(lambda array, *_: array * np.float32(1.01))

    def size(kind):
        _, grid = play(tmp_path / kind, kind, 1, app, nodes=1, start=to_record(first))
        return bytes_of(grid.updates[-1])

    assert size(compression) <= share * size("none")


# The real task
