"""Compressed updates in a federation: from the client's durable residual to the server's guard."""

import numpy as np
import pytest
from flwr.common.serde import message_from_proto, message_to_proto

from aoi_fl.protocol import ParticipationReply
from tests.fakes import HOSTILE, MODEL, ScriptedGrid, ToyApp, everyone, hostile_app, play, with_answer, with_w

CODES = ["float16", "int8"]


def drift(round_, partition):
    """Return what a round of training adds: a little that float16 can't tell beside much, and much of it at random."""
    rng = np.random.default_rng([round_, partition])
    return {"w": rng.standard_normal((2, 3)).astype(np.float32), "b": rng.standard_normal(2) + 1e-4}


class Drifting(ToyApp):
    def trained(self, arrays, client, round_):
        change = drift(round_, client)
        return {name: array + change.get(name, 2) for name, array in arrays.items()}


class Listening(ScriptedGrid):
    """A grid that puts every reply into Flower's protobuf form and back."""

    def heard(self, reply, *about):
        return message_from_proto(message_to_proto(reply))


@pytest.mark.parametrize("compression", CODES)
def test_models_differ_from_plain_ones_by_the_residuals(compression, tmp_path):
    plain = play(everyone, Drifting(), tmp_path / "plain", 8)
    notes = play(everyone, Drifting(), tmp_path / "coded", 8, grid=Listening, compression=compression)
    assert all((r.trained, r.dropped) == (4, 0) for r in notes.rounds)
    left = [np.load(tmp_path / f"coded/r/clients/client-{i}.residuals/8.npz") for i in range(4)]
    for name in ("w", "b"):
        mean = np.mean([residual[name] for residual in left], axis=0)
        assert left[0][name].dtype == MODEL[name].dtype and np.abs(mean).max() > 0
        # Σ decoded = Σ differences − residual, client by client, so the mean model lacks the mean residual, no more.
        np.testing.assert_allclose(notes.models[-1][name] + mean, plain.models[-1][name], rtol=0, atol=2e-6)
        assert not np.array_equal(notes.models[-1][name], plain.models[-1][name])
    assert notes.models[-1]["steps"] == plain.models[-1]["steps"] == 3 + 8 * 2
    said = [ParticipationReply.read(u.content["aoi"]) for u in notes.grid.updates]
    assert {(a.compression, len(a.scales)) for a in said} == {(compression, 2 * (compression == "int8"))}


NAN = float("nan")
ADVERSARIES = {
    "a code of another width": ("int8", with_w(lambda w: w.astype("f2")), ["array w is float16", "int8"]),
    "a NaN scale": ("int8", with_answer(scales=[0.1, NAN]), ["malformed answer", "scales"]),
    "a scale that overflows": ("int8", with_answer(scales=[3e38, 0.1]), ["array w holds NaN or Inf once"]),
    "no scales": ("int8", with_answer(scales=None), ["0 scales for 2 arrays"]),
    "another code than asked for": ("float16", with_answer(compression="int8"), ["'int8'", "asked for is 'float16'"]),
    "a code unsaid": ("int8", with_answer(compression=None), ["array w is int8", "the model's is float32"]),
    "a code not asked for": ("none", with_answer(compression="int8", scales=[0.1, 0.1]), ["asked for is 'none'"]),
}


@pytest.mark.parametrize(("compression", "spoil", "words"), ADVERSARIES.values(), ids=ADVERSARIES)
def test_a_malformed_code_is_dropped_and_named(compression, spoil, words, tmp_path):
    notes = play(everyone, hostile_app(spoil), tmp_path, compression=compression)
    for record, arrays in zip(notes.rounds, notes.models, strict=True):
        (offender,) = [p for p in record.participations if p.outcome != "trained"]
        assert (offender.client, offender.outcome) == (HOSTILE, "refused")
        assert all(word in offender.reason for word in words), offender.reason
        assert record.trained == 3 and all(np.isfinite(a).all() for a in arrays.values())
