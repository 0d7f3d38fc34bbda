"""Options of ``aoi reproduce`` that an experiment would ignore are refused, and no others."""

import pytest

from aoi_fl.cli.reproduce import reject_unused
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.registry import find


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("unequal --model cnn", "model is 'cnn'"),
        ("windows --rounds 7", "rounds is 7"),
        ("arena-trace-iid --quick -c model=cnn", "model is 'cnn'"),
    ],
)
def test_what_an_experiment_would_ignore_is_refused(aoi, line, said):
    status, out, err = aoi("reproduce", *line.split())
    assert (status, out) == (2, "") and err.startswith(f"aoi: {said}, but must be left out")


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
def test_an_experiment_accepts_only_its_own_options(name, given):
    reject_unused(find(name), Options(**given))
