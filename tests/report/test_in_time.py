"""What a ledger says of a run in simulated time, against sums by hand."""

import pytest

from aoi_fl.protocol.records import Participation, RoundRecord
from aoi_fl.report.in_time import in_time
from aoi_fl.report.quantities import key_numbers
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import settings
from tests.report.recorded import drawn


def round_(number, clock, accuracy):
    return vars(RoundRecord(number, seconds=0.1, clock=clock, test_accuracy=accuracy))


def part(number, client, outcome, seconds):
    return {"round": number} | vars(Participation(client, str(client), outcome, weight=0.5, device_seconds=seconds))


ROUNDS = [round_(1, 30.0, 0.5), round_(2, 50.0, None), round_(3, 80.0, 0.7)]
PARTS = [
    part(1, 0, "trained", 10.0),
    part(1, 1, "late", 30.0),
    part(2, 2, "failed", 5.0),
    part(2, 0, "trained", 20.0),
    part(3, 1, "trained", 15.0),
]


def test_costs_by_hand():
    found = in_time(ROUNDS, PARTS, 4)
    assert (found.seconds, found.worked, found.wasted) == (80.0, 80.0, 35.0)
    assert found.never == 2 and found.seconds_a_round == pytest.approx(80 / 3)
    assert [found.reaches(level) for level in (0.5, 0.6, 0.9)] == [(30.0, 40.0), (80.0, 80.0), (None, None)]
    assert [found.reaches(0.6, by=end) for end in (80.0, 79.9)] == [(80.0, 80.0), (None, None)]
    assert (found.accuracy_at(29.0), found.accuracy_at(79.0), found.accuracy_at(80.0)) == (None, 0.5, 0.7)


def test_the_page_shows_it():
    run = RecordedRun("mine", {"config": {"num-clients": 4, "policy": "random"}}, [], ROUNDS, PARTS)
    shown = {name: value for name, value in key_numbers(settings([run]))[1]}
    assert shown["clients never reached"] == "2"
    assert (shown["wasted device-hours"], shown["wasted work"]) == ("0.00972", "43.8 %")
    assert "time-accuracy" in drawn(run)


def test_without_a_barrier_work_goes_on_while_a_model_is_made():
    """Client 1 works from second 25 to 80 on the first model, so that 5 s of it precede the end of round 1."""
    rounds = [row | {"at_work": count, "started": 0.0} for row, count in zip(ROUNDS, (2, 3, 2), strict=True)]
    late = [one | {"rounds_late": stale} for one, stale in zip(PARTS, (0, None, None, 0, 2), strict=True)]
    late[-1]["device_seconds"] = 55.0
    found = in_time(rounds, late, 4)
    assert [found.reaches(level)[1] for level in (0.5, 0.6)] == [45.0, 120.0] and found.worked == 120.0
    run = RecordedRun("mine", {"config": {"num-clients": 4, "policy": "random"}}, [], rounds, late)
    chart = drawn(run)["at-work"]
    assert (chart.data[0]["y"][0], chart.data[0]["y"][-1], chart.data[0]["x"][-1]) == (2, 2, round(80 / 60, 4))
    shown = dict(key_numbers(settings([run]))[1])
    assert shown["clients at work, mean"] == "2.33" and "0.667" in shown["staleness of an update in models, mean"]
    assert "at-work" not in drawn(RecordedRun("with", run.about, [], ROUNDS, PARTS))
