"""Pages of a report stand on their own: what they hold, where they are written, what is refused."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np

from aoi_fl.report import page
from aoi_fl.report.runs import load_all
from aoi_fl.report.summary import configuration
from aoi_fl.server.folder import only_player
from tests.refusals import refused
from tests.report.recorded import N, Page, budgeted_run, charts_of, loaded, play


def test_page_reaches_for_nothing_and_names_are_only_text(tmp_path):
    name = "<img src=x onerror=alert(1)>"
    play(tmp_path / name)
    text = page.render(loaded(tmp_path / name))
    tags = Page(text)
    for tag, attributes in tags.tags:
        assert tag not in ("img", "link", "iframe", "object", "a", "base")
        assert not {"src", "href", "srcset", "data", "onerror"} & attributes.keys()
    assert name in tags.words
    # In the charts too: nothing that Plotly takes for markup, and nothing that ends the script that holds them.
    trace = charts_of(tmp_path / name, budgeted_run(tmp_path / "w"))["test-accuracy"].data[0]
    assert trace["name"] == "&lt;img src=x onerror=alert(1)&gt;"
    (packed,) = re.findall(r'<script type="text/plain" id="figures">([A-Za-z0-9+/=]*)</script>', text)
    drawn = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(drawn) == 5
    assert {chart["title"] for chart in drawn} >= {"Test accuracy", "Load of each client"}
    assert [tag for tag, _ in tags.tags].count("script") == 3  # Plotly, figures, ours
    assert dict(tags.tags)["html"]["lang"] == "en"
    labelled = [attributes for _, attributes in tags.tags if attributes.get("class") == "chart"]
    assert len(labelled) == [tag for tag, _ in tags.tags].count("details") - 3 == 5  # and the numbers, keys and origin
    assert all(attributes["role"] == "application" and attributes["aria-label"] for attributes in labelled)


def test_summary_sentence_says_what_ran(tmp_path):
    chosen = play(tmp_path / "a")
    counts = np.array([sum(client in who for who in chosen) for client in range(N)])
    jain = counts.sum() ** 2 / (N * (counts**2).sum())
    said = " ".join(Page(page.render(loaded(tmp_path / "a"))).words)
    assert "markov, 5 of 12 clients a round, on digits: 40 of 40 rounds, test accuracy 40.0 %" in said
    assert f"fairness of the load {jain:.3f}" in said


def test_a_run_without_rounds_and_one_still_going(tmp_path):
    play(tmp_path / "new", rounds=0, status="running")
    text = page.render(loaded(tmp_path / "new"))
    assert "no round is recorded yet (interrupted)" in text
    assert "<script" not in text
    play(tmp_path / "going", rounds=1, status="running")
    with only_player(tmp_path / "going"):
        words = Page(page.render(loaded(tmp_path / "going", tmp_path / "new"))).words
    assert "1 of 40 rounds (still going)" in " ".join(words)


def test_load_comes_first_and_what_differs_is_listed(tmp_path):
    play(tmp_path / "a", rounds=3)
    play(tmp_path / "b", rounds=3, policy="random")
    runs = loaded(tmp_path / "a", tmp_path / "b")
    titles = re.findall(r"<h2>(.*?)</h2>", page.render(runs))
    assert titles[0] == "Load of each client"
    assert titles[-4:] == ["What differs", "All numbers", "Configuration", "Where this comes from"]
    (_, differing), (_, agreeing) = configuration(runs)
    assert differing == [["policy", "markov", "random"]] and ["clients-per-round", "5"] in agreeing
    assert "What differs" not in page.render(runs[:1])


# Files --------------------------------------------------------------------------------------------------------------


def test_the_page_lands_in_the_first_run(tmp_path, monkeypatch):
    play(tmp_path / "runs/a", rounds=2)
    monkeypatch.chdir(tmp_path)
    assert page.write(["a"]) == Path("runs/a/report.html")
    (tmp_path / "a").mkdir()  # another folder of that name, which is no run's
    assert page.write(["a"]) == Path("runs/a/report.html")
    assert page.write([str(tmp_path / "runs/a")], tmp_path / "deep/page.html").is_file()
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["page.html"]


def test_runs_of_one_name_are_distinguished(tmp_path):
    for place in "xy":
        play(tmp_path / place / "a", rounds=1)
    folders = [str(tmp_path / place / "a") for place in "xyx"]
    assert [run.label for run in load_all(folders)] == ["x/a", "y/a"]  # and no more of where they lie


def test_a_file_that_is_no_page_is_not_written_over(tmp_path):
    play(tmp_path / "a", rounds=1)
    ledger = tmp_path / "a/ledger.sqlite"
    notes = tmp_path / "notes.html"
    notes.write_text("<!DOCTYPE html>\n<title>Mine</title>")
    for path in (ledger, notes):
        before = path.read_bytes()
        with refused("--output"):
            page.write([str(tmp_path / "a")], path)
        assert path.read_bytes() == before
    with refused("--output"):
        page.write([str(tmp_path / "a")], ledger / "page.html")
    (tmp_path / "empty.html").touch()
    for _ in range(2):  # its own it writes anew
        assert page.write([str(tmp_path / "a")], tmp_path / "empty.html").stat().st_size > 9999
