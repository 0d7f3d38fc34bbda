"""Runs that are killed, run out of disk, or lose their clients: what is complete stays, and the rest follows.

The processes are real and the kills are SIGKILL. A run that was cut is compared with one of the same configuration
that was left alone, played in this process. Most processes are forked from one that has imported everything, because
importing takes longer than the runs.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from flwr.clientapp import ClientApp as PlainClientApp
from safetensors.numpy import load_file

from aoi_fl.client.app import app as client_app
from aoi_fl.config.policies import KEYS
from aoi_fl.config.run import RunConfig
from aoi_fl.engine.local import LocalGrid
from aoi_fl.engine.local_run import run_local
from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE
from aoi_fl.protocol.clients import section5_instance
from aoi_fl.science.errors import ConfigError, ResumeError, StorageError
from aoi_fl.server.app import app as server_app
from aoi_fl.server.app import play
from aoi_fl.server.folder import CHECKPOINTS, LEDGER, MODEL, only_player
from aoi_fl.server.ledger import Ledger, read, read_run
from aoi_fl.server.resume import extend, recorded_run
from aoi_fl.server.terms import write_table
from aoi_fl.strategies.records import PHASES, Participation, RoundRecord
from aoi_fl.strategies.registry import REGISTRY
from tests.fakes import ScriptedGrid
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 12
BASE = {
    "num-clients": 20,
    "clients-per-round": 6,  # 6 does not divide 20, so that the Markov policy is left to chance
    "num-server-rounds": ROUNDS,
    "model": "lr",
    "local-work": "epochs:1",
    "evaluate-clients": 2,
    "seed": 3,
}
POLICIES = {
    "poll": {"policy": "markov-optimal"},
    "reserve": {"policy": "markov-optimal", "coordination": "reserve"},
    "random": {"policy": "random", "compression": "int8"},  # what the codes left unsaid goes on too
    "estimated": {  # which goes by its budget
        "policy": "wics",
        "clients-per-round": 15,
        "trains": "all",
        "staleness": "mislabelled",
        "sensitivities": "estimated",
    },
    # Some are away, some leave in mid-training, some are too slow: the time of a resumed run must go on where it was.
    "clock": {
        "policy": "markov-optimal",
        "clock": "generated",
        "num-clients": 60,
        "clients-per-round": 40,
        "over-selection": 1.2,
        "train-timeout": 15.0,
    },
    # Updates that are under way when a run breaks off, made and not yet come, must come all the same.
    "late": {
        "policy": "refl",
        "clock": "generated",
        "num-clients": 60,
        "clients-per-round": 10,
        "over-selection": 1.3,
        "train-timeout": 15.0,
        "late-rounds": 3,
    },
}


def configuration(policy, runs_dir, name, **more):
    values = BASE | POLICIES[policy] | {"runs-dir": str(runs_dir), "run-name": name} | more
    return RunConfig.parse(values).flat()


def run_here(values):
    run_local(server_app, client_app, values, nodes=values["num-clients"])
    return Path(values["runs-dir"]) / values["run-name"]


def resume_here(folder):
    about = recorded_run(folder)
    return run_here(about["config"] | {"resume": True, "run-name": folder.name, "runs-dir": str(folder.parent)})


def deployed(values, folder, cut=None):
    """Return a grid whose clients keep their states themselves, and whose server may end before a round."""
    grid = ScriptedGrid(client_app, values, values["num-clients"], cut=cut)
    for context in grid._contexts.values():
        context.node_config["state-dir"] = str(folder / "devices")
        context.node_config["partition-file"] = str(folder / "r" / PARTITION_FILE)
    return grid


@pytest.mark.parametrize("policy", ["poll", "reserve"])
def test_clients_distinguish_runs_of_one_name(policy, tmp_path, monkeypatch):
    monkeypatch.setattr("aoi_fl.server.app.uploads", lambda grid: True)
    values = configuration(policy, tmp_path, "r", **{"evaluate-clients": 0})
    ledger = play(deployed(values, tmp_path), RunConfig.parse(values)) / LEDGER
    first, token = read(ledger, "participations"), read_run(ledger)["token"]
    shutil.rmtree(ledger.parent)
    with pytest.raises(KeyboardInterrupt):
        play(deployed(values, tmp_path, cut=5), RunConfig.parse(values))
    again = read_run(ledger)["token"]
    play(deployed(values, tmp_path), RunConfig.parse(values | {"resume": True}))
    assert token != again == read_run(ledger)["token"]
    alike = ["round", "client", "outcome", "age", "loss", "next_round"]
    assert [[part[key] for key in alike] for part in read(ledger, "participations")] == [
        [part[key] for key in alike] for part in first
    ]


def arguments_of(values):
    others = KEYS - REGISTRY[values["policy"]].keys  # which are refused
    if "budget" in REGISTRY[values["policy"]].keys:
        others |= {"clients-per-round"}  # the budget says how many
    values = {"preset": "papers", **values}
    return ["run", *(f"-c{key}={value}" for key, value in values.items() if key not in others)]


def kill(process):
    process.kill()
    process.join()
    assert process.exitcode in (-signal.SIGKILL, 0)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start the ``aoi`` command in a process of its own, which writes to ``process.output``."""
    outputs = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(
            [
                "aoi_fl.cli.resume",
                "aoi_fl.server.app",
                "aoi_fl.client.app",
                "aoi_fl.engine.local",
                "aoi_fl.report.summary",
                "sklearn.datasets",
            ]
        )
        multiprocessing.forkserver.ensure_running()

    def begin(*arguments, script="from aoi_fl.cli.main import main; main()"):
        output = outputs / f"{len(os.listdir(outputs))}.txt"
        prelude = (
            "import os, sys\n"
            f"file = os.open({str(output)!r}, os.O_WRONLY | os.O_CREAT)\n"
            "os.dup2(file, 1), os.dup2(file, 2)\n"
            f"sys.argv = ['aoi', *{arguments!r}]\n"
        )
        process = context.Process(target=exec, args=(prelude + script, {"__name__": "aoi_in_a_process"}))
        process.start()
        process.output = output
        return process

    return begin


