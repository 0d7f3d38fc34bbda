"""The line that a person reads after each round."""

from aoi_fl.server.observe import progress_line, seconds_left
from aoi_fl.strategies.records import Participation, RoundRecord


def test_the_time_left_does_not_count_the_warm_up():
    assert seconds_left([300.0], 29) is None and seconds_left([300.0], 0) == 0
    assert seconds_left([300.0, 3.0], 10) == seconds_left([300.0, 3.0, 4.0, 3.0], 10) == 30
    assert seconds_left([*[50.0] * 20, *[2.0] * 9], 10) == 20  # as the last rounds went, not as the first did


def test_a_round_as_a_line():
    parts = [Participation(2, "c", "trained", age=1), Participation(0, "a", "trained", age=4)]
    record = RoundRecord(3, seconds=2.0, dropped=1, test_loss=0.5, test_accuracy=0.875, participations=parts)
    line = progress_line(record, 30, 70.0)
    assert line == "round  3/30 | 0 2 | 1 dropped | age 2.5 | loss 0.500 | accuracy 0.875 | 2.0 s | 1 min 10 s left"
