"""Central policies that learn from reports, played by real clients: what they are told is what decides."""

import time

import numpy as np
import pytest

from aoi_fl.lab.rivals.oort import OortSettings
from aoi_fl.strategies.policy import ClientOutcome
from aoi_fl.strategies.selection.selector import (
    AskedChoice,
    F3astSelection,
    FedCSSelection,
    OortSelection,
    ReflSelection,
    ReportedChoice,
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


def test_evaluations_without_a_loss_choose_nobody_and_say_why(tmp_path):
    with pytest.raises(Exception, match="has no loss"):
        play(tmp_path, lambda **s: AskedChoice(K, N, **s), toy(tells=False), 2)


def test_reported_losses_decide_once_everybody_was_tried(tmp_path):
    notes = play(tmp_path, lambda **s: ReportedChoice(K, N, **s), toy(), 8)
    known, value = {}, 0.0
    for record, model in zip(notes.rounds, models(notes), strict=True):
        chosen = trained(record)
        if record.round <= N // K:
            assert not known.keys() & set(chosen)
        else:
            assert chosen == sorted(sorted(range(N), key=lambda i: -known[i])[:K])
        known |= {i: np.float64(own_loss(i, value)) for i in chosen}
        value = model
    assert notes.state_dict["policy/seen-losses"] == pytest.approx([known[i] for i in range(N)])
    assert notes.state_dict["policy/seen-taken"].sum() == 8 * K


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


LEARNING = {
    "rpow-d": lambda **s: ReportedChoice(K, 5, **s),
    "oort": lambda **s: OortSelection(K, OortSettings(penalty=0.0), **s),  # seconds measured would differ
    "refl": lambda **s: ReflSelection(K, **s),
    "f3ast": lambda **s: F3astSelection(K, **s),
}


@pytest.mark.parametrize("make", LEARNING.values(), ids=LEARNING)
def test_a_resumed_run_knows_what_it_had_learned(make, tmp_path):
    whole = play(tmp_path / "whole", make, toy(), 12)
    first = play(tmp_path / "parts", make, toy(), 6)
    second = play(tmp_path / "parts", make, toy(), 12, first)
    assert [trained(r) for r in whole.rounds] == [trained(r) for r in first.rounds + second.rounds]
    assert models(whole)[-1] == models(second)[-1]


def test_f3ast_weighs_updates_by_the_rates_that_it_has_learned(tmp_path):
    notes = play(tmp_path, lambda **s: F3astSelection(K, **s), toy(), 5)
    rates, value = np.full(N, K / N), 0.0
    for record, model in zip(notes.rounds, models(notes), strict=True):
        chosen = trained(record)
        rates = 0.99 * rates + 0.01 * np.isin(np.arange(N), chosen)
        weights = {p.client: p.weight for p in record.participations}
        assert weights == pytest.approx({i: 1 / N / rates[i] for i in chosen})
        assert model == pytest.approx(value + sum(w * 0.5 * (i - value) for i, w in weights.items()), rel=1e-5)
        value = model
    assert sorted(i for record in notes.rounds[: N // K] for i in trained(record)) == list(range(N))


def test_fedcs_passes_over_who_took_too_long(tmp_path):
    notes = play(
        tmp_path, lambda **s: FedCSSelection(4, 0.25, N, **s), toy(seconds=lambda client: 0.3 * (client == 3)), 8
    )
    chosen = [trained(record) for record in notes.rounds]
    seconds = notes.state_dict["policy/seen-seconds"]
    assert sum(3 in clients for clients in chosen) <= 1
    late = [i for i in range(N) if seconds[i] > 0.25]  # who waited for it in its round took as long
    assert all(sum(i in clients for clients in chosen) <= 2 for i in late) and all(chosen)
