"""Rows of a fleet: the greeting of nodes that join is judged, and an incomplete run has no row."""

import pytest

from aoi_fl.lab.benchmarks.base import Skipped
from aoi_fl.lab.benchmarks.fleet import rows
from aoi_fl.lab.benchmarks.fleet.scenario import Played, Scenario


def test_nodes_that_join_are_judged_by_their_greeting():
    scenario = Scenario(1000, 20, behaviour="asleep", joining=100, start=50, round_seconds=10.0)
    found = Played(scenario, greeted=40.0, first=150.0, rounds=[100.0], newcomer_cpu=20.0)
    with pytest.raises(Skipped):
        next(rows(found))
    found.complete = True
    first, *others = rows(found, first=60.0)
    assert (first.measured, first.limit, first.verdict) == (40.0, 60.0, "met")
    assert not any("first round" in row.what for row in others)
