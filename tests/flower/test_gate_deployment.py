"""The owner's gate in a SuperNode of its own process, before a stock app that knows nothing of it."""

import pytest

from aoi_fl.client.device.receipts import read_receipts
from aoi_fl.client.gate.book import Book
from aoi_fl.lab.benchmarks.superlink import OURS, deployment
from tests.processes import ROOT

APP = ROOT / "tests/apps/stock"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "trained"),
    [
        ("pause=true", 0),
        ("min-separation=3", 2),
        ("min-hours=1", 1),
        ("max-updates=2", 2),
        ('apps="approved"', 0),
        ('max-norm=1.0 metrics="num-examples"', 4),
    ],
)
def test_a_stock_app_keeps_the_owners_rules(tmp_path, rules, trained):
    with deployment([OURS], f'name="pi" state-dir="{tmp_path}" {rules}') as submit:
        found = submit(APP, "rounds=4")
    entries, problems = read_receipts(Book(tmp_path))
    counted = [*entries, *Book(tmp_path).load().repeats.values()]
    decisions = [entry["decision"] for entry in counted for _ in range(entry["times"])]
    assert (len(found["norms"]), len(decisions), problems) == (trained, 4, [])
    assert sum(decision != "refused" for decision in decisions) == trained
    if "max-norm" in rules:
        assert 0.99 < max(found["norms"]) <= 1 and found["secrets"] == 0
