"""Central policies that learn from reports, played by real clients: what they are told is what decides."""

import time

import numpy as np

from aoi_fl.strategies.policy import ClientOutcome
from aoi_fl.strategies.selection.selector import (
    AskedChoice,
    report,
)
from tests import fakes
from tests.fakes import EVALUATE, ToyApp, zeros

N, K = 8, 2


def own_loss(client: int, value: float) -> float:
    """Return a client's loss under a model w: the farther w is from the client's number, the larger."""
    return abs(client - value)


def toy(tells=True, broken=(), seconds=lambda client: 0.0) -> ToyApp:
    """Return an app whose training moves w towards the client's number; losses are of the model that arrives."""

    def learn(array, client, round_):
        time.sleep(seconds(client))
        return array + array.dtype.type(0.5) * (client - array)

    def behave(message, act, kind, round_, client):
        if client in broken and kind == EVALUATE:
            raise RuntimeError("no data")
        value, reply = float(message.content["arrays"]["w"].numpy()[0]) if "arrays" in message.content else 0.0, act()
        if tells and "metrics" in reply.content:
            reply.content["metrics"]["loss"] = own_loss(client, value)
        return reply

    return ToyApp(learn, loss=None, evaluates=lambda client: None, spoil=behave)


def play(folder, make, app, rounds, after=None):
    """Run rounds, or go on with those of a run's notes."""
    begin = {"start": zeros(1)} if after is None else {"start": after.arrays, "resume": after.resume()}
    return fakes.play(make, app, folder, rounds, N, seed=5, **begin)[0]


def models(notes):
    return [float(model["w"][0]) for model in notes.models]


def trained(record):
    return sorted(part.client for part in record.participations if part.outcome == "trained")


def test_asked_candidates_with_the_highest_losses_train(tmp_path):
    notes = play(tmp_path, lambda **s: AskedChoice(K, N, **s), toy(), 6)
    value = 0.0
    for record, model in zip(notes.rounds, models(notes), strict=True):
        wanted = sorted(range(N), key=lambda i: -own_loss(i, value))[:K]
        assert trained(record) == sorted(wanted)
        assert record.asked == N and record.messages == 2 * (N + K) + (2 * N if record.round == 1 else 0)
        value = model


def test_a_candidate_that_cannot_evaluate_is_named(tmp_path):
    notes = play(tmp_path, lambda **s: AskedChoice(K, N, **s), toy(broken=(7,)), 2)
    first = notes.rounds[0]
    assert trained(first) == [5, 6]
    assert [(p.client, p.outcome) for p in first.participations if p.outcome != "trained"] == [(7, "failed")]


def test_a_report_has_what_came_and_who_was_tried_in_vain():
    def part(client, result, **how):
        return ClientOutcome(client, "train", False, False, result, **how)

    outcomes = [
        part(4, "late", seconds=9.0),
        part(2, "late"),  # said nothing to a question: it was sent no model
        part(3, "failed"),
        part(1, "late", seconds=7.0),
        part(5, "trained", seconds=2.0),
        part(0, "trained", loss=0.5, seconds=3.0),
    ]
    told = report(outcomes)
    assert told.clients.tolist() == [0, 5] and told.seconds.tolist() == [3, 2]
    assert told.losses[0] == 0.5 and np.isnan(told.losses[1])
    assert told.late.tolist() == [1, 3, 4] and told.waited.tolist() == [7, 0, 9]
