"""The operator's list, log, stop, resume and queue of a cluster's runs."""

import json
import os
import signal
import time

import pytest

from aoi_fl.docker import runs, settings, submit
from aoi_fl.docker.runs import Runs, Ticket, waiting
from aoi_fl.flower.control import RunState
from aoi_fl.protocol.records import RoundRecord
from aoi_fl.science.errors import AoiError
from aoi_fl.server.folder import only_player
from tests.ledgers import about_of
from tests.processes import FORK, ROOT
from tests.refusals import refused
from tests.report.recorded import record

CONFIG = {"policy": "random", "dataset": "digits", "num-server-rounds": 9, "num-clients": 4}


class Superlink:
    """Stands in for the SuperLink: knows runs by number, and ends one that is stopped."""

    def __init__(self, **statuses):
        self.statuses = {int(number[1:]): status for number, status in statuses.items()}
        self.names = {}

    def runs(self):
        names = self.names
        return [RunState(number, status, "", "", names.get(number, "")) for number, status in self.statuses.items()]

    def run(self, run_id):
        return next((state for state in self.runs() if state.run_id == run_id), None)

    def stop(self, run_id):
        self.statuses[run_id] = "finished"

    def log(self, run_id):
        return f"log of {run_id}"


def make_run(folder, status, *flower):
    record(folder, [RoundRecord(number, seconds=1.0) for number in (1, 2)], [], config=CONFIG, status=status)
    for number in flower:
        runs.note_number(folder, number)
    return folder


def test_the_list_holds_runs_with_their_states_and_the_queue(tmp_path):
    make_run(tmp_path / "old", "completed", 1)
    make_run(tmp_path / "cut", "running", 2)
    (tmp_path / "new").mkdir()
    runs.note_number(tmp_path / "new", 3)
    (tmp_path / ".current").symlink_to("new")
    with Ticket.take({"run": "next", "policy": "random", "dataset": "digits"}, tmp_path):
        rows = Runs(Superlink(n1="finished", n2="running", n3="pending"), tmp_path).table()
    assert {row["run"]: (row["state"], row["round"]) for row in rows} == {
        "old": ("completed", 2),
        "cut": ("interrupted", 2),
        "new": ("pending", 0),
        "next": ("queued", 0),
    }


def test_a_log_is_of_a_run_of_this_cluster(tmp_path):
    cluster = Runs(Superlink(n1="finished", n2="finished", n4="finished"), tmp_path)
    for name, *numbers in (("a", 1, 4), ("local",), ("other", 7), ("b", 2)):
        make_run(tmp_path / name, "completed", *numbers)
    assert cluster.log("a") == "log of 4"
    for name, allowed in (("local", "has begun"), ("other", "SuperLink"), ("absent", "runs list")):
        with refused("run", name, allowed):
            cluster.log(name)
    with Ticket.take({"run": "queued"}, tmp_path), refused("run", "queued", "has begun"):
        cluster.log("queued")


def test_a_stopped_run_can_continue_and_stops_once(tmp_path):
    folder = make_run(tmp_path / "long", "running", 1)
    cluster = Runs(Superlink(n1="running"), tmp_path)
    assert cluster.stop("long") == 2
    assert about_of(folder)["status"] == "stopped"
    with refused("run", "long", "stopped"):
        cluster.stop("long")
    cluster.check_resumable("long")


@pytest.mark.parametrize("recorded", [False, True])
def test_a_run_whose_submission_was_killed_can_be_stopped(tmp_path, recorded):
    """`submit` dies between Flower's acceptance of the run and the record of its id."""
    superlink = Superlink(n7="running")
    superlink.names = {7: "orphan"}
    cluster = Runs(superlink, tmp_path)
    if recorded:  # the ServerApp has begun
        make_run(tmp_path / "orphan", "running")
    assert [row["run"] for row in cluster.table()] == ["orphan"]
    assert cluster.of_number(7) == tmp_path / "orphan" and cluster.log("orphan") == "log of 7"
    assert cluster.stop("orphan") == (2 if recorded else 0)
    assert superlink.statuses == {7: "finished"}


def test_a_run_that_has_ended_can_be_deleted_and_others_cannot(tmp_path):
    for number, (name, status) in enumerate({"a": "completed", "b": "stopped", "c": "failed", "d": "running"}.items()):
        make_run(tmp_path / name, status, number + 1)
        time.sleep(0.02)
    cluster = Runs(Superlink(n1="finished", n2="finished", n3="finished", n4="running"), tmp_path)
    with refused("run", "d", "ended"):
        cluster.remove("d")
    with refused("run", "e"):
        cluster.remove("e")
    with only_player(tmp_path / "a"), refused("run", "a", "ended"):
        cluster.remove("a")
    cluster.remove("a")
    assert cluster.retain(0) == [] and cluster.retain(1) == ["b"]
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["c", "d"]


