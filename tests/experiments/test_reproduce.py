import shutil
from copy import copy
from pathlib import Path

import pytest

from aoi_fl.lab.experiments.harness import federation
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.registry import find, known
from aoi_fl.lab.experiments.runner import reproduce
from tests.processes import ROOT
from tests.refusals import refused

RESULTS = ROOT / "docs/results"

# Results on disk


def test_a_store_keeps_what_is_complete_and_drops_what_is_not(tmp_path):
    store = Store(tmp_path, "x", {"rounds": 5}, "here")
    store.add({"seed": 1, "policy": "a"}, [{"v": 0.1}, {"v": None}], 1.5)
    (tmp_path / "x.csv").write_text((tmp_path / "x.csv").read_text() + "2,a,0.7\n")
    again = Store(tmp_path, "x", {"rounds": 5}, "elsewhere")
    assert again.rows == [{"seed": 1, "policy": "a", "v": 0.1}, {"seed": 1, "policy": "a", "v": None}]
    assert again.units == [{"seed": 1, "policy": "a"}]
    assert (again.seconds, again.machine) == (1.5, "here")


@pytest.mark.parametrize("name", ["arena-trace-iid", "privacy-error", "cifar10"])
def test_a_store_writes_what_it_has_read(tmp_path, name):
    """The recorded results have series, some with gaps, single rows, empty cells, and numbers of any size."""
    for file in RESULTS.glob(f"{name}.[cj]s*"):
        shutil.copy(file, tmp_path)
    store = Store.recorded(tmp_path, name)
    units, rows = store.units, [*store.rows]
    store.arrange(units[::-1])
    assert store.rows != rows
    store.arrange(units)
    assert store.rows == rows == Store.recorded(tmp_path, name).rows
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (RESULTS / file.name).read_bytes()


# Experiments


def test_theory_and_simulation_agree_and_more_seeds_only_add(tmp_path, capsys):
    experiment, table = find("intervals"), tmp_path / "intervals.csv"
    page = reproduce(experiment, Options(quick=True, seeds=8), tmp_path, 1).read_text()
    assert " agree at all " in page and "NOT agree" not in page
    assert table.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    before = table.read_text()
    capsys.readouterr()
    reproduce(experiment, Options(quick=True, seeds=9), tmp_path, 1)
    assert table.read_text().startswith(before)
    played = len(experiment.policies)
    assert f"{8 * played} of {9 * played} units are there already" in capsys.readouterr().err


@pytest.mark.parametrize("options", [Options(), Options(quick=True)])
def test_every_experiment_is_well_formed(options):
    """Results are kept under their settings; all that the remarks depend on is in their units."""
    for name, experiment in known().items():
        units = {tuple(unit.items()) for unit in experiment.units(options)}
        assert len(units) == len(experiment.units(options)) > 0 and experiment.minutes > 0
        assert experiment.settings(options) or name == "remarks"


def test_a_row_has_attributes_of_its_class():
    for experiment in known().values():
        kinds = type(experiment).__mro__
        names = set(dir(kinds[0])).union(*(vars(kind).get("__annotations__", ()) for kind in kinds))
        assert {name for name in vars(experiment) if name[0] != "_"} <= names


# Pages and command


def test_the_command(aoi, refusal):
    assert "wics-ages" in aoi("reproduce list")[1]
    assert "load-variance, intervals" in refusal("reproduce nope")
    assert aoi("reproduce start --quick --seeds 1 --out out")[0] == 0
    assert Path("out/start.md").is_file() and Path("out/README.md").is_file()
    assert aoi("reproduce intervals --quick --seeds 2 --out out")[0] == 0
    assert "rounds=200" in refusal("reproduce intervals --seeds 2 --out out")


def test_results_and_runs_of_another_version_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(federation, "complete_run", lambda values, **_: Path(values["runs-dir"]))
    keys = {"policy": "random", "num-server-rounds": 2, "seed": 1}
    first, second = (federation.played("x", keys, Options(version=version)).name for version in (1, 2))
    assert second != first == "1d472738"  # as before there were versions

    experiment, quick = copy(find("start")), Options(quick=True, seeds=1)
    Store(tmp_path, experiment.name, experiment.kept_under(quick), "here").add({"seed": 1}, [{"v": 0.1}], 1.5)
    experiment.version = 2
    with refused("--out"):
        reproduce(experiment, quick, tmp_path, 1)
