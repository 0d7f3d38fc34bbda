"""Each metric of the alert rules is on the page."""

import re

import yaml

import aoi_fl
from aoi_fl.protocol.records import Nodes, RoundRecord
from aoi_fl.report.metrics import exposition
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import Ledger
from tests.processes import ROOT
from tests.report.recorded import browse

ALERTS = ROOT / "deploy/alerts.yaml"


def run_of_newcomers(folder):
    ledger = Ledger(folder / LEDGER)
    ledger.note(config={"num-clients": 2, "num-server-rounds": 9, "policy": "random"}, status="running")
    ledger.add_round(RoundRecord(1, seconds=1.0, nodes=Nodes(4, ("node 7 cannot join: client client-3: no share",))))
    ledger.close()
    return folder


def test_every_metric_of_a_rule_is_on_the_page(tmp_path):
    text = exposition(run_of_newcomers(tmp_path)).decode()
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    used = {name for rule in rules for name in re.findall(r"\baoi_\w+", rule["expr"])}
    assert len(rules) >= 5 and used <= set(re.findall(r"^(aoi_\w+)", text, re.MULTILINE))
    states = {state for rule in rules for state in re.findall(r'state=~?"([a-z|]+)"', rule["expr"])}
    assert {s for group in states for s in group.split("|")} <= set(re.findall(r'aoi_run_state{state="(\w+)"}', text))


def test_a_cluster_page_has_health_and_the_newest_runs_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/new").mkdir(parents=True)
    page = browse()
    assert page.get("/healthz").status_code == 200
    assert f'aoi_build_info{{version="{aoi_fl.__version__}"}} 1.0' in page.get("/metrics").text
    (tmp_path / "runs/.current").symlink_to("new")
    assert 'aoi_run_state{state="waiting"} 1.0' in page.get("/metrics").text
    run_of_newcomers(tmp_path / "runs/new")
    text = page.get("/metrics").text
    assert {f"aoi_clients_{count}.0" for count in ("connected 4", "expected 2", "refused 1")} <= {*text.splitlines()}
    assert re.search(r'^aoi_client_refused{reason="[^"]*client-3[^"]*"} 1.0$', text, re.MULTILINE)
