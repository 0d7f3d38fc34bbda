"""What a resumed run takes over, what it refuses, and what it finds in its folder."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import ResumeError
from aoi_fl.server.folder import CHECKPOINTS, LEDGER, MODEL
from aoi_fl.server.ledger import Ledger, read_run
from aoi_fl.server.resume import recorded_run
from tests.ledgers import about_of, noted, parts_of, rounds_of
from tests.server.interrupted import configuration, resume_here, run_deployed, run_here


def test_clients_distinguish_runs_of_one_name(tmp_path, monkeypatch):
    monkeypatch.setattr("aoi_fl.server.app.uploads", lambda grid: True)
    small = {"num-clients": 6, "clients-per-round": 2, "num-server-rounds": 6}
    values = configuration("reserve", tmp_path, "r", **{"evaluate-clients": 0} | small)
    folder = run_deployed(values, tmp_path)
    ledger = folder / LEDGER
    first, token = parts_of(folder), read_run(ledger)["token"]
    shutil.rmtree(folder)
    with pytest.raises(KeyboardInterrupt):
        run_deployed(values, tmp_path, cut=5)
    again = read_run(ledger)["token"]
    run_deployed(values | {"resume": True}, tmp_path)
    assert token != again == read_run(ledger)["token"]
    alike = ["round", "client", "outcome", "age", "loss", "next_round"]
    second = parts_of(folder)
    assert [[part[key] for key in alike] for part in second] == [[part[key] for key in alike] for part in first]


def test_what_is_no_run_is_refused_with_a_reason(copy, tmp_path):
    with pytest.raises(ResumeError, match="nowhere"):
        recorded_run(tmp_path / "nowhere")
    with pytest.raises(ResumeError, match=r"give the folder its name back"):
        recorded_run(copy.rename(tmp_path / "renamed"))
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / LEDGER).write_bytes(b"junk " * 1000)
    with pytest.raises(ResumeError, match="not a database"):
        recorded_run(tmp_path / "junk")


def test_a_run_of_another_version_is_left_to_it(copy):
    config = about_of(copy)["config"] | {"wire": "poll", "alpha": 0.6}
    noted(copy, config=config)
    with pytest.raises(ResumeError, match="no run key alpha, wire"):
        recorded_run(copy)


def of_another_run(ledger):
    noted(ledger.parent, begun="of another")


def an_older_copy(ledger):
    with closing(sqlite3.connect(ledger)) as db, db:
        db.executescript("DELETE FROM rounds WHERE round > 0; DELETE FROM participations")


def without_its_log(ledger):
    ledger.with_name(f"{LEDGER}-wal").unlink()


def emptied(ledger):
    without_its_log(ledger)
    ledger.write_bytes(b"")


def of_a_complete_run(ledger):
    ledger.unlink()
    shutil.rmtree(ledger.parent / CHECKPOINTS)
    (ledger.parent / MODEL).write_bytes(b"the result")


def truncated(ledger):
    Ledger(ledger).close()  # which merges its log
    ledger.write_bytes(ledger.read_bytes()[: ledger.stat().st_size // 2])


@pytest.mark.parametrize(
    "lose", [of_another_run, an_older_copy, without_its_log, truncated, emptied, of_a_complete_run]
)
def test_a_ledger_that_lost_rounds_costs_no_checkpoint(lose, copy):
    lose(copy / LEDGER)
    kept = {path: path.read_bytes() for path in copy.rglob("*.safetensors")}
    with pytest.raises(ResumeError):
        resume_here(copy)
    with pytest.raises(ResumeError):
        run_here(configuration("poll", copy.parent, "cut"))
    assert {path: path.read_bytes() for path in copy.rglob("*.safetensors")} == kept


def test_flowers_own_command_must_tell_the_clients_the_same(copy):
    """``flwr run . -c 'resume=true run-name="cut"'`` brings the defaults for all that is not given."""
    values = RunConfig.parse({"resume": True, "run-name": "cut", "runs-dir": str(copy.parent)}).flat()
    with pytest.raises(ResumeError, match="was started with") as error:
        run_here(values)
    assert all(given in str(error.value) for given in ("model=lr", "local-epochs=1", "seed=3"))


@pytest.mark.parametrize("content", [b"", b"no ledger at all, but a file"])
def test_a_ledger_that_was_cut_off_or_damaged_is_no_traceback(content, tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / LEDGER).write_bytes(content)
    values = configuration("random", tmp_path, "broken", **{"num-server-rounds": 1})
    if content:
        with pytest.raises(ResumeError, match=r"run-name is 'broken', and .*ledger.sqlite cannot be read: .*delete"):
            run_here(values)
    else:  # no table, so no round
        assert len(rounds_of(run_here(values))) == 1


def test_a_deployments_run_is_not_resumed_with_simulated_clients(aoi, refusal, tmp_path):
    """Their ages are with the clients; simulated ones would draw new ones and write them into the same ledger."""
    assert aoi("run -c run-name=there -c num-server-rounds=1 -c policy=random")[0] == 0
    folder = tmp_path / "runs/there"
    (folder / "clients").rename(tmp_path / "elsewhere")
    noted(folder, status="stopped")
    message = refusal("resume there")
    assert "belongs to a deployment" in message and "AOI_RESUME=true" in message