def recorded(folder):
    """Return how many rounds a ledger holds, also before there is one."""
    try:
        return len(read(folder / LEDGER, "rounds"))
    except (ConfigError, sqlite3.Error):
        return 0


def wait_for(folder, round_, process):
    """Wait until a round is committed, or the process has ended."""
    while recorded(folder) < round_ and process.is_alive():
        time.sleep(0.002)


# A program that sends itself a signal in the middle of writing a round down; {point} names the step.
_SIGNAL = """
import os, sys
import aoi_fl.server.ledger
from aoi_fl.cli.main import main

point, round_, signal = {point!r}, {round_}, {signal}
aside = ".model-%d.safetensors.tmp" % round_

def watch(event, arguments):  # the interpreter tells of every rename
    if event == "os.rename" and point == "half-written" and str(arguments[0]).endswith(aside):
        os.truncate(arguments[0], os.path.getsize(arguments[0]) // 2)
        os.kill(os.getpid(), signal)

sys.addaudithook(watch)
add_round = aoi_fl.server.ledger.Ledger.add_round

def commit(self, record):
    if record.round == round_ and point == "renamed":
        os.kill(os.getpid(), signal)
    add_round(self, record)
    if record.round == round_ and point == "committed":
        os.kill(os.getpid(), signal)

aoi_fl.server.ledger.Ledger.add_round = commit
main()
"""


def signalled(point, round_, signal_=signal.SIGKILL):
    return _SIGNAL.format(point=point, round_=round_, signal=int(signal_))


def rows(folder, table, without):
    return [{k: v for k, v in row.items() if k not in without} for row in read(folder / LEDGER, table)]


