"""Ledgers that no run has written: every reader names the damage, none ends in a traceback, none hangs."""

import json
import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from aoi_fl.cli.clients import clients
from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.report import page
from aoi_fl.report.runs import load
from aoi_fl.report.summary_card import glance
from aoi_fl.science.errors import AoiError
from aoi_fl.server import ledger
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.resume import check_simulated, recorded_run, take_up
from tests.processes import python
from tests.refusals import refused
from tests.report.recorded import browse, loaded, record

CONFIG = {"policy": "wics", "dataset": "digits", "num-clients": 3, "num-server-rounds": 4, "seed": 1, "until": 0.0}
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT"


def play(folder):
    """Record four rounds of a run with a budget and a clock, so that every chart has something to draw."""
    policy = {"kind": "wics", "budget": 4.0, "total_budget": 20.0, "index": "whittle", "clients": 3}
    known, rounds = [ClientRecord(c, f"c{c}", 1, 10, 1.0, 1.0, 0) for c in range(3)], []
    for t in range(1, 5):
        ones = dict.fromkeys(("weight", "payment", "seconds", "device_seconds"), 1.0)
        part = Participation(t % 3, f"c{t % 3}", "trained", age=2, refreshed=True, **ones)
        values = {"spent": 1.0, "clock": 10.0 * t, "test_loss": 1.0, "test_accuracy": 0.5}
        rounds.append(RoundRecord(t, 1e9 + t, 1.0, participations=[part], **values))
    return record(folder, rounds, known, run=folder.name, config=CONFIG, policy=policy, initial_loss=2.0)


def sql(*statements):
    return lambda db: db.executescript(";".join(statements))


def noted(key, value):
    return lambda db: db.execute("INSERT OR REPLACE INTO run VALUES (?, ?)", (key, json.dumps(value)))


def cell(table, column, value):
    return lambda db: db.execute(f"UPDATE {table} SET {column} = ?", (value,))


def inside(key, **values):
    def change(db):
        (text,) = db.execute("SELECT value FROM run WHERE key = ?", (key,)).fetchone()
        noted(key, json.loads(text) | values)(db)

    return change


FORGED = {
    "run is an endless view": sql("DROP TABLE run", f"CREATE VIEW run AS {ENDLESS} n AS key, '1' AS value FROM c"),
    "rounds is a virtual table": sql("DROP TABLE rounds", "CREATE VIRTUAL TABLE rounds USING fts5(round, started)"),
    "a column is computed": sql("DROP TABLE rounds", "CREATE TABLE rounds (round, seconds, started AS (1))"),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON rounds BEGIN DELETE FROM participations; END"),
    "no table run": sql("DROP TABLE run"),
    "no column round": sql("ALTER TABLE rounds RENAME COLUMN round TO other"),
    "no names": sql("ALTER TABLE clients RENAME COLUMN name TO other"),
    "run without values": sql("DROP TABLE run", "CREATE TABLE run (key, value)", "INSERT INTO run VALUES (NULL, NULL)"),
    "JSON without an end": lambda db: db.execute("UPDATE run SET value = ?", ("[" * 100_000,)),
    "half a character": lambda db: db.execute("INSERT INTO run VALUES ('reason', ?)", (json.dumps("\ud800"),)),
    "a blob for JSON": cell("run", "value", b"\x00\xff"),
    "a status that breaks headers": noted("status", "running\r\nSet-Cookie: x=1"),
    "a status that is a list": noted("status", [1]),
    "since is text": noted("since", "yesterday"),
    "a loss of 400 digits": noted("initial_loss", 10**400),
    "a budget that is an object": inside("policy", budget={"a": 1}),
    "a policy of a million": inside("policy", clients=10**12),
    "rates of text": inside("policy", kind="markov", probabilities=["x"] * 3),
    "rounds planned as text": inside("config", **{"num-server-rounds": "many Ā"}),
    "clients of a fraction": inside("config", **{"num-clients": 0.5, "seed": {}, "policy": [1]}),
    "a round in the far future": sql("UPDATE rounds SET round = round + 1000000000000"),
    "negative rounds": sql("UPDATE rounds SET round = -round", "UPDATE participations SET round = -round"),
    "a round that is text": cell("rounds", "seconds", "long"),
    "a time no calendar has": cell("rounds", "started", 1e300),
    "a name of bytes": cell("clients", "name", b"\xff\xfe"),
    "a name with NUL and markup": cell("clients", "name", "a\x00b<script>[bold]"),
    "an outcome that is nothing": cell("participations", "outcome", None),
    "an infinite data age": cell("clients", "data_age", float("-inf")),
    "a client of 64 bits": sql("UPDATE clients SET client = 9223372036854775807 - client"),
    "no rounds, but participations": sql("DELETE FROM rounds"),
}


