"""What Prometheus scrapes, against a ledger made by hand and the client library's own parser."""

import json
import re
import sqlite3
import time
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

import aoi_fl
from aoi_fl.protocol.records import PHASES, ClientRecord, Participation, RoundRecord
from aoi_fl.report.metrics import exposition
from aoi_fl.server.ledger import accounts
from tests.processes import ROOT
from tests.report.recorded import browse, record

NOW = time.time()


def part(client, outcome, **more):
    return Participation(client, f"pi-{client}", outcome, **more)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path):
    """Two rounds of four clients under a budget: one never reached, one that failed and came back."""
    first = [part(0, "trained", next_round=5), part(1, "failed", reason="no power"), part(2, "late", reason="late")]
    second = [part(1, "trained", next_round=8), part(2, "refused", reason="NaN in its update")]
    counts = {"asked": 4, "trained": 1, "dropped": 2, "messages": 7}
    phases = {"ask_seconds": 0.5, "train_seconds": 2.25, "aggregate_seconds": 0.25}
    more = {"asked": 3, "willing": 2, "trained": 1, "declined": 1, "dropped": 1, "messages": 5, "forced": True}
    rounds = [
        RoundRecord(1, NOW - 60, 2.0, spent=12.5, test_accuracy=0.5, participations=first, **counts),
        RoundRecord(2, NOW - 30, 4.0, spent=30.0, participations=second, **more, **phases),
    ]
    clients = [ClientRecord(c, f"pi-{c}", 1, 100 + c) for c in range(4)]
    config = {"policy": "wics", "num-server-rounds": 9}
    return record(tmp_path / "field", rounds, clients, config=config, policy={"budget": 40.0})


def scraped(text):
    """Return every sample by its name and labels."""
    return {
        f"{sample.name}{''.join(f' {k}={v}' for k, v in sorted(sample.labels.items()))}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_says_what_the_ledger_holds(folder):
    found = scraped(exposition(folder).decode())
    states = {name: value for name, value in found.items() if name.startswith("aoi_run_state")}
    assert states.pop("aoi_run_state state=completed") == 1 and not any(states.values()) and len(states) == 7
    assert {name: value for name, value in found.items() if name not in states and "state" not in name} == {
        f"aoi_build_info version={aoi_fl.__version__}": 1,
        "aoi_run_info policy=wics run=field": 1,
        "aoi_rounds_planned": 9,
        "aoi_clients": 4,
        "aoi_clients_never_reached": 2,
        "aoi_round": 2,
        "aoi_round_seconds": 4,
        "aoi_round_ended_timestamp_seconds": pytest.approx(NOW - 26),
        "aoi_test_accuracy": 0.5,  # round 2 was not evaluated
        "aoi_round_phase_seconds phase=ask": 0.5,
        "aoi_round_phase_seconds phase=train": 2.25,
        "aoi_round_phase_seconds phase=aggregate": 0.25,
        "aoi_round_clients part=asked": 3,
        "aoi_round_clients part=willing": 2,
        "aoi_round_clients part=trained": 1,
        "aoi_round_clients part=declined": 1,
        "aoi_round_clients part=dropped": 1,
        "aoi_participations_total outcome=trained": 2,
        "aoi_participations_total outcome=failed": 1,
        "aoi_participations_total outcome=late": 1,
        "aoi_participations_total outcome=refused": 1,
        "aoi_participations_total outcome=declined": 0,
        "aoi_messages_total": 12,
        "aoi_empty_rounds_total": 0,
        "aoi_forced_rounds_total": 1,
        "aoi_budget": 40,
        "aoi_spent_total": 42.5,
    }


def test_a_ledger_of_an_earlier_version_knows_no_phases(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db:
        for phase in PHASES:
            db.execute(f"ALTER TABLE rounds DROP COLUMN {phase}_seconds")
    found = scraped(exposition(folder).decode())
    assert found["aoi_round"] == 2 and not any("phase" in name for name in found)


def test_the_live_page_serves_it_in_prometheus_own_type(folder, tmp_path):
    answer = browse(folder).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert scraped(answer.text)["aoi_round"] == 2
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/ledger.sqlite").write_text("no database")
    for name, state in (("absent", "waiting"), ("damaged", "unreadable")):
        found = scraped(browse(tmp_path / name).get("/metrics").text)
        assert [key for key, value in found.items() if value] == [
            f"aoi_build_info version={aoi_fl.__version__}",
            f"aoi_run_state state={state}",
        ]


def test_a_client_s_account(folder):
    columns = ("took_part", "last", "seen", "missed", "reason", "next_round")
    assert [tuple(row[column] for column in columns) for row in accounts(folder / "ledger.sqlite")] == [
        (1, 1, 1, 0, None, 5),
        (1, 2, 2, 1, "no power", 8),
        (0, None, 2, 2, "NaN in its update", None),
        (0, None, 1, 0, None, None),
    ]


def test_the_command_lists_clients(folder, aoi):
    status, said, _ = aoi("clients", str(folder))
    assert status == 0 and "Completed, 4 clients after 2 rounds" in said
    (row,) = [line for line in said.splitlines() if "pi-1" in line]
    assert row.split()[:2] == ["pi-1", "101"] and "no power" in row


def test_the_dashboard_asks_for_what_is_there_and_documented(folder):
    panels = json.loads((ROOT / "docker/grafana.json").read_text())["panels"]
    asked = {name for panel in panels for query in panel["targets"] for name in re.findall(r"aoi_\w+", query["expr"])}
    names = {key.split()[0] for key in scraped(exposition(folder).decode())}
    page = (ROOT / "docs/deployment.md").read_text()
    listed = re.findall(r"\baoi_\w+", page.partition("| metric | what |")[2].partition("\n\n")[0])
    assert len(asked) > 8 and asked <= names <= {*listed}