def test_a_waiting_process_ends_with_its_cluster(monkeypatch):
    """Compose's `down` leaves the containers of `run`, which would keep the volumes in use."""
    looks = [False, True, False, True, False, False]  # not there yet, there, restarting, there, gone
    left = iter(look for look in looks for _ in range(2 if not look else 1))
    monkeypatch.setattr(submit, "_has_address", lambda name: next(left))
    monkeypatch.setattr(submit, "_GLANCE", 0.0)
    ended = []
    monkeypatch.setattr(os, "kill", lambda *how: ended.append(how))
    submit.end_with_cluster()
    assert ended == [(os.getpid(), signal.SIGTERM)] and not list(left)


def test_what_cannot_continue_is_refused(tmp_path):
    make_run(tmp_path / "whole", "completed", 1)
    (tmp_path / "begun").mkdir()
    runs.note_number(tmp_path / "begun", 2)
    played = make_run(tmp_path / "played", "running", 3)
    cluster = Runs(Superlink(), tmp_path)
    with only_player(played):
        for name, allowed in (
            ("whole", "completed"),
            ("begun", "ledger"),
            ("played", "running"),
            ("none", "runs list"),
        ):
            with refused("run", name, allowed):
                cluster.check_resumable(name)


def test_a_dead_run_gives_way_and_a_living_one_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "DEAD", -1.0)
    monkeypatch.setattr(runs, "LOOK", 0.01)
    dead, alive = make_run(tmp_path / "dead", "running", 1), make_run(tmp_path / "alive", "running", 2)
    superlink = Superlink(n1="running", n2="running")
    cluster = Runs(superlink, tmp_path)
    with only_player(alive):
        assert [cluster.is_dead(state) for state in cluster.going()] == [True, False]
    superlink.statuses = {1: "running"}
    with Ticket.take({"run": "wanted"}, tmp_path) as ticket:
        cluster.await_turn(ticket)
    assert superlink.statuses == {1: "finished"} and dead.is_dir()


def _wait(folder, name):
    with Ticket.take({"run": name}, folder):
        time.sleep(60)


def test_a_killed_process_loses_its_place_in_the_queue(tmp_path):
    process = FORK.Process(target=_wait, args=(tmp_path, "first"))
    process.start()
    try:
        while not waiting(tmp_path):
            time.sleep(0.01)
        with Ticket.take({"run": "second"}, tmp_path):
            assert [ticket.facts["run"] for ticket in waiting(tmp_path)] == ["first", "second"]
            process.kill()
            process.join()
            assert [ticket.facts["run"] for ticket in waiting(tmp_path)] == ["second"]
    finally:
        process.kill()


def test_a_stopped_place_in_the_queue_never_starts(tmp_path):
    cluster = Runs(Superlink(), tmp_path)
    with Ticket.take({"run": "unwanted"}, tmp_path) as ticket:
        assert cluster.stop("unwanted") == 0
        with pytest.raises(AoiError, match="unwanted"):
            cluster.await_turn(ticket)


@pytest.mark.parametrize(
    ("variable", "value", "key"),
    [
        ("AOI_POLICY", "randm", "policy"),
        ("AOI_POLCY", "random", "AOI_POLCY"),
        ("AOI_NUM_SERVER_ROUNDS", "0", "num-server-rounds"),
        ("AOI_LOG_LEVEL", "loud", "AOI_LOG_LEVEL"),
        ("AOI_CLIENT_SLEEP", "perhaps", "AOI_CLIENT_SLEEP"),
        ("AOI_ENROL", "never", "AOI_ENROL"),
        ("AOI_KEEP_RUNS", "few", "AOI_KEEP_RUNS"),
    ],
)
def test_a_wrong_setting_ends_before_the_cluster_starts(variable, value, key, monkeypatch):
    monkeypatch.setattr(settings, "APP", ROOT)
    with refused(key):
        settings.check({variable: value})
    settings.check({"AOI_CLIENTS_PER_ROUND": "8"})  # `--scale client=8` may follow


def test_an_env_file_is_read_as_compose_reads_it(tmp_path, capsys):
    assert settings.from_file(tmp_path / ".env") == {}
    (tmp_path / ".env").write_text("# a comment\nAOI_POLICY='random' # why\nexport AOI_SEED=3\nAOI_TRACK=\n")
    assert settings.from_file(tmp_path / ".env") == {"AOI_POLICY": "random", "AOI_SEED": "3", "AOI_TRACK": ""}
    (tmp_path / "folder").mkdir()
    assert settings.from_file(tmp_path / "folder") == {} and "folder" in capsys.readouterr().out


def test_commands_print_json_and_end_with_a_status(tmp_path, monkeypatch, capsys):
    make_run(tmp_path / "a", "completed", 1)
    monkeypatch.setattr(submit, "connect", lambda *wait: Superlink(n1="finished"))
    monkeypatch.setattr(submit, "Runs", lambda control: Runs(control, tmp_path))
    parse = submit.parser().parse_args
    assert submit.operate(parse(["runs", "list", "--json"])) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["state"] == "completed"
    with refused("run", "a", "completed"):
        submit.operate(parse(["runs", "resume", "a"]))
    assert os.listdir(tmp_path / ".queue") == [".lock"]
