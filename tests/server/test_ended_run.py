"""Runs that have ended: complete, out of time, without clients, or extended by rounds."""

import shutil
import threading
import time

import pytest
from flwr.clientapp import ClientApp as PlainClientApp

from aoi_fl.config.run import RunConfig
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.science.errors import ResumeError
from aoi_fl.server.app import play
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.folder import CHECKPOINTS, LEDGER, MODEL, only_player
from aoi_fl.server.resume import extend
from tests.ledgers import about_of, noted, rounds_of
from tests.refusals import refused
from tests.server.interrupted import (
    BASE,
    ROUNDS,
    assert_same,
    broken_off,
    configuration,
    recorded,
    resume_here,
    run_here,
)


def test_a_run_that_time_has_ended_plays_no_further_round(tmp_path, monkeypatch):
    timed = {"policy": "random", "clock": "always", "until": 30.0, "num-server-rounds": 100}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("aoi_fl.server.app.keep", broken_off)
        run_here(BASE | timed | {"runs-dir": str(tmp_path), "run-name": "timed"})
    before = rounds_of(tmp_path / "timed")
    assert rounds_of(resume_here(tmp_path / "timed")) == before
    assert before[-1]["clock"] >= 30.0
    assert (tmp_path / "timed" / MODEL).exists()


def test_a_complete_run_stays_as_it_is(start, whole):
    folder = whole("poll")
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    resume_here(folder)
    process = start("resume", str(folder))
    process.join()
    assert process.exitcode == 0
    assert "there is nothing to resume" in process.output.read_text()
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_that_ends_before_its_resume_stays_complete(whole, tmp_path):
    folder = shutil.copytree(whole("poll"), tmp_path / "whole")
    noted, held = [status_of(folder, "running")], threading.Event()

    def end():
        with only_player(folder):
            held.set()
            time.sleep(0.5)  # in which the other sees a run that is not complete, and waits
            noted.append(status_of(folder, "completed"))

    player = threading.Thread(target=end)
    player.start()
    held.wait()
    resume_here(folder)
    player.join()
    assert noted == ["completed", "running"] and status_of(folder, "completed") == "completed"


def status_of(folder, new):
    """Return a run's status, and write down another."""
    before = about_of(folder)["status"]
    noted(folder, status=new)
    return before


def test_without_a_usable_update_the_run_ends_and_can_go_on(tmp_path):
    """All clients fail in every round: the run stops after two of them, instead of writing down empty rounds."""
    values = configuration("poll", tmp_path, "stopped", **{"max-empty-rounds": 2, "num-server-rounds": 6})

    def failing(message, context):
        app = client_app if int(message.metadata.group_id) <= 2 else PlainClientApp()
        return app(message, context)

    folder = play(LocalGrid(failing, values, nodes=20), RunConfig.parse(values))
    assert [bool(row["empty"]) for row in rounds_of(folder)] == [False, False, True, True]
    about = about_of(folder)
    assert about["status"] == "stopped"
    assert "2 rounds in a row" in about["reason"]
    play(LocalGrid(client_app, values, nodes=20), RunConfig.parse(values | {"resume": True}))
    assert [bool(row["empty"]) for row in rounds_of(folder)] == [False, False, True, True, False, False]
    assert about_of(folder)["status"] == "completed"


def test_a_finished_run_with_more_rounds_is_the_longer_run(whole, tmp_path):
    folder = run_here(configuration("poll", tmp_path, "short", **{"num-server-rounds": ROUNDS // 2}))
    extend(folder, ROUNDS)
    assert recorded(folder) == ROUNDS // 2 - 1  # the last round runs again
    resume_here(folder)
    assert_same(folder, whole("poll"))
    assert about_of(folder)["config"]["num-server-rounds"] == ROUNDS


def test_rounds_that_cannot_be_added_change_nothing(tmp_path):
    folder = run_here(configuration("random", tmp_path, "r", **{"num-server-rounds": 2}))
    before = (folder / LEDGER).read_bytes()
    with refused("--rounds", 2):
        extend(folder, 2)
    config = about_of(folder)["config"]
    private = {"privacy": "white", "compression": "none", "max-empty-rounds": 10, "evaluate-clients": 0}
    timed = {"clock": "always", "until": 30.0}
    for changed in ({"config": config | private}, {"config": config | timed}, {"reason": "its hook has ended it"}):
        noted(folder, **changed)
        with refused("--rounds", 9):
            extend(folder, 9)
        noted(folder, config=config)
    (folder / LEDGER).write_bytes(before)
    shutil.rmtree(folder / CHECKPOINTS)
    with pytest.raises(ResumeError):
        extend(folder, 9)
    assert (folder / LEDGER).read_bytes() == before
