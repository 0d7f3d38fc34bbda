"""`aoi runs`, `aoi export` and `aoi report` of several runs, over ledgers on disk."""

import csv
import io
import os
import statistics
from pathlib import Path

import pytest

from aoi_fl.cli.runs import export, remove
from aoi_fl.protocol.records import RoundRecord
from aoi_fl.report.runs import compared
from aoi_fl.report.tables import to_csv
from aoi_fl.server.folder import only_player
from tests.ledgers import noted
from tests.refusals import refused
from tests.report.recorded import record, trained

ACCURACIES = {"sw-1": 0.5, "sw-2": 0.75, "other": 0.25}


@pytest.fixture
def runs(tmp_path):
    """Record three runs of twelve rounds, in which four clients take part in turn."""
    for i, (name, accuracy) in enumerate(ACCURACIES.items()):
        config = {"policy": "random" if i < 2 else "oldest-age", "dataset": "npz:/home/me/a_b.npz", "seed": i + 1}
        config |= {"num-clients": 4, "clients-per-round": 1, "num-server-rounds": 20}
        about = {"run": name, "policy": {"kind": "random"}, "status": "completed" if i else "interrupted"}
        rounds = [
            RoundRecord(t, 1e9 + t, 1.0, messages=2, participations=trained([t % 4]), test_accuracy=accuracy)
            for t in range(1, 13)
        ]
        record(tmp_path / "runs" / name, rounds, [], config=config, **about)
    return tmp_path / "runs"


def test_runs_lists_what_each_run_is(aoi, told, runs):
    found = {row["run"]: row for row in told("runs")["runs"]}
    assert found.keys() == ACCURACIES.keys()
    row = found["sw-2"]
    assert (row["policy"], row["data"], row["seed"]) == ("random", "npz:a_b.npz", 2)
    assert (row["rounds"], row["planned"], row["state"], row["date"][:4]) == (12, 20, "completed", "2001")
    assert found["sw-1"]["state"] == "interrupted"
    assert {row["run"] for row in told("runs sw-*")["runs"]} == {"sw-1", "sw-2"}
    assert "planned" in aoi("runs")[1]


def test_a_damaged_run_is_listed_as_unreadable(told, runs):
    (runs / "sw-1/ledger.sqlite").write_bytes(b"no database " * 99)
    assert {row["run"]: row["state"] for row in told("runs")["runs"]}["sw-1"] == "unreadable"


def test_a_simulated_run_without_a_recording_is_listed_and_deleted(aoi, told, runs):
    (runs / "flwr-1/clients").mkdir(parents=True)
    assert "flwr-1" in {row["run"] for row in told("runs")["runs"]}
    assert aoi("export * --csv")[0] == 0  # which takes those with a ledger
    assert aoi("runs rm flwr-* --yes")[0] == 0
    assert not (runs / "flwr-1").exists() and (runs / "other").exists()


def test_rm_deletes_what_it_names_and_no_more(aoi, runs):
    assert aoi("runs rm sw-* --yes")[0] == 0
    assert [path.name for path in runs.iterdir()] == ["other"]
    with refused("RUN", "sw-*"):
        remove(["sw-*"], yes=True)
    with only_player(runs / "other"), refused("RUN", "other"):
        remove(["other"], yes=True)
    assert (runs / "other/ledger.sqlite").is_file()


def test_exported_tables_are_the_ledgers(aoi, runs):
    def exported(what):
        return list(csv.DictReader(io.StringIO(aoi(f"export --csv {what}")[1])))

    rows = exported("sw-*")
    assert len(rows) == 24 and {(row["run"], row["seed"]) for row in rows} == {("sw-1", "1"), ("sw-2", "2")}
    assert [float(row["test_accuracy"]) for row in rows] == [0.5] * 12 + [0.75] * 12
    rows = exported("other --table participations")
    assert [row["client"] for row in rows] == [str(t % 4) for t in range(1, 13)]
    assert {row["outcome"] for row in rows} == {"trained"}


