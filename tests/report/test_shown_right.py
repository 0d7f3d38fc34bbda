"""Numbers, paths and states as a reader expects them: nothing impossible, nothing lost, nothing to guess."""

import shlex
from pathlib import Path

import numpy as np
import yaml
from fastapi.testclient import TestClient

from aoi_fl.cli.run import conclude
from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.report import chart, figures, headline, page, seeds, site
from aoi_fl.report.runs import load
from aoi_fl.report.summary_card import glance
from aoi_fl.server.ledger import Ledger
from tests.report.recorded import charts_of, loaded, record, trained

ROOT = Path(__file__).parents[2]


def play(folder, seed=1, learned=0.5, stride=4, **about):
    """Record twelve rounds in which clients, as many as the stride is long, take part in turn."""
    config = {"policy": "random", "num-clients": stride, "num-server-rounds": 12, "seed": seed} | about
    values = {"test_accuracy": learned, "test_loss": 1 - learned, "trained": 1}
    rounds = [
        RoundRecord(t, float(t), 1.0, clock=60.0 * t, participations=trained([t % stride]), **values)
        for t in range(1, 13)
    ]
    return record(folder, rounds, [], run=folder.name, config=config, policy={"kind": "random", "clients": stride})


def test_intervals_and_bands_stay_within_what_is_possible(tmp_path):
    runs = loaded(*(play(tmp_path / f"s{i}", seed=i, learned=end) for i, end in enumerate((0.0, 1.0, 0.5))))
    settings = seeds.settings(runs)
    assert len(settings) == 1
    bands = [trace for chart_ in figures.figures(runs) for trace in chart_.data if "fill" in trace]
    assert len(bands) >= 3
    assert all(value is None or value >= 0 for trace in bands for value in trace["y"])
    accuracy = charts_of(*(tmp_path / f"s{i}" for i in range(3)))["test-accuracy"]
    assert max(max(trace["y"]) for trace in accuracy.data) <= 100
    assert all(0 <= value <= 100 for row in accuracy.rows for value in row[1:])
    (text,) = seeds.sentences(settings)
    low, high = (float(part) for part in text.split("[")[1].split("]")[0].split(","))
    assert 0 <= low <= high <= 100


def test_two_seeds_have_no_band_and_no_interval(tmp_path):
    runs = loaded(*(play(tmp_path / f"s{i}", seed=i) for i in range(2)))
    drawn = figures.figures(runs)
    assert drawn and not [trace for chart_ in drawn for trace in chart_.data if "fill" in trace]
    assert all(len(row) == 2 for chart_ in drawn if chart_.name == "test-accuracy" for row in chart_.rows)
    assert not any("[" in line for line in seeds.sentences(seeds.settings(runs)))
    columns, rows = headline.policies(seeds.settings(runs))
    assert "±" not in dict(zip(columns, rows[0], strict=True))["test accuracy at the end"]


def test_a_band_below_zero_is_left_where_values_are():
    """A loss may be negative: its band is not cut at zero."""
    low, _ = chart.ends([([1], [-1.0]), ([1], [2.0])], np.array([0.5]), np.array([19.0]))
    assert low.tolist() == [-18.5]


def test_a_report_takes_a_glob_of_names(told, refusal, tmp_path):
    for name in ("sw-1", "sw-2", "sw-3", "other", "odd-[1]"):
        play(tmp_path / "runs" / name)
    shown = {
        names: [row["run"] for row in told(f"report {names}")["runs"]]
        for names in ("sw-*", "runs/sw-[12] sw-3", "odd-[1]")  # a name comes before a pattern
    }
    assert [*shown.values()] == [["sw-1", "sw-2", "sw-3"]] * 2 + [["odd-[1]"]]
    assert "nothing-*" in refusal("report nothing-*")


def test_a_printed_command_can_be_pasted(tmp_path, capsys):
    folder = play(tmp_path / "my runs" / "it's one")
    conclude(folder, as_json=False)
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("page:")]
    assert shlex.split(line)[1:] == ["aoi", "report", str(folder)]


def test_a_run_that_has_not_begun_is_waited_for(tmp_path):
    """What a cluster's page is asked for first: the folder, and a ledger with tables and nothing in them."""
    (tmp_path / "first").mkdir()
    Ledger(tmp_path / "first" / "ledger.sqlite").close()
    assert glance(tmp_path / "first").state.name == "waiting"
    client = TestClient(site.application(str(tmp_path / "first")))
    answer = client.get("/content")
    assert "Waiting for the run first" in answer.json()["main"] and answer.headers["State"] == "waiting"
    assert "unnamed" not in answer.text and "nknown" not in answer.text
    assert 'aoi_run_state{state="waiting"} 1.0' in client.get("/metrics").text
    assert page.render([load(play(tmp_path / "second"), "second")])


def test_a_table_in_a_pipe_is_as_wide_as_it_needs(aoi, tmp_path, monkeypatch):
    folder = play(tmp_path / "runs" / "one")
    opened = Ledger(folder / "ledger.sqlite")
    long = "a reason that is much too long for eighty columns, " * 3
    opened.add_clients([ClientRecord(0, "a-client-with-a-long-name", 1, 100)])
    opened.add_round(RoundRecord(13, 1.0, 1.0, participations=[Participation(0, "a", "failed", reason=long)]))
    opened.close()
    monkeypatch.delenv("COLUMNS", raising=False)
    status, out, _ = aoi("clients", "one")
    lines = out.splitlines()
    assert status == 0 and any("a-client-with-a-long-name" in line and long.strip() in line for line in lines)


def test_a_cluster_does_not_move_in_lock_step():
    """With n a multiple of k the optimal table is a fixed turn: 0 1, 2 3, 0 1, …"""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    given = services["client"]["deploy"]["replicas"], services["submit"]["environment"]["AOI_CLIENTS_PER_ROUND"]
    n, k = (int(value.split(":-")[1].rstrip("}")) for value in given)
    assert (n, n % k) == (5, 1)
    kustomization = (ROOT / "deploy/kubernetes/kustomization.yaml").read_text()
    assert f"AOI_NUM_CLIENTS={n}" in kustomization and f"#AOI_NUM_CLIENTS={n}" in (ROOT / ".env.example").read_text()
