"""Over a network a newcomer is asked in the message that greets it: the same decisions, in two messages fewer."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import MarkovParticipation
from aoi_fl.strategies.round import run as round_run
from aoi_fl.strategies.round.timer import RoundTimer
from tests import fakes
from tests.fakes import ASK, HELLO, ScriptedGrid, ToyApp, zeros

N, ALL, ROUNDS = 6, 8, 12  # two more come in round 5
markov = partial(MarkovParticipation, MarkovPolicy.increasing(N, 3, 5))


def late(grid):
    """Two clients connect in round 5."""
    return range(ALL if grid.round >= 4 else N)


def learn(array, client, round_):
    return array + np.float32(client)


def play(make, folder, far, monkeypatch, app=None, present=late, **settings):
    """Run rounds over what the strategy takes for a network, if ``far``."""
    monkeypatch.setattr(round_run, "uploads", lambda grid: far)
    how = {"start": zeros(3), "seed": 5, "ask_timeout": 5.0}
    grid = partial(ScriptedGrid, present=present)
    return fakes.play(partial(make, **settings), app or ToyApp(learn), folder, ROUNDS, ALL, grid=grid, **how)


def decisions(notes):
    return [
        (r.asked, r.willing, r.declined, r.forced, [(p.client, p.outcome, p.age) for p in r.participations])
        for r in notes.rounds
    ]


@pytest.mark.parametrize("wire", ["poll", "reserve"])
def test_newcomers_decide_as_if_they_were_asked_by_themselves(wire, tmp_path, monkeypatch):
    near = play(markov, tmp_path / "near", False, monkeypatch, coordination=wire)
    far = play(markov, tmp_path / "far", True, monkeypatch, coordination=wire)
    assert decisions(far) == decisions(near)
    local, grid = near.grid, far.grid
    assert local.whom(ASK, 1) == [0, 1, 2, 3, 4, 5] and not grid.whom(ASK, 1)
    assert grid.whom(HELLO, 1, 5) == list(range(ALL)) and not {6, 7} & set(grid.whom(ASK, 5))
    assert local.whom(ASK, *range(6, ROUNDS)) == grid.whom(ASK, *range(6, ROUNDS))
    fewer = [one.messages - other.messages for one, other in zip(near.rounds, far.rounds, strict=True)]
    assert fewer == [12, 0, 0, 0, 4] + [0] * 7


@pytest.mark.parametrize(("far", "expected"), [(True, {-24.0, 0.0}), (False, {None, 0.0, 7.0})])
def test_a_newcomer_between_rounds_hears_when_its_round_starts(far, expected, tmp_path, monkeypatch):
    now = [0.0]

    def make(**settings):
        strategy = markov(coordination="reserve", **settings)
        strategy._run.timer = RoundTimer(30.0, lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
        return strategy

    def behave(message, act, kind, round_, client):
        now[0] += 7.0 * (kind == ASK and client == 0)
        return act()

    app = ToyApp(learn, spoil=behave)
    grid = play(make, tmp_path, far, monkeypatch, app=app, present=lambda grid: range(N if now[0] < 95 else ALL)).grid
    assert grid.whom(HELLO, 5) == [6, 7] and (not far or not {6, 7} & set(grid.whom(ASK, 5)))
    told = {about: record.get("elapsed") for about, record in zip(grid.sent, grid.records, strict=True)}
    assert set(told.values()) == expected
    if far:
        assert {told[HELLO, 5, 6], told[HELLO, 5, 7]} == {-24.0}  # greeted at 96; the fifth round begins at 120
    trains = {(round_, elapsed) for (kind, round_, _), elapsed in told.items() if kind == "train"}
    assert all(elapsed == 7.0 * (round_ in grid.rounds(ASK, 0)) for round_, elapsed in trains)
