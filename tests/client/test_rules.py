"""An owner's rules come before a yes, cost a client nothing but the round, and are told to server and owner."""

import json
import math
import re
import sys
import tomllib
from datetime import datetime, timedelta
from functools import partial

import pytest
from flwr.app import Error, Message

from aoi_fl import protocol
from aoi_fl.client import supernode
from aoi_fl.client.device import node, power
from aoi_fl.client.device.checks import configuration
from aoi_fl.client.device.status import status
from aoi_fl.client.device.unit import node_toml
from aoi_fl.client.gate.rules import Rules
from aoi_fl.flower.errors import DECLINED
from aoi_fl.report.runs import ABSENT, load
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.record import record
from aoi_fl.strategies import MarkovParticipation, RandomSelection
from tests.fakes import ToyApp, play, unchanged, zeros
from tests.processes import ROOT
from tests.refusals import refused

NOON, MIDNIGHT = datetime(2026, 11, 22, 12), datetime(2026, 11, 23)


# What a rule says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hours", "allowed", "forbidden"),
    [
        ("22:00-06:00", ["22:00", "23:59", "00:00", "05:59"], ["06:00", "12:00", "21:59"]),
        ("9:30-17:00", ["09:30", "16:59"], ["09:29", "17:00", "00:00"]),
        ("22:00-06:00, 12:30 - 13:30", ["12:30", "03:00"], ["13:30", "12:29"]),
    ],
)
def test_hours_of_the_day_also_across_midnight(hours, allowed, forbidden):
    for times, rule in ((allowed, None), (forbidden, "hours")):
        for text in times:
            now = datetime.combine(NOON, datetime.strptime(text, "%H:%M").time())
            assert Rules.read({"hours": hours}).forbids(now) == rule, text


@pytest.mark.parametrize("rule", ["only-unmetered", "only-charging"])
@pytest.mark.parametrize("answer", [True, False, None])
def test_power_and_network_are_asked(rule, answer, monkeypatch):
    for function in ("charging", "metered"):
        monkeypatch.setattr(power, function, lambda: answer)
    open_ = answer is False if rule == "only-unmetered" else answer is True
    assert Rules.read({rule: True}).forbids(NOON) == (None if open_ else rule)


# TZ counts hours west of UTC, and most owners of a device mean east.
SIGNS = ["UTC+2", "UTC-5", "GMT2", "CET+1", "IST+5:30", "<+03>+3"]


@pytest.mark.parametrize("zone", ["Europe/Berln", ":Nowhere", "/usr/share/zoneinfo/Nowhere", *SIGNS])
def test_a_misspelt_time_zone_is_refused(zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    with refused("TZ", zone.removeprefix(":")):
        Rules.read({"hours": "22:00-06:00"})
    for sound in ("", "UTC", "CET-1CEST,M3.5.0,M10.5.0/3", ":Europe/Berlin", "<+02>-2", "EST5EDT", "GMT+0"):
        monkeypatch.setenv("TZ", sound)
        Rules.read({"hours": "22:00-06:00"})


# What the device says -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("supplies", "charging"),
    [
        ({}, True),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}}, False),
        ({"BAT0": {"type": "Battery", "status": "Not charging"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}, "AC": {"type": "Mains", "online": 1}}, True),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}, "AC": {"type": "Mains", "online": 0}}, False),
        ({"mouse": {"type": "Battery", "status": "Discharging", "scope": "Device"}}, True),
    ],
)
def test_charging_is_read_from_the_kernels_files(supplies, charging, tmp_path, monkeypatch):
    for name, attributes in supplies.items():
        (tmp_path / name).mkdir()
        for attribute, value in attributes.items():
            (tmp_path / name / attribute).write_text(f"{value}\n")
    monkeypatch.setattr(power, "_SUPPLIES", tmp_path if supplies else tmp_path / "no such folder")
    assert power.charging() is charging


@pytest.mark.parametrize(
    ("command", "metered"),
    [
        (("sh", "-c", "echo u 1"), True),
        (("sh", "-c", "echo u 4"), False),
        (("sh", "-c", "echo u 0"), None),
        (("sh", "-c", "exit 1"), None),
        (("/no/such/busctl",), None),
    ],
)
def test_metered_is_what_network_manager_says(command, metered, monkeypatch):
    monkeypatch.setattr(power, "_NETWORK_MANAGER", command)
    assert power.metered() is metered


# What a client makes of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["central", *protocol.WIRES])
@pytest.mark.parametrize("rule", ["pause", "min-hours"])
def test_a_refusal_by_client_or_gate_is_named_in_the_ledger(wire, rule, tmp_path):
    def spoil(message, act, kind, round_, client):
        if client or rule == "pause" or kind != "train":
            return act()
        return Message(Error(DECLINED, f"{protocol.DECLINED_BY}{rule}"), reply_to=message)

    def grid(*about):
        made = LocalGrid(*about)
        made._contexts[next(iter(made.get_node_ids()))].node_config |= {
            "state-dir": str(tmp_path / "state"),
            "pause": rule == "pause",
        }
        return made

    certain = MarkovPolicy.optimal(3, 3, 0)  # every client, every round
    make = (
        partial(MarkovParticipation, certain, coordination=wire)
        if wire in protocol.WIRES
        else partial(RandomSelection, 3)
    )
    observer = record("r", runs_dir=tmp_path / "server")
    play(make, ToyApp(unchanged, spoil=spoil), tmp_path, 3, 3, grid, observer, zeros())
    run = load(tmp_path / "server" / "r", "r")
    told = [(row["round"], row["outcome"], row["reason"]) for row in run.participations if row["client"] == 0]
    assert told == [(t, "declined", f"by its owner's rule: {rule}") for t in (1, 2, 3)]
    assert [row["trained"] for row in run.rounds] == [2] * 3 and [row["declined"] for row in run.rounds] == [1] * 3
    assert run.grid()[0].tolist() == [ABSENT] * 3 and not run.dropped


