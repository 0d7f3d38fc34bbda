"""Runs in processes of their own that are killed, and the comparison with one that was left alone."""

import logging
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from aoi_fl.config.policies import KEYS, REGISTRY
from aoi_fl.config.run import RunConfig
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.protocol import PARTITION_FILE
from aoi_fl.protocol.records import PHASES
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.app import app as server_app
from aoi_fl.server.app import play
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.server.folder import LEDGER, MODEL
from aoi_fl.server.ledger import read
from aoi_fl.server.resume import recorded_run
from tests.fakes import ScriptedGrid
from tests.ledgers import about_of, rounds_of

ROUNDS = 12

BASE = {
    "num-clients": 20,
    "clients-per-round": 6,  # 6 does not divide 20, so that the Markov policy is left to chance
    "num-server-rounds": ROUNDS,
    "model": "lr",
    "local-epochs": 1,
    "evaluate-clients": 2,
    "seed": 3,
}

POLICIES = {
    "poll": {"policy": "markov-optimal"},
    "reserve": {"policy": "markov-optimal", "coordination": "reserve"},
    "random": {"policy": "random", "compression": "int8"},  # what the codes left unsaid goes on too
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
    values = RunConfig.parse(values).flat()
    run_local(server_app, client_app, values, nodes=values["num-clients"])
    return Path(values["runs-dir"]) / values["run-name"]


def resume_here(folder):
    about = recorded_run(folder)
    return run_here(about["config"] | {"resume": True, "run-name": folder.name, "runs-dir": str(folder.parent)})


def run_deployed(values, folder, cut=None):
    """Run clients that keep their states themselves; the server may end before a round. Return the run's folder."""
    config = RunConfig.parse(values)
    grid = ScriptedGrid(client_app, config.flat(), config.num_clients, cut=cut)
    for context in grid._contexts.values():
        context.node_config["state-dir"] = str(folder / "devices")
        context.node_config["partition-file"] = str(folder / "r" / PARTITION_FILE)
    return play(grid, config)


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


def recorded(folder):
    """Return how many rounds a ledger holds, also before there is one."""
    try:
        return len(rounds_of(folder))
    except (ConfigError, sqlite3.Error):
        return 0


def wait_for(folder, round_, process):
    """Wait until a round is committed, or the process has ended."""
    while recorded(folder) < round_ and process.is_alive():
        time.sleep(0.01)


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
    kept = [row["round"] for row in rounds_of(folder)]
    assert kept == list(range(1, len(kept) + 1)), "a round is missing, or is there twice"
    assert about_of(folder)["status"] == about_of(whole)["status"] == "completed"
    assert rows(folder, "participations", ("seconds",)) == rows(whole, "participations", ("seconds",))
    # A hello that was said again is not counted, the newcomers of round 1 are.
    but = ("started", "seconds", "messages", *(f"{phase}_seconds" for phase in PHASES))
    assert rows(folder, "rounds", but) == rows(whole, "rounds", but)
    models = [load_file(f / MODEL) for f in (folder, whole)]
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        assert array.tobytes() == models[1][name].tobytes(), name


def write_to(output):
    """Have this process, which a test has forked, write to a file."""
    file = output.open("w", buffering=1)
    os.dup2(file.fileno(), 1), os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = file
    for handler in logging.getLogger("flwr").handlers:
        handler.stream = file  # setStream flushes the former one, which a test may have closed


_FAST = ("poll", "late")

# A private run of eight clients.
PRIVATE = {
    "dataset": "digits",
    "model": "lr",
    "num-clients": 8,
    "clients-per-round": 2,
    "num-server-rounds": 6,
    "local-epochs": 1,
    "seed": 1,
    "device": "cpu",
    "privacy": "banded",
    "delta": 1e-2,
    "noise-multiplier": 0.8,
}

EACH = [policy if policy in _FAST else pytest.param(policy, marks=pytest.mark.slow) for policy in POLICIES]


def broken_off(path, blob):
    raise KeyboardInterrupt
