"""The live page: sent when the ledger has something new and only then; in a browser, without a reload."""

import json
import shutil
from urllib.parse import unquote

import pytest

from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.report import live, site
from aoi_fl.server.folder import only_player
from aoi_fl.server.ledger import Ledger
from tests.refusals import refused
from tests.report.chromium import serving, until, visit
from tests.report.recorded import browse, record


def ledger(folder):
    config = {"policy": "random", "clients-per-round": 2, "num-server-rounds": 9, "num-clients": 4}
    clients = [ClientRecord(c, f"client-{c}", 1) for c in range(4)]
    record(folder, [], clients, status="running", config=config, initial_accuracy=0.1)
    return Ledger(folder / "ledger.sqlite")


def add(opened, number):
    parts = [Participation((number + i) % 4, f"client-{(number + i) % 4}", "trained", weight=0.5) for i in range(2)]
    opened.add_round(RoundRecord(number, test_accuracy=number / 10, test_loss=1 / number, participations=parts))


def shown(page, seen=""):
    """Return the version and the parts of a page's content."""
    _, (version, body) = page.content(seen)
    return version, json.loads(body)


@pytest.fixture(autouse=True)
def restless(monkeypatch):
    monkeypatch.setattr(live, "_REST", 0.0)


def test_content_is_sent_once_for_each_state_of_the_ledger(tmp_path, monkeypatch):
    loads = []
    real = live.load
    monkeypatch.setattr(live, "load", lambda folder, label: loads.append(folder) or real(folder, label))
    page = live.Live(str(tmp_path / "a"))
    version, parts = shown(page)
    assert "Waiting for the run" in parts["main"]
    assert page.content(version)[1] is None
    (tmp_path / "a").mkdir()
    assert page.content(version)[1] is None and not loads
    (tmp_path / "a").rmdir()

    opened = ledger(tmp_path / "a")
    version, parts = shown(page, version)
    assert "No rounds yet" in parts["main"]
    for number in (1, 2):
        add(opened, number)
        version, parts = shown(page, version)
        assert f"{number} of 9 rounds" in parts["main"]
        (accuracy,) = [chart for chart in parts["charts"] if chart["name"] == "test-accuracy"]
        assert accuracy["data"][0]["x"] == list(range(number + 1))
        count = len(loads)
        assert [page.content(version)[1] for _ in range(20)] == [None] * 20
        assert len(loads) == count
        assert shown(page) == (version, parts)  # another reader, or the page loaded again
    opened.note(status="completed")
    _, parts = shown(page, version)
    assert "interrupted" not in parts["main"]
    opened.close()


def test_the_state_comes_with_every_answer(tmp_path):
    client = browse(tmp_path / "a")

    def said(seen=""):
        answer = client.get("/content", params={"seen": seen})
        return answer.headers["State"], unquote(answer.headers["Said"])

    assert said() == ("waiting", "Waiting: the run has no ledger yet")
    (tmp_path / "a").mkdir()
    Ledger(tmp_path / "a/ledger.sqlite").close()  # as a run has it before its start
    assert said() == ("waiting", "Waiting: the run has not begun yet")
    shutil.rmtree(tmp_path / "a")
    opened = ledger(tmp_path / "a")
    assert said() == ("interrupted", "Interrupted")
    with only_player(tmp_path / "a"):
        assert said()[0] == "running"
        add(opened, 1)  # a round of 1970
        opened.note(since=0)
        seen = client.get("/content").headers["Version"]
        assert said(seen)[0] == "stalled"
        opened.note(status="failed", reason="RuntimeError: „kaputt“")
        assert said()[0] == "failed"  # held again, and not yet begun
    assert said() == ("failed", "Failed: RuntimeError: „kaputt“")
    opened.close()
    (tmp_path / "a/ledger.sqlite").write_bytes(b"no database" * 100)
    assert said()[0] == "unreadable"


def test_a_link_damage_and_a_run_played_anew_are_followed(tmp_path):
    current, folder = tmp_path / "current", tmp_path / "b <b>"
    for place in (tmp_path / "a", folder):
        opened = ledger(place)
        add(opened, 1)
        opened.close()
    current.symlink_to("a")
    page = live.Live(str(current))
    version, parts = shown(page)
    assert parts["title"] == "a"
    current.unlink()
    current.symlink_to(folder)
    version, parts = shown(page, version)
    assert parts["title"] == folder.name
    folder.rename(tmp_path / "old")
    folder.mkdir()
    # SQLite has made the file and not yet the tables, or it is damaged.
    for content, words in ((b"", "Waiting for the run"), (b"no database" * 100, "cannot be read: file is not a data")):
        (folder / "ledger.sqlite").write_bytes(content)
        version, parts = shown(page, version)
        assert words in parts["main"] and "<b>" not in parts["main"]
    shutil.rmtree(folder)
    ledger(folder).close()
    version, parts = shown(page, version)
    assert "No rounds yet" in parts["main"]


def test_many_rounds_a_second_are_not_followed_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "_REST", 1e6)
    opened = ledger(tmp_path / "a")
    page = live.Live(str(tmp_path / "a"))
    version, _ = shown(page)
    add(opened, 1)
    assert page.content(version)[1] is None
    monkeypatch.setattr(page, "_rested", 0.0)
    assert page.content(version)[1] is not None


def test_a_taken_port_is_said():
    with site.listen("127.0.0.1", 0) as taken, refused("--port"):
        site.listen("127.0.0.1", taken.getsockname()[1])
    for host in ("192.0.2.1", ".."):
        with refused("--port", f"{host}:0"):
            site.listen(host, 0)


def test_the_page_reaches_for_nothing_else(tmp_path):
    opened = ledger(tmp_path / "a")
    add(opened, 1)
    client = browse(tmp_path / "a")
    shell = client.get("/")
    policy = shell.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe-eval" not in policy
    assert "//" not in shell.text
    first = client.get("/content?seen=")
    assert "1 of 9 rounds" in first.json()["main"]
    again = client.get("/content", params={"seen": first.headers["Version"]})
    assert (again.status_code, again.content) == (204, b"")
    assert {client.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")} == {404}


def test_a_new_round_shows_without_a_reload(tmp_path, browser):
    run = tmp_path / "runs/a"
    with serving(run) as address:
        tab = visit(browser, address)
        until(tab, "document.querySelector('main')?.innerText.includes('Waiting for the run')")
        tab.evaluate("window.neverReloaded = true")
        opened = ledger(run)
        for number in (1, 2, 3):
            add(opened, number)
        points = "document.getElementById('test-accuracy')?.data?.[0].x.length"
        until(tab, f"{points} === 4")
        assert "3 of 9 rounds" in tab.inner_text(".one")
        tab.evaluate("window.chart = document.getElementById('test-accuracy'); undefined")
        tab.evaluate("chart.closest('section').querySelector('details').open = true")
        add(opened, 4)
        until(tab, f"{points} === 5")
        assert "4 of 9 rounds" in tab.inner_text(".one")
        assert tab.evaluate("chart === document.getElementById('test-accuracy')")
        table = "chart.closest('section').querySelector('details[open] tbody').rows.length"
        assert tab.evaluate(table) == 5  # rounds 0 to 4: the table that was opened stays open and grows
        assert tab.locator("#test-accuracy .main-svg").count() >= 1
        assert tab.evaluate("neverReloaded") is True
        assert tab.evaluate("performance.getEntriesByType('navigation').length") == 1
        assert tab.evaluate("faults") == []
        reached = tab.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
        assert reached and all(name.startswith(address) for name in reached)
        opened.close()
