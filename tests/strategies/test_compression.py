"""Compressed updates in a federation: from the client's durable residual to the server's guard."""

from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.common.serde import message_from_proto, message_to_proto

from aoi_fl.client.compression import Residuals
from aoi_fl.engine.local import LocalGrid
from aoi_fl.protocol import ParticipationReply
from aoi_fl.science.age import ClientAge
from aoi_fl.strategies import RandomSelection
from tests import fakes
from tests.fakes import HOSTILE, MODEL, ScriptedGrid, ToyApp

CODES = ["float16", "int8"]


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


@pytest.mark.parametrize("compression", CODES)
def test_models_differ_from_plain_ones_by_the_residuals(compression, tmp_path):
    plain, _ = play(tmp_path / "plain", "none", rounds=8)
    notes, grid = play(tmp_path / "coded", compression, rounds=8)
    assert all((r.trained, r.dropped) == (4, 0) for r in notes.rounds)
    left = [
        Residuals(tmp_path / "coded/r/clients", f"client-{i}", ClientAge(last=8, before=7)).before(9) for i in range(4)
    ]
    for name in ("w", "b"):
        mean = np.mean([residual[name] for residual in left], axis=0)
        assert left[0][name].dtype == MODEL[name].dtype and np.abs(mean).max() > 0
        # Σ decoded = Σ differences − residual, client by client, so the mean model lacks the mean residual, no more.
        np.testing.assert_allclose(notes.models[-1][name] + mean, plain.models[-1][name], rtol=0, atol=2e-6)
        assert not np.array_equal(notes.models[-1][name], plain.models[-1][name])
    assert notes.models[-1]["steps"] == plain.models[-1]["steps"] == 3 + 8 * 2
    said = [ParticipationReply.read(u.content["aoi"]) for u in grid.updates]
    assert {(a.compression, len(a.scales)) for a in said} == {(compression, 2 * (compression == "int8"))}


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
    "another shape": ("int8", array("w", lambda w: w.T), ["array w", "(3, 2)", "(2, 3)"]),
    "a huge code": ("int8", array("w", lambda w: np.zeros(10**6, "i1")), ["array w has", "bytes"]),
    "a NaN scale": ("int8", answer(scales=[0.1, NAN]), ["malformed answer", "scales"]),
    "a scale that overflows": ("int8", answer(scales=[3e38, 0.1]), ["array w holds NaN or Inf once it is decoded"]),
    "no scales": ("int8", answer(scales=None), ["0 scales for 2 arrays"]),
    "another code than asked for": ("float16", answer(compression="int8"), ["'int8'", "asked for is 'float16'"]),
    "a code unsaid": ("int8", answer(compression=None), ["array w is int8", "the model's is float32"]),
    "a code not asked for": ("none", answer(compression="int8", scales=[0.1, 0.1]), ["asked for is 'none'"]),
}


@pytest.mark.parametrize(("compression", "spoil", "words"), ADVERSARIES.values(), ids=ADVERSARIES)
def test_a_malformed_code_is_dropped_and_named(compression, spoil, words, tmp_path):
    notes, _ = play(tmp_path, compression, app=App(spoil), rounds=2, grid=LocalGrid)
    for record, arrays in zip(notes.rounds, notes.models, strict=True):
        (offender,) = [p for p in record.participations if p.outcome != "trained"]
        assert (offender.client, offender.outcome) == (HOSTILE, "refused")
        assert all(word in offender.reason for word in words), offender.reason
        assert record.trained == 3 and all(np.isfinite(a).all() for a in arrays.values())
