"""Clients that are lost: the estimate of how many, and the table that makes up for it, in federations as played."""

import logging
from functools import partial

import numpy as np
import pytest

from aoi_fl.protocol.records import SURPLUS
from aoi_fl.science import draws
from aoi_fl.science.dropout import achieved
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import MarkovParticipation
from tests import fakes
from tests.fakes import HELLO, HUNG, TRAIN, ScriptedGrid, ToyApp, zeros

N, K, M, D = 20, 8, 5, 0.3
WIRES = ("poll", "broadcast", "reserve")


def failing(dropout):
    """Return an app whose clients fail with probability d before training."""

    def behave(message, act, sent, round_, client):
        if sent == TRAIN and draws.uniform(77, round_, "lost", client) < dropout:
            raise RuntimeError("out of reach")
        return act()

    return ToyApp(examples=1, loss=None, spoil=behave)


def play(folder, app, wire="poll", *, n=N, k=K, rounds, **options):
    make = partial(MarkovParticipation.optimal, n, k, M, coordination=wire, compensate="dropout")
    return fakes.play(make, app, folder, rounds, n, start=zeros(), **{"seed": 5} | options)


def test_the_estimate_by_hand(tmp_path):
    """Round 1 is played with the plain table; its willing and lost make the second round's d."""
    notes = play(tmp_path, failing(D), rounds=3)
    willing, lost = float(K), 0.0
    for record, after in zip(notes.rounds, notes.rounds[1:], strict=False):
        failed = sum(p.outcome == "failed" for p in record.participations)
        willing, lost = 0.98 * willing + record.willing, 0.98 * lost + failed
        assert record.trained == record.willing - failed
        assert after.dropout == round(lost / willing, 3) > 0


def silent(kind, round_, client):
    """Clients 0 and 1 answer the roll call and nothing else."""
    return HUNG if client < 2 and kind != HELLO else 0


@pytest.mark.parametrize("wire", WIRES)
def test_surplus_clients_are_not_lost(wire, tmp_path):
    notes = play(tmp_path, failing(0), wire, rounds=12, enough=K // 2)
    assert sum(part.reason == SURPLUS for part in notes.parts) > 12
    assert set(notes.column("dropout")) == {0.0}


@pytest.mark.parametrize("wire", ["poll", "broadcast"])
def test_a_silent_client_counts_as_willing_as_the_others(wire, tmp_path):
    grid = partial(ScriptedGrid, script=silent)
    short = {"ask_timeout": 0.05, "train_timeout": 0.05, "deterministic": False}
    notes = play(tmp_path, failing(0), wire, rounds=2, grid=grid, **short)
    first, second = notes.rounds
    assert notes.of_outcome("late")[0] == [0, 1]
    lost = 2 * first.trained / (N - 2)
    assert second.dropout == round(lost / (0.98 * K + first.trained + lost), 3) > 0


def test_a_certain_participation_achieves_what_dropout_leaves():
    assert achieved(np.array([0.5]), 1.0).tolist() == [0.001]  # no weight is infinite
    assert MarkovPolicy.rated(np.array([0.5, 0.2])).with_dropout(1.0).table(0) == (1.0, 1.0)


def test_too_much_dropout_is_cut_and_named(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "flwr"):
        notes = play(tmp_path, failing(0.5), n=10, k=8, rounds=40)
    said = [r.getMessage() for r in caplog.records if "tables make up for" in r.getMessage()]
    assert len(said) >= 1 and "20.0 %" in said[0]
    assert max(notes.column("dropout")) == 0.2 and notes.rounds[-1].dropout == 0.2
