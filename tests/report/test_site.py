"""The wall view and the list of runs: what they say is in the ledger, and no other folder is opened."""

import shutil
import time

import pytest

from aoi_fl.protocol.records import Participation, RoundRecord
from aoi_fl.report import site
from aoi_fl.server.folder import only_player
from aoi_fl.server.ledger import Ledger
from tests.report.recorded import Page, browse, play_minutes


def play(folder, rounds=3, **about):
    names = ("berlin", "rome <b>", "oslo", "paris")
    return play_minutes(folder, names, rounds, **{"config": {"num-server-rounds": 10}} | about)


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """Return a client of the list of runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return browse()


def test_the_wall_says_how_far_and_who(tmp_path):
    folder = play(tmp_path / "a", status="running")
    client = browse(folder)
    with only_player(folder):
        said = Page(client.get("/wall/content").text).words
    assert said[said.index("Test accuracy") + 1] == "70.0 %"
    assert said[said.index("Rounds done") + 1 :][:2] == ["3", "of 10"]
    assert said[said.index("Time left") + 1] == "7 min 00 s"  # seven rounds of a minute
    assert any(word.startswith("Running: round 3 ended") for word in said)
    at = said.index("Due in round 4")
    assert said[at:] == [
        "Due in round 4",
        "berlin",
        "In round 3",
        "berlin",
        "rome <b>",
        "Late",
        "oslo",
        "Dropped",
        "paris",
    ]
    assert "Time left" not in client.get("/wall/content").text  # nobody plays it any more
    assert 'data-state="interrupted"' in client.get("/wall/content").text


def test_runs_are_listed_with_state_and_link(listed, tmp_path):
    assert "no run yet" in listed.get("/list").text
    play(tmp_path / "runs/old one")
    time.sleep(0.02)
    play(tmp_path / "runs/new", status="failed", reason="the disk was full")
    (tmp_path / "runs/nothing").mkdir()
    (tmp_path / "runs/.current").symlink_to("new")  # as a cluster has it
    text = listed.get("/list").text
    page = Page(text)
    assert page.links == ["compare", "run/new/", "run/new/wall", "run/old%20one/", "run/old%20one/wall"]
    assert "Failed: the disk was full" in page.words and "3 of 10" in page.words and "70.0 %" in page.words
    assert text.count("<polyline") == 2
    for link in page.links[1:]:
        assert listed.get(f"/{link}").status_code == 200
    assert "3 of 10 rounds" in listed.get("/run/old%20one/content").json()["main"]
    assert b"aoi_round 3.0" in listed.get("/run/new/metrics").content


def test_only_runs_of_the_folder_are_opened(listed, tmp_path):
    play(tmp_path / "secret")
    play(tmp_path / "runs/a")
    for name in ("..%2Fsecret", "...", "nothing", str(tmp_path / "secret").replace("/", "%2F")):
        for view in ("", "content", "wall", "wall/content", "metrics"):
            assert listed.get(f"/run/{name}/{view}").status_code in (404, 422), (name, view)
        assert listed.get(f"/compare?run=a&run={name}").status_code == 404
    assert listed.get("/compare").status_code == listed.get("/compare?" + "run=a&" * 51).status_code == 422


def test_a_live_run_is_read_again_and_an_ended_one_is_not(tmp_path, monkeypatch):
    play(tmp_path / "a")
    runs = site.RunList(tmp_path)
    looked = []
    real = site.glance
    monkeypatch.setattr(site, "glance", lambda folder: looked.append(folder.name) or real(folder))
    assert [runs.glances()[0].round for _ in range(3)] == [3, 3, 3] and looked == ["a"]
    Ledger(tmp_path / "a/ledger.sqlite").add_round(RoundRecord(4))
    assert runs.glances()[0].round == 4 and runs.glances()[0].begun
    shutil.rmtree(tmp_path / "a")
    assert runs.glances() == []


def test_many_names_are_counted(tmp_path):
    folder = play(tmp_path / "a", 1)
    parts = [Participation(c, f"c{c}", "trained") for c in range(100)]
    Ledger(folder / "ledger.sqlite").add_round(RoundRecord(2, participations=parts))
    said = Page(browse(folder).get("/wall/content").text).words
    assert "c23" in said and "c24" not in said and "and 76 more" in said


def test_a_comparison_is_one_row_that_leads_to_its_page(listed, tmp_path):
    names = ["a-s1", "b-s1", "alone"]
    for name, policy in zip(names, ("markov", "random", "markov"), strict=True):
        play(tmp_path / "runs" / name, config={"num-server-rounds": 10, "policy": policy})
    table = "setting,seed,run\nmarkov,1,a-s1\nrandom,1,b-s1\nrandom,2,no-such-run\n"
    for stem, text in (("compare-1", table), ("compare-2", "\x00,"), ("compare-3", "no,columns\n1,2\n")):
        (tmp_path / "runs" / f"{stem}.csv").write_text(text)
        (tmp_path / "runs" / f"{stem}.html").write_text(f"the page {stem}")
    (tmp_path / "runs/compare-4.csv").write_text(table)  # its page is gone
    text = listed.get("/list").text
    folded, rest = map(Page, text.split("</details>"))
    said = " ".join(folded.words)
    assert "compare-1" in said and "2 runs, completed, begun" in said
    (found,) = site.RunList(tmp_path / "runs").comparisons()
    assert found.title == "markov against random" and found.title in folded.words
    (tmp_path / "runs/compare-1.csv").write_text("setting,seed,run\nweights size,1,a-s1\nweights equal,1,alone\n")
    (swept,) = site.RunList(tmp_path / "runs").comparisons()
    assert swept.title == "markov: weights size against weights equal"
    assert folded.links[1:] == ["compared/compare-1", *(f"run/{n}/{v}" for n in names[:2] for v in ("", "wall"))]
    assert rest.links == ["run/alone/", "run/alone/wall"]
    assert listed.get("/compared/compare-1").text == "the page compare-1"
    assert {listed.get(f"/compared/{name}").status_code for name in ("compare-2", "compare-4", "alone")} == {404}
