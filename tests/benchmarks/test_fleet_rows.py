"""What the page says of a fleet that was ended before its end: no more than what was played."""

from dataclasses import replace

import pytest

from aoi_fl.flower.seams import VIRTUAL
from aoi_fl.lab.benchmarks.fleet import rows
from aoi_fl.lab.benchmarks.fleet.scenario import Played, Scenario

pytestmark = pytest.mark.skipif(not VIRTUAL.there, reason=VIRTUAL.lost)


def _played(behaviour="ours", first=150.0, rounds=(100.0,), **found):
    scenario = Scenario(1000, 20, "poll", behaviour, killing="kills" in found)
    return Played(scenario, first=first, rounds=list(rounds), **found)


def test_nodes_that_join_are_judged_by_their_greeting():
    scenario = Scenario(1000, 20, behaviour="asleep", joining=100, start=50, round_seconds=10.0)
    found = Played(scenario, greeted=40.0, first=150.0, rounds=[100.0], newcomer_cpu=20.0)
    first, *others = rows(found, first=60.0)
    assert (first.measured, first.limit, first.verdict) == (40.0, 60.0, "met")
    assert not any("first round" in row.what for row in others)
    first, *_ = rows(replace(found, greeted=None), first=60.0)
    assert first.measured == scenario.seconds and first.verdict.startswith("missed")


def test_kills_that_were_not_played_keep_no_limit():
    kills = {"tenth": {"round": 6, "seconds": 30.0}, "superlink": {"round": 9, "seconds": 54.0}}
    *_, lost = rows(_played(kills=kills, requests={"PullMessages": 1.0}, complete=False))
    assert (lost.limit, lost.verdict, "kills included" in lost.what) == (None, "–", False)
    assert lost.note.endswith("; not played: herd and flood")
    rest = {"herd": {"round": 12, "seconds": 9.0}, "flood": {"round": 15, "seconds": 9.0}}
    *_, lost = rows(_played(kills=kills | rest, complete=True))
    assert (lost.limit, lost.verdict, "kills included" in lost.what) == (0, "met", True)
    *_, lost = rows(_played(kills=kills | rest, complete=False))
    assert lost.limit is None and lost.note.endswith("; not played: the last rounds")