def answered(run):
    """Have every reader read a run; return what each refused it for. Any other exception is the test's."""
    said = {}
    readers = {
        "report": lambda: page.render(loaded(run)),
        "clients": lambda: clients(str(run)),
        "clients --json": lambda: clients(str(run), True),
        "resume": lambda: (recorded_run(run), check_simulated(run)),
        "take up": lambda: take_up(run, Ledger(run / "ledger.sqlite")),
    }
    for name, read in readers.items():
        try:
            read()
        except AoiError as error:
            assert len(str(error)) < 2000
            said[name] = str(error)
    return said


@pytest.mark.parametrize("what", FORGED)
def test_a_malformed_ledger_is_named_and_harms_no_other(what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    play(tmp_path / "runs/whole")
    bad = play(tmp_path / "runs/bad")
    with closing(sqlite3.connect(bad / "ledger.sqlite")) as db:
        FORGED[what](db)
        db.commit()
    begun = time.monotonic()
    client = browse()
    listed = client.get("/list")
    assert listed.status_code == 200 and "whole" in listed.text and "bad" in listed.text
    for view_ in ("", "content", "wall/content", "metrics"):
        assert client.get(f"/run/bad/{view_}").status_code == 200, view_
    assert glance(tmp_path / "runs/whole").state.name == "completed"
    assert "report" in answered(bad) or what not in list(FORGED)[:8]
    assert time.monotonic() - begun < 20
    capsys.readouterr()


def inner_page(size, child):
    """Return an inner page of a table whose every pointer leads to one page (SQLite's file format, 1.6)."""
    number = 30
    cells = [child.to_bytes(4, "big") + bytes([i + 1]) for i in range(number)]
    starts = [size - 5 * (i + 1) for i in range(number)]
    head = (
        bytes([5, 0, 0]) + number.to_bytes(2, "big") + starts[-1].to_bytes(2, "big") + b"\0" + child.to_bytes(4, "big")
    )
    head += b"".join(start.to_bytes(2, "big") for start in starts)
    return head + bytes(size - len(head) - 5 * number) + b"".join(reversed(cells))


def test_pages_that_refer_to_one_another_have_an_end(tmp_path, monkeypatch):
    """Nine inner pages, each with 31 pointers to the next: more rows than any reader has time for, in a small file."""
    monkeypatch.setattr(ledger, "_LONGEST_READ", 0.5)
    path = play(tmp_path / "bad") / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'run'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
        (pages,) = db.execute("PRAGMA page_count").fetchone()
    blob = bytearray(path.read_bytes())
    leaf = bytes(blob[(root - 1) * size : root * size])
    added = [pages + 1 + i for i in range(9)]
    blob[(root - 1) * size : root * size] = inner_page(size, added[0])
    for following in added[1:]:
        blob += inner_page(size, following)
    blob += leaf
    blob[28:32] = added[-1].to_bytes(4, "big")  # the file's length in pages
    path.write_bytes(blob)
    begun = time.monotonic()
    with refused("ledger", path):
        load(path.parent, "bad")
    client = browse(path.parent)
    assert client.get("/content").status_code == client.get("/metrics").status_code == 200
    assert time.monotonic() - begun < 30


def test_a_folder_whose_name_is_no_text_is_listed(tmp_path, aoi):
    play(tmp_path / "runs/whole")
    shutil.copytree(b"runs/whole", b"runs/caf\xe9")
    shutil.copytree("runs/whole", "runs/[x] <b>")
    client = browse()
    answer = client.get("/list")
    assert answer.status_code == 200 and "whole" in answer.text and "<b>" not in answer.text
    assert "caf\ufffd" in answer.text and client.get("/run/caf%EF%BF%BD/content").status_code == 200
    for command in (["report"], ["export", "--csv"]):
        assert aoi(*command, os.fsdecode(b"caf\xe9"))[0] == 0


# Runs that may be read and not written ------------------------------------------------------------------------------

READ = """
import os, sys
from pathlib import Path
from aoi_fl.report.runs import load
load(Path(sys.argv[1]), "warm")  # which imports all that is needed, as root
os.setgid(65534)
os.setuid(65534)
for folder in sys.argv[2:]:
    run = load(Path(folder), "run")
    print(run.status, len(run.rounds))
"""


def read_by_another(place, *folders):
    """Return what an account reads that may write nothing."""
    for folder in folders:
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
    return python("-c", READ, play(place / "warm"), *folders).stdout.splitlines()


@pytest.fixture
def place():
    """Yield a folder that every account can enter."""
    if os.getuid():
        pytest.skip("only root can read as another account")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_an_account_that_may_not_write_reads_every_ledger(place):
    ended, wal, going = (play(place / name) for name in ("ended", "wal", "going"))
    assert [path.name for path in ended.iterdir()] == ["ledger.sqlite"]
    with closing(sqlite3.connect(ended / "ledger.sqlite")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    with closing(sqlite3.connect(wal / "ledger.sqlite")) as db:
        db.execute("PRAGMA journal_mode=WAL")
    opened = Ledger(going / "ledger.sqlite")
    opened.add_round(RoundRecord(5, 1.0, 1.0))
    killed, torn, garbage = (Path(shutil.copytree(going, place / name)) for name in ("killed", "torn", "garbage"))
    opened.close()
    for copy in (killed, torn, garbage):  # a torn log costs what is in it alone
        (copy / "ledger.sqlite-shm").unlink()
    log = killed / "ledger.sqlite-wal"
    assert log.stat().st_size
    (torn / "ledger.sqlite-wal").write_bytes(log.read_bytes()[:-100])
    (garbage / "ledger.sqlite-wal").write_bytes(os.urandom(5000))
    found = read_by_another(place, ended, wal, killed, torn, garbage)
    assert found == [f"completed {rounds}" for rounds in (4, 4, 5, 4, 4)]


def test_a_reader_does_not_keep_a_run_from_its_end(tmp_path):
    folder = play(tmp_path / "run")
    opened = Ledger(folder / "ledger.sqlite")
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM rounds").fetchone()
        begun = time.monotonic()
        opened.close()
        assert time.monotonic() - begun < 5
    assert len(load(folder, "run").rounds) == 4


def test_names_are_printed_as_they_are(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    folder = play(tmp_path / "[red]run")
    opened = Ledger(folder / "ledger.sqlite")
    opened.add_clients([ClientRecord(0, "[bold]pi[/bold] [/nothing] :smile:", 1), ClientRecord(1, "a\x1b[31m\nb", 1)])
    part = Participation(0, "pi", "failed", reason="KeyError: '[/x]' [link=evil]")
    opened.add_round(RoundRecord(5, 1.0, 1.0, participations=[part]))
    opened.close()
    clients(str(folder))
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    for words in ("[red]run", "[bold]pi[/bold] [/nothing] :smile:", "KeyError: '[/x]' [link=evil]", "a�[31m�b"):
        assert words in printed
