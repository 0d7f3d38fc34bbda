"""Options of ``aoi reproduce`` that an experiment would ignore are refused, and no others."""

import pytest

from aoi_fl.cli.reproduce import reject_unused
from aoi_fl.experiments.harness.base import Options
from aoi_fl.experiments.registry import find


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("unequal --model cnn", "model cnn means nothing to unequal: leave it out"),
        ("windows --rounds 7", "rounds 7 means nothing to windows: leave it out"),
        ("arena --quick -c model=cnn", "model cnn means nothing to arena --quick: leave it out"),
    ],
)
def test_what_an_experiment_would_ignore_is_refused(aoi, line, said):
    assert aoi("reproduce", *line.split()) == (2, "", f"aoi: {said}\n")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("unequal", {"model": "2nn", "rounds": 80}),  # its own
        ("unequal", {"rounds": 7}),
        ("windows", {"rounds": 1000}),
        ("mnist-iid", {"model": "2nn"}),
        ("mnist-iid", {"model": "cnn", "rounds": 100, "quick": True}),
        ("wics-learning", {"model": "lr"}),
    ],
)
def test_what_an_experiment_plays_by_itself_or_otherwise_may_be_given(name, given):
    reject_unused(find(name), Options(**given))
