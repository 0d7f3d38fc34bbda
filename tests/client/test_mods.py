"""Mods and functions of our app, and of a plain app that is attached, see what Flower's own strategies send."""

from functools import partial

import flwr.clientapp
import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.differential_privacy import KEY_CLIPPING_NORM, KEY_NORM_BIT

from aoi_fl import protocol
from aoi_fl.client import ClientApp, ask_of, attach
from aoi_fl.flower import messages
from aoi_fl.strategies import MarkovParticipation, RandomSelection
from tests import fakes
from tests.fakes import ScriptedGrid, record_of, reply_of, request, zeros
from tests.refusals import refused

STEP = np.array([3.0, 4.0], np.float32)  # of length 5
NORM = 0.5


def learn(message, context):
    arrays = record_of({"w": message.content["arrays"]["w"].numpy() + STEP})
    return reply_of(message, {"num-examples": 10, "loss": 1.0}, arrays)


def trained(notes):
    return [model["w"] for model in notes.models]


def make(wire, **how):
    if wire == protocol.CENTRAL:
        return RandomSelection(3, **how)
    return MarkovParticipation.optimal(3, 2, 4, coordination=wire, **how)


# A plain app that is attached, and ours.
@pytest.fixture(params=[*zip(("central", *protocol.WIRES), 2 * (flwr.clientapp.ClientApp, ClientApp), strict=True)])
def play(request, tmp_path):
    """Return a function that plays two rounds with every client's training behind a mod."""

    def play(*mods, train=learn, config=None):
        wire, kind = request.param
        app = attach(kind(mods=list(mods)))
        app.train()(train)
        made = partial(make, wire, configure=lambda round_: config or {})
        notes = fakes.play(made, app, tmp_path, nodes=3, start=zeros())
        assert all((record.dropped, record.empty) == (0, False) for record in notes.rounds)
        return notes, [r.content for r in notes.grid.replies if r.has_content() and "arrays" in r.content]

    return play


@pytest.mark.parametrize("mod", [fixedclipping_mod, adaptiveclipping_mod])
def test_clipping_mods_clip_the_updates(mod, play):
    notes, replies = play(mod, config={KEY_CLIPPING_NORM: NORM})
    np.testing.assert_allclose(trained(notes), np.outer([1, 2], STEP * NORM / 5), rtol=1e-6)
    bits = [content["metrics"].get(KEY_NORM_BIT) for content in replies]
    assert replies and set(bits) == {1 if mod is adaptiveclipping_mod else None}


def test_a_function_sees_what_fedavg_would_have_sent(play):
    seen = []

    def echo(message, context):
        seen.append(message.content.copy())
        message.content["metrics"] = MetricRecord({"num-examples": 1})
        return Message(message.content, reply_to=message)

    notes, replies = play(train=echo, config={"lr": 0.5})
    stock = FedAvg(min_train_nodes=1, min_available_nodes=1, fraction_train=1.0)
    grid = ScriptedGrid(flwr.clientapp.ClientApp(), {}, 1)
    (message,) = stock.configure_train(1, zeros(), ConfigRecord({"lr": 0.5}), grid)
    assert seen[0] == message.content
    assert {content["config"]["server-round"] for content in seen} == {1, 2}
    assert all("takes-part" in content["aoi"] and "run" not in content["aoi"] for content in replies)
    np.testing.assert_array_equal(trained(notes), np.zeros((2, 2)))


def test_the_request_is_visible_only_during_its_message(play):
    asks, inner = [], ClientApp()
    inner.train()(learn)

    def train(message, context):
        reply = inner(message, context)  # which has no request
        asks.append((ask_of(context), message.content["config"]["server-round"]))
        return reply

    play(train=train)
    assert asks and all((ask.run, ask.round) == ("r", round_) for ask, round_ in asks)
    with refused("context"):
        ask_of(messages.context(1, 2, {}))


def test_a_plain_app_keeps_its_functions_and_its_lifespan(tmp_path):
    plain, lives = flwr.clientapp.ClientApp(), []
    app = attach(plain)

    @app.lifespan()
    def lifespan(context):
        lives.append(context)
        yield

    app.train()(learn)
    plain.evaluate()(learn)
    context = messages.context(1, 2, {"runs-dir": str(tmp_path)}, {"partition-id": 0, "simulated": True})
    for kind in ("train", "evaluate"):
        message = request(kind, protocol.ParticipationRequest("r", 1), arrays=zeros(), config=ConfigRecord({}))
        assert app(message, context).content["metrics"]["num-examples"] == 10
    assert len(lives) == 2


def test_adopting_our_own_app_changes_nothing():
    assert attach(app := ClientApp()) is app
    with refused("app"):
        attach(learn)