@pytest.mark.parametrize(
    ("rules_", "opens"),
    [
        ({"pause": True}, None),
        ({"hours": "22:00-06:00"}, NOON.replace(hour=22)),
        ({"hours": "11:00-12:30, 22:00-06:00"}, NOON),
        ({"hours": "03:00-04:00"}, NOON.replace(hour=3) + timedelta(days=1)),
        (
            {"pause": f"{NOON + timedelta(days=2):%Y-%m-%d}", "hours": "03:00-04:00"},
            NOON.replace(hour=3) + timedelta(2),
        ),
    ],
)
def test_the_first_time_that_the_rules_allow(rules_, opens):
    own = Rules.read(rules_)
    assert own.opens(NOON) == opens
    assert opens is None or own.forbids(opens) is None


# What the owner sees --------------------------------------------------------------------------------------------------


def test_status_shows_whether_the_rules_allow_a_round(tmp_path):
    (tmp_path / "node.toml").write_text(f'name = "pi-3"\nstate-dir = "{tmp_path / "state"}"\nhours = "22:00-06:00"\n')
    assert "hours" in "".join(status(tmp_path, NOON)) and "hours" not in "".join(status(tmp_path, MIDNIGHT))
    (tmp_path / "state").mkdir()
    assert len([*status(tmp_path, MIDNIGHT)]) == 2


BAD = {
    "hours": ["25:00-06:00", "06:00-06:00", "06:00-07:00,", 6],
    "only-charging": ["yes"],
    "only-unmetered": [1],
    "pause": ["tomorrow", 3, "2027-01-06T18:00+01:00"],
    "min-separation": [0, 2.5, True],
    "min-hours": ["6", math.inf],
    "max-updates": [True],
    "max-norm": [-1],
    "max-bytes": [0],
    "metrics": ["all, loss", "a,,b", 3],
    "evaluate": ["no", 1],
    "apps": ["any, approved", "0" * 63, "A" * 64],
    "payment": ["dear"],
    "sensitivity": [True],
    "round-seconds": [0],
    "sleep": ["yes"],
    "app-keys": [3],
    "tags": [3],
}
UNKNOWN = {
    "huors": 'huors = "22:00-06:00"',
    "weight": "weight = 1.0",
    "never-train": "never-train = true",
    "rules": "[rules]\npause = true",
}


@pytest.mark.parametrize(
    ("key", "value", "lines"),
    [
        *((key, v, f"{key} = {json.dumps(v)}".replace("Infinity", "inf")) for key in BAD for v in BAD[key]),
        *((key, None, lines) for key, lines in UNKNOWN.items()),
        ("evaluate", "metrics-only", 'evaluate = "metrics-only"\nmetrics = "none"'),
    ],
)
def test_a_bad_key_or_value_is_named_and_no_client_starts(tmp_path, key, value, lines, monkeypatch, capfd):
    path = tmp_path / "node.toml"
    path.write_text(f'name = "pi"\nstate-dir = "{tmp_path / "state"}"\n{lines}\n')
    with refused(key, value) as raised:
        list(status(tmp_path))
    (finding,), error = configuration(tmp_path), raised.value
    assert (finding.status, finding.found, finding.remedy) == ("fail", error.problem, error.remedy)
    monkeypatch.setattr(supernode, "PAUSE", 0)
    monkeypatch.setattr(supernode, "_end", sys.exit)
    monkeypatch.setattr(sys, "argv", ["supernode", "--superlink", "127.0.0.1:1", "--node-config", str(path)])
    with pytest.raises(SystemExit, check=lambda end: end.code == 1):
        supernode.main()
    assert str(error) in capfd.readouterr().err and not (tmp_path / "state").exists()


def test_keys_match_the_table_and_enrolled_files_are_accepted(tmp_path):
    table = (ROOT / "docs/edge.md").read_text().split("### `node.toml`")[1].split("\n\n")[0]
    listed = {key for line in table.splitlines() for key in re.findall("`([^`]+)`", line.split(" | ")[0])}
    assert listed - {"node.toml"} == {*node.KEYS} - {"num-partitions"}
    page = (ROOT / "docs/configuration.md").read_text()
    table = page.partition("## A node's own configuration")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in table for key in {*node.KEYS} - {"num-partitions"})
    written = node_toml("pi-3", tmp_path / "state", tmp_path / "data")
    every = re.sub(r"^# (?=[a-z-]+ = )", "", written, flags=re.MULTILINE)
    assert len(tomllib.loads(every)) > 12 and node.check(tomllib.loads(every)).max_updates == 1000
    node.check({"num-partitions": 4, "seed": 7, "site": 1, "app-keys": "sensor, site"})
