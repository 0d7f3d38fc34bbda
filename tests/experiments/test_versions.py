"""What an experiment plays may change: its version then keeps results and runs apart."""

import json

import pytest

from aoi_fl.experiments.harness import federation
from aoi_fl.experiments.harness.account import behind
from aoi_fl.experiments.harness.base import Experiment, Options
from aoi_fl.experiments.harness.findings import Conclusion
from aoi_fl.experiments.harness.store import Store
from aoi_fl.experiments.runner import reproduce
from tests.refusals import refused


class Tiny(Experiment):
    """A run that is always complete; its only row has the folder that it lies in."""

    name, title, source, minutes = "tiny", "title", "source", 1.0

    def settings(self, options):
        return {"rounds": 2}

    def units(self, options):
        return [{"seed": 1}]

    def play(self, unit, options):
        ledger = federation.played(self.name, {"policy": "random", "num-server-rounds": 2, **unit}, options)
        return [{"folder": ledger.parents[1].name}]

    def conclude(self, rows, settings):
        return Conclusion("")

    def plot(self, rows, settings, figure):
        figure.subplots()


@pytest.fixture
def tiny(monkeypatch):
    experiment = Tiny()
    monkeypatch.setattr("aoi_fl.experiments.runner.find", lambda name: experiment)
    monkeypatch.setattr(federation, "_complete", lambda ledger: True)
    monkeypatch.setattr("aoi_fl.server.ledger.read_run", lambda ledger: {"status": "completed"})
    return experiment


def test_results_and_runs_of_another_version_are_left_alone(tiny, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    reproduce(tiny, Options(), old, 1)
    about = json.loads((old / "tiny.json").read_text())
    tiny.version = 2
    with refused("--out"):
        reproduce(tiny, Options(), old, 1)
    shown = behind(tiny, Store.recorded(old, "tiny"), "aoi reproduce tiny")
    assert "`aoi reproduce tiny` (these are of an earlier version) · " in shown
    reproduce(tiny, Options(), new, 1)
    reproduce(tiny, Options(), new, 1)  # of its own version, they are taken up
    assert "`aoi reproduce tiny` · " in behind(tiny, Store.recorded(new, "tiny"), "")
    rows = [Store.recorded(folder, "tiny").rows[0]["folder"] for folder in (old, new)]
    assert rows[0] != rows[1]
    assert about["settings"] == {"rounds": 2} and rows[0] == "1d472738"  # as before there were versions
