"""The Python interface against the ledger, and the notebook of the docs, executed."""

import json
import sys

import pytest

import aoi_fl
from aoi_fl.server.ledger import read
from tests.processes import ROOT, python
from tests.refusals import refused

NOTEBOOK = ROOT / "docs/notebook.ipynb"
KEYS = {"num_clients": 4, "clients_per_round": 2, "num_server_rounds": 3, "model": "lr", "local_epochs": 1}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("api"))
        yield aoi_fl.run("random", run_name="r", seed=3, **KEYS)


def test_tables_of_a_run_are_its_ledgers(played):
    ledger = played.folder / "ledger.sqlite"
    assert (played.name, played.status, played.config["seed"]) == ("r", "completed", 3)
    for table in ("rounds", "participations", "clients"):
        rows, frame = read(ledger, table), getattr(played, table)
        assert len(frame) == len(rows) > 0
        for name in frame:
            assert frame[name].tolist() == [row[name] for row in rows], name
    assert played.numbers["test_accuracy"] == read(ledger, "rounds")[-1]["test_accuracy"]


def test_plots_show_the_runs_numbers(played):
    loaded = aoi_fl.load("r")
    figure = loaded.plot_accuracy()
    assert list(figure.data[0].y)[1:] == pytest.approx((100 * played.rounds["test_accuracy"]).tolist(), rel=1e-5)
    assert figure.data[0].line.color.startswith("#")
    assert len(played.plot_accuracy(loaded).data) >= 1
    for plot in (loaded.plot_load, loaded.plot_participations):
        assert plot().data


def test_a_wrong_key_or_name_never_starts(played, tmp_path):
    with refused("num-clients", -1):
        aoi_fl.run(num_clients=-1)
    with refused("nosuch"):
        aoi_fl.run(nosuch=1)
    with refused("run"):
        aoi_fl.load(tmp_path / "nothing")


def test_a_missing_extra_is_named(played, monkeypatch):
    for module, read_it in (("pandas", lambda: played.rounds), ("plotly.graph_objects", played.plot_load)):
        monkeypatch.setitem(sys.modules, module, None)
        with refused(module.partition(".")[0]):
            read_it()


def test_importing_the_package_imports_no_room():
    code = "import sys, aoi_fl; print(sorted(m for m in sys.modules if m.split('.')[0] in ('aoi_fl', 'flwr', 'torch')))"
    assert python("-c", code).stdout.strip() == "['aoi_fl']"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    import nbclient
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert all(outputs[1:]) and "completed" in json.dumps(outputs[0])
    assert sum("application/vnd.plotly.v1+json" in out.get("data", {}) for each in outputs for out in each) == 3


def test_a_comparison_is_a_frame(played, monkeypatch):
    monkeypatch.chdir(played.folder.parent.parent)
    frame = aoi_fl.compare(["random", "oldest-age"], seeds=1, **KEYS)
    assert set(zip(frame["setting"], frame["against"], frame["seeds"], strict=True)) == {("oldest-age", "random", 1)}
    jain = frame.set_index("quantity").loc["Jain's index"]
    first, second = (row["Jain's index"] for row in frame.attrs["runs"])
    assert jain["difference"] == pytest.approx(second - first) and jain["conclusion"] == "no conclusion"
    with refused("policies"):
        aoi_fl.compare("random", **KEYS)


@pytest.mark.parametrize("answer", [True, "good enough", None])
def test_a_hook_sees_each_round_and_ends_the_run(answer, played, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = []

    def hook(row):
        rows.append(row)
        return answer if row["round"] == 2 else None

    run = aoi_fl.run("random", seed=3, on_round=hook, **KEYS)
    recorded = run.rounds.to_dict("records")
    assert [{key: row[key] for key in recorded[0]} for row in rows] == recorded
    assert (run.status, len(run.rounds)) == ("completed", 2 if answer else 3)
    assert answer is not None or run.recorded.about["reason"] is None
    assert not isinstance(answer, str) or run.recorded.about["reason"] == answer
    assert run.rounds["test_accuracy"].tolist() == played.rounds["test_accuracy"].tolist()[: len(run.rounds)]


def test_an_exception_of_a_hook_reaches_its_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class PrunedError(Exception):
        pass

    def hook(row):
        raise PrunedError(row["round"])

    with pytest.raises(PrunedError, match="1"):
        aoi_fl.run("random", run_name="p", on_round=hook, **KEYS)
    assert (aoi_fl.load("p").status, len(aoi_fl.load("p").rounds)) == ("failed", 1)
    assert aoi_fl.run("random", **KEYS).status == "completed"  # the next run has no hook


@pytest.mark.parametrize("answer", [lambda: sys.exit(0), lambda: (i for i in ()), lambda: {"stop": 1}])
def test_a_hook_that_would_end_the_process_or_returns_no_answer_is_named(answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("on_round"):
        aoi_fl.run("random", run_name="p", on_round=lambda row: answer(), **KEYS)
    assert aoi_fl.load("p").status == "failed"
