"""A benchmark is resumed from results of the same commit, machine and versions alone."""

import pytest

from aoi_fl.lab.benchmarks.__main__ import _resumed

MACHINE = {"commit": "0123456789ab", "processor": "p", "cores": 2, "load": 0.5}
VERSIONS = {"python": "3.11.7", "torch": "2"}
ROW = {"what": "x", "reference": "r", "limit": None, "measured": 1.0, "part": "first", "verdict": "–"}
STORED = {"machine": MACHINE, "versions": VERSIONS, "parts": ["first"], "rows": [ROW], "seconds": 9.0}


@pytest.mark.parametrize(("part", "key"), [("machine", "processor"), ("machine", "cores"), ("versions", "torch")])
def test_no_number_is_taken_up_of_another_machine_or_version(part, key):
    here = {"machine": MACHINE | {"load": 2.0}, "versions": VERSIONS}
    (row,), parts, seconds = _resumed(STORED, here)
    assert (row[0], row[1].measured, parts, seconds) == ("first", 1.0, ["first"], 9.0)
    assert _resumed(STORED, here | {part: here[part] | {key: "another"}}) == ([], [], 0.0)


def test_no_number_is_taken_up_of_a_commit_with_changes():
    changed = {"machine": MACHINE | {"commit": "0123456789ab+"}}
    assert _resumed(STORED | changed, {"versions": VERSIONS} | changed) == ([], [], 0.0)