def test_no_text_of_a_table_is_a_formula(runs):
    texts = ["=1+1", "+cmd", "@x", "-2+3", " =1", "a;=1", "＝1", "'=1"]
    blob = to_csv([{"run": text, "x": -0.5} for text in [*texts, "a-b", "'a"]])
    rows = list(csv.DictReader(io.StringIO(blob.decode())))
    assert [row["run"].count("'") for row in rows] == [1] * 7 + [2, 0, 1] and {row["x"] for row in rows} == {"-0.5"}
    (runs / "compare-1.csv").write_bytes(blob)
    assert [folder.name for folder in compared(str(runs / "compare-1"))] == [*texts, "a-b", "'a"]


def test_a_latex_table_has_a_row_a_setting(aoi, runs):
    lines = aoi("export sw-* other --latex")[1].splitlines()
    body = [line for line in lines if " & " in line][1:]
    assert len(body) == 2 and lines[0].startswith("\\begin{tabular}") and lines[-1] == "\\end{tabular}"
    spread = statistics.stdev([50.0, 75.0])
    assert f"62.50 \\pm {spread:.2f}" in body[0] and "25.00" in body[1]
    noted(runs / "other", config={"policy": "python:my_rule:Own", "dataset": "digits", "seed": 3, "num-clients": 4})
    lines = aoi("export sw-1 other --latex")[1].splitlines()
    assert len({line.split(" & ")[0] for line in lines if " & " in line}) == 3  # no two settings of one name
    assert sum("my\\_rule" in line for line in lines) == 1
    assert "/home/me" not in aoi("export sw-1 --csv --table summary")[1]


COMMANDS = "report", "export --csv", "figure", "runs", "runs rm -y", "compare --runs", "resume", "clients", "serve"
NO_NAMES = "n" * 300, "a\0b", "\ud800", "loop"
NO_RUNS = "nope", "", ".", "/", "a\33[31m\a", "\udcff", "table", "broken", "long"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_of_no_run_is_refused_in_one_line(command, aoi, runs):
    """A table beside the runs is no comparison, if it has other columns or is damaged."""
    Path("loop").symlink_to("loop")
    for name, content in {"table": b"a,b\n1,2\n", "broken": b"run,\xff\n", "long": b"run\n" + b"x" * 200_000}.items():
        Path(f"{name}.csv").write_bytes(content)
    for name in (*NO_NAMES, *(() if command == "serve" else NO_RUNS)):
        status, out, err = aoi(command, name)
        assert (status, out) == (2, "") and err.startswith("aoi: ") and err.strip().isprintable(), name
    assert len(list(runs.iterdir())) == 3


def test_an_exported_table_hides_no_run(aoi, runs):
    for place in (Path("sw-1.csv"), runs / "sw-1.csv"):
        assert aoi("export sw-1 --csv --output", str(place))[0] == 0
        assert aoi("runs sw-1")[0] == 0


def test_no_output_replaces_what_is_no_file(refusal, runs):
    os.mkfifo("pipe")
    Path("device").symlink_to("/dev/null")
    for name in ("pipe", "device", "runs"):
        for command in ("report", "export --csv"):
            assert "--output" in refusal(f"{command} sw-1 --output {name}"), name
    assert Path("pipe").is_fifo() and Path("device").is_symlink()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "format"),
        ({"csv": True, "latex": True}, "format"),
        ({"csv": True, "table": "models"}, "--table"),
        ({"latex": True, "table": "rounds"}, "--table"),
    ],
)
def test_an_export_names_what_is_wrong(options, key):
    with refused(key):
        export(["x"], **options)


def test_a_page_of_several_runs_has_a_place_of_its_own(told, runs):
    (runs / "sw-1/report.html").write_text("mine")
    report = told("report sw-1 sw-2")
    assert report["page"] == "runs/compare-sw-1-sw-2.html" and Path(report["page"]).is_file()
    assert (runs / "sw-1/report.html").read_text() == "mine"
    values = {row["run"]: row for row in report["runs"]}
    assert values["sw-2"]["test_accuracy"] == 0.75 and values["sw-2"]["messages"] == 24
    assert (values["sw-1"]["variance_of_x"], values["sw-1"]["mean_of_x"], values["sw-1"]["jain"]) == (0, 4, 1)