def assert_same(folder, whole):
    """See that two runs chose the same clients every round and came to the same model."""
    kept = [row["round"] for row in read(folder / LEDGER, "rounds")]
    assert kept == list(range(1, len(kept) + 1)), "a round is missing, or is there twice"
    assert read_run(folder / LEDGER)["status"] == read_run(whole / LEDGER)["status"] == "completed"
    assert rows(folder, "participations", ("seconds",)) == rows(whole, "participations", ("seconds",))
    # A hello that was said again is not counted, the newcomers of round 1 are.
    but = ("started", "seconds", "messages", *(f"{phase}_seconds" for phase in PHASES))
    assert rows(folder, "rounds", but) == rows(whole, "rounds", but)
    models = [load_file(f / MODEL) for f in (folder, whole)]
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        assert array.tobytes() == models[1][name].tobytes(), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return uninterrupted runs by policy, each played once."""
    done = {}

    def get(policy, **more):
        key = (policy, *more.items())
        if key not in done:
            done[key] = run_here(configuration(policy, tmp_path_factory.mktemp("whole"), "whole", **more))
        return done[key]

    return get


_FAST = ("poll", "late")
EACH = [policy if policy in _FAST else pytest.param(policy, marks=pytest.mark.slow) for policy in POLICIES]


@pytest.mark.parametrize("policy", EACH)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(policy, start, whole, tmp_path):
    chance = random.Random(policy)
    folder = tmp_path / "cut"
    process = start(*arguments_of(configuration(policy, tmp_path, "cut")))
    for round_ in sorted(chance.sample(range(1, ROUNDS - 1), 2)):
        wait_for(folder, round_, process)
        time.sleep(chance.uniform(0, 0.05))
        kill(process)
        assert recorded(folder) >= round_
        process = start("resume", str(folder))
    process.join()
    assert process.exitcode == 0, process.output.read_text()
    assert_same(folder, whole(policy))
    assert [path.name for path in (folder / CHECKPOINTS).iterdir()] == [f"model-{ROUNDS - 1}.safetensors"]


@pytest.mark.parametrize(("point", "kept"), [("half-written", 3), ("renamed", 3), ("committed", 4)])
def test_a_run_may_be_killed_while_it_writes_a_round_down(point, kept, start, whole, tmp_path):
    folder = tmp_path / "cut"
    arguments = arguments_of(configuration("poll", tmp_path, "cut"))
    process = start(*arguments, script=signalled(point, 4))
    process.join()
    assert process.exitcode == -signal.SIGKILL, process.output.read_text()
    names = sorted(os.listdir(folder / CHECKPOINTS))
    assert recorded(folder) == kept
    assert (".model-4.safetensors.tmp" in names) == (point == "half-written")
    assert ("model-4.safetensors" in names) == (point != "half-written")
    resume_here(folder)
    assert_same(folder, whole("poll"))


@pytest.fixture(scope="module")
def cut(start, tmp_path_factory):
    """Return a run that was killed after five rounds, to be copied and damaged."""
    folder = tmp_path_factory.mktemp("cut") / "cut"
    start(*arguments_of(configuration("poll", folder.parent, "cut")), script=signalled("committed", 5)).join()
    assert recorded(folder) == 5
    return folder


@pytest.fixture
def copy(cut, tmp_path):
    return Path(shutil.copytree(cut, tmp_path / "cut"))


def test_a_run_goes_on_at_another_place(copy, whole):
    resume_here(copy)
    assert_same(copy, whole("poll"))


def test_a_damaged_checkpoint_costs_one_round(copy, whole, capsys):
    path = copy / CHECKPOINTS / "model-5.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    resume_here(copy)
    assert "continues with round 5" in capsys.readouterr().err
    assert_same(copy, whole("poll"))  # the clients give the same answers again


def test_without_a_checkpoint_the_run_says_what_to_do(copy, start):
    shutil.rmtree(copy / CHECKPOINTS)
    process = start("resume", str(copy))
    process.join()
    output = process.output.read_text()
    assert process.exitcode == 2
    assert "Traceback" not in output
    assert "round 5 of run 'cut' is complete in the ledger, but" in " ".join(output.split())
    assert recorded(copy) == 5


def test_what_is_no_run_is_refused_with_a_reason(copy, tmp_path):
    with pytest.raises(ResumeError, match="nowhere"):
        recorded_run(tmp_path / "nowhere")
    with pytest.raises(ResumeError, match=r"give the folder its name back"):
        recorded_run(copy.rename(tmp_path / "renamed"))
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / LEDGER).write_bytes(b"junk " * 1000)
    with pytest.raises(ResumeError, match="not a database"):
        recorded_run(tmp_path / "junk")


def test_flowers_own_command_must_tell_the_clients_the_same(copy):
    """``flwr run . -c 'resume=true run-name="cut"'`` brings the defaults for all that is not given."""
    values = RunConfig.parse({"resume": True, "run-name": "cut", "runs-dir": str(copy.parent)}).flat()
    with pytest.raises(ResumeError, match="was started with") as error:
        run_here(values)
    assert all(given in str(error.value) for given in ("model=lr", "local-work=epochs:1", "seed=3"))
    with refused("run-name", ""):
        RunConfig.parse({"resume": True})


@pytest.mark.parametrize(
    ("begun", "recorded"),
    [
        ({"policy": "random", "clock": "always"}, {"foresight": True}),
        ({"policy": "markov-optimal", "rates": "size", "sizes": "zipf:1.5"}, {"max-age": 20}),
        ({"policy": "wics", "trains": "all", "sensitivities": "estimated"}, {"trains": "selected"}),
    ],
)
def test_a_run_of_an_earlier_version_resumes(begun, recorded, tmp_path, monkeypatch):
    values = RunConfig.parse(BASE | begun | {"runs-dir": str(tmp_path), "run-name": "old"}).flat()
    with refused("sensitivities" if "trains" in recorded else next(iter(recorded))):
        RunConfig.parse(values | recorded)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("aoi_fl.server.app.keep", broken_off)
        run_here(values)
    with closing(sqlite3.connect(tmp_path / "old" / LEDGER)) as db, db:
        db.execute("UPDATE run SET value = ? WHERE key = 'config'", (json.dumps(values | recorded),))
    assert read_run(resume_here(tmp_path / "old") / LEDGER)["status"] == "completed"


def test_a_run_that_time_has_ended_plays_no_further_round(tmp_path, monkeypatch):
    timed = {"policy": "random", "clock": "always", "until": 30.0, "num-server-rounds": 100}
    values = RunConfig.parse(BASE | timed | {"runs-dir": str(tmp_path), "run-name": "timed"}).flat()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("aoi_fl.server.app.keep", broken_off)
        run_here(values)
    before = read(tmp_path / "timed" / LEDGER, "rounds")
    assert read(resume_here(tmp_path / "timed") / LEDGER, "rounds") == before
    assert before[-1]["clock"] >= 30.0
    assert (tmp_path / "timed" / MODEL).exists()


def broken_off(path, blob):
    raise KeyboardInterrupt


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
    with closing(sqlite3.connect(folder / LEDGER)) as db, db:
        ((before,),) = db.execute("SELECT value FROM run WHERE key = 'status'").fetchall()
        db.execute("UPDATE run SET value = ? WHERE key = 'status'", (json.dumps(new),))
    return json.loads(before)


def test_what_another_start_has_left_of_its_clients_is_gone(tmp_path):
    """It ended before its first round; its table is of fewer clients than this run has."""
    folder = tmp_path / "again"
    folder.mkdir()
    write_table(folder / CLIENTS_FILE, section5_instance(4, 1))
    play = run_here(configuration("random", tmp_path, "again", **{"num-server-rounds": 1}))
    assert not (play / CLIENTS_FILE).exists() and len(read(play / LEDGER, "clients")) == 20


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
        assert len(read(run_here(values) / LEDGER, "rounds")) == 1


def test_a_run_cut_after_its_last_round_is_only_finished(copy, whole, monkeypatch):
    monkeypatch.setattr("aoi_fl.server.app.keep", broken_off)  # what writes the final model
    with pytest.raises(KeyboardInterrupt):
        resume_here(copy)
    assert recorded(copy) == ROUNDS
    monkeypatch.undo()
    resume_here(copy)
    assert_same(copy, whole("poll"))


@pytest.fixture
def disk(tmp_path):
    """Return a folder on a disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "aoi-test", folder], capture_output=True).returncode:
        pytest.skip("a small disk to fill up is a tmpfs, and mounting one is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk):
    """Leave no room on a disk; removing the file that is returned makes room again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    return ballast


@pytest.mark.parametrize("what", ["checkpoints", "everything"])
def test_a_full_disk_ends_the_run_and_keeps_complete_rounds(what, start, whole, disk, tmp_path):
    folder = (tmp_path if what == "checkpoints" else disk) / "full"
    folder.mkdir()
    if what == "checkpoints":  # they alone lie on the disk that fills up
        (disk / "checkpoints").mkdir()
        (folder / CHECKPOINTS).symlink_to(disk / "checkpoints")
    # After round 2 no checkpoint is removed yet, so nothing makes room for that of round 3.
    script = signalled("committed", 2, signal.SIGSTOP)
    process = start(*arguments_of(configuration("poll", folder.parent, "full")), script=script)
    wait_for(folder, 2, process)
    ballast = fill(disk)
    while process.is_alive():
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process.pid, signal.SIGCONT)
        process.join(0.05)
    output = process.output.read_text()
    assert process.exitcode == 2, output
    assert "Traceback" not in output
    message = " ".join(output[output.rindex("aoi: ") :].split())
    assert "No space left" in message
    if what == "checkpoints":
        assert "model-3.safetensors" in message
        assert f"aoi resume {folder} (a cluster" in message
    assert recorded(folder) == 2
    ballast.unlink()
    resume_here(folder)
    assert_same(folder, whole("poll"))


def test_a_full_disk_keeps_the_rounds_of_a_ledger(disk):
    ledger = Ledger(disk / LEDGER)
    parts = [Participation(i, f"client-{i}", "trained") for i in range(200)]
    ledger.add_round(RoundRecord(1, participations=parts))
    ballast = fill(disk)
    with pytest.raises(StorageError, match=r"cannot be written: .*full.*aoi resume"):
        ledger.add_round(RoundRecord(2, participations=parts))
    assert [row["round"] for row in read(disk / LEDGER, "rounds")] == [1]
    assert len(read(disk / LEDGER, "participations")) == 200
    ballast.unlink()
    ledger.add_round(RoundRecord(2, participations=parts))
    assert [row["round"] for row in read(disk / LEDGER, "rounds")] == [1, 2]
    ledger.close()


def test_without_a_usable_update_the_run_ends_and_can_go_on(tmp_path):
    """All clients fail in every round: the run stops after two of them, instead of writing down empty rounds."""
    values = configuration("poll", tmp_path, "stopped", **{"max-empty-rounds": 2, "num-server-rounds": 6})
    broken = PlainClientApp()
    healthy = LocalGrid(client_app, values, nodes=20)
    grid = LocalGrid(Switch(client_app, broken, after=2), values, nodes=20)
    folder = play(grid, RunConfig.parse(values))
    assert [bool(row["empty"]) for row in read(folder / LEDGER, "rounds")] == [False, False, True, True]
    about = read_run(folder / LEDGER)
    assert about["status"] == "stopped"
    assert "2 rounds in a row" in about["reason"]
    play(healthy, RunConfig.parse(values | {"resume": True}))
    assert [bool(row["empty"]) for row in read(folder / LEDGER, "rounds")] == [False, False, True, True, False, False]
    assert read_run(folder / LEDGER)["status"] == "completed"


class Switch:
    """A client app that stops working after a round."""

    def __init__(self, working, broken, after):
        self.working, self.broken, self.after = working, broken, after

    def __call__(self, message, context):
        app = self.working if int(message.metadata.group_id) <= self.after else self.broken
        return app(message, context)


def test_rounds_do_not_rush_by_while_nobody_is_there(tmp_path):
    """All nodes leave after round 2, and the run waits for them in each round before it is given up as empty."""
    values = configuration(
        "random", tmp_path, "left", **{"max-empty-rounds": 2, "num-server-rounds": 6, "join-timeout": 0.3}
    )

    grid = ScriptedGrid(
        client_app, values, 20, present=lambda grid: [] if recorded(tmp_path / "left") >= 2 else range(20)
    )
    folder = play(grid, RunConfig.parse(values))
    found = read(folder / LEDGER, "rounds")
    assert [row["trained"] for row in found] == [6, 6, 0, 0]
    assert all(row["seconds"] >= 0.3 for row in found[2:])
    assert read_run(folder / LEDGER)["status"] == "stopped"


def test_a_deployments_run_is_not_resumed_with_simulated_clients(aoi, tmp_path):
    """Their ages are with the clients; simulated ones would draw new ones and write them into the same ledger."""
    status, _, _ = aoi("run", "-c", "run-name=there", "-c", "num-server-rounds=1", "-c", "policy=random")
    assert status == 0
    folder = tmp_path / "runs" / "there"
    (folder / "clients").rename(tmp_path / "elsewhere")
    ledger = Ledger(folder / LEDGER)
    ledger.note(status="stopped")
    ledger.close()
    status, _, errors = aoi("resume", "there")
    assert status == 2 and "belongs to a deployment" in " ".join(errors.split()) and "AOI_RESUME=true" in errors


@pytest.mark.parametrize("policy", EACH)
def test_a_finished_run_with_more_rounds_is_the_longer_run(policy, whole, tmp_path):
    folder = run_here(configuration(policy, tmp_path, "short", **{"num-server-rounds": ROUNDS // 2}))
    extend(folder, ROUNDS)
    assert recorded(folder) == ROUNDS // 2 - 1  # the last round runs again
    resume_here(folder)
    assert_same(folder, whole(policy))
    assert read_run(folder / LEDGER)["config"]["num-server-rounds"] == ROUNDS


def test_rounds_that_cannot_be_added_change_nothing(tmp_path):
    folder = run_here(configuration("random", tmp_path, "r", **{"num-server-rounds": 2}))
    before = (folder / LEDGER).read_bytes()
    with refused("--rounds", 2):
        extend(folder, 2)
    with closing(sqlite3.connect(folder / LEDGER)) as db:
        config = read_run(folder / LEDGER)["config"]
        private = {"privacy": "white", "compression": "none", "max-empty-rounds": 10}
        db.execute("UPDATE run SET value = ? WHERE key = 'config'", (json.dumps(config | private),))
        db.commit()
    with refused("--rounds", 9):
        extend(folder, 9)
    (folder / LEDGER).write_bytes(before)
    shutil.rmtree(folder / CHECKPOINTS)
    with pytest.raises(ResumeError):
        extend(folder, 9)
    assert (folder / LEDGER).read_bytes() == before
