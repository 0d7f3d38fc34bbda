"""The log as JSON: an error keeps its traceback, and nothing is lost that JSON does not know."""

import json
import logging
import sys

from aoi_fl.protocol.records import Participation, RoundRecord
from aoi_fl.server.logs import JsonLine
from aoi_fl.server.observe import seconds_left


def line(**more: object):
    record = logging.LogRecord("flwr", logging.ERROR, "", 1, "lost %s\n", ("pi-3",), None)
    record.created = 0.5
    for name, value in more.items():
        setattr(record, name, value)
    return json.loads(JsonLine("field").format(record))


def test_a_line_says_when_how_grave_and_of_which_run():
    assert line() == {"time": "1970-01-01T00:00:00.500+00:00", "level": "error", "run": "field", "message": "lost pi-3"}


def test_an_error_keeps_its_traceback():
    try:
        raise ValueError("no power")
    except ValueError:
        found = line(exc_info=sys.exc_info())["error"]
    assert "ValueError: no power" in found and "test_logs.py" in found


def test_a_round_brings_its_numbers():
    found = line(played=RoundRecord(3, trained=1, participations=[Participation(0, "pi-0", "trained")]))["round"]
    assert (found["round"], found["trained"], "participations" in found) == (3, 1, False)


def test_the_time_left_does_not_count_the_warm_up():
    assert seconds_left([300.0], 29) is None and seconds_left([300.0], 0) == 0
    assert seconds_left([*[50.0] * 20, *[2.0] * 9], 10) == 20  # as the last rounds went, not as the first did
