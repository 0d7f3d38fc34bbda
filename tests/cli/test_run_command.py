"""`aoi run`: from the command line to a ledger, and every mistake of a user to one paragraph and status 2."""

import json

import pytest
from safetensors.numpy import load_file

from aoi_fl.config.policies import BUDGETED, users_of
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.benchmarks.processes import simulate
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.science.errors import NodesError
from aoi_fl.server.app import app as server_app
from aoi_fl.server.engine.local_run import run_local
from tests.ledgers import about_of, clients_of, left_behind, parts_of, rounds_of
from tests.processes import ROOT
from tests.server.interrupted import run_here
from tests.strategies.test_own_policy import RULE

CLIENTS, PER_ROUND, ROUNDS = 6, 3, 3


@pytest.fixture
def keys():
    """Return the keys of a run that takes a moment."""
    return {
        "preset": "papers",
        "dataset": "digits",
        "model": "lr",
        "num-clients": CLIENTS,
        "clients-per-round": PER_ROUND,
        "num-server-rounds": ROUNDS,
        "local-epochs": 1,
        "batch-size": 5,
        "learning-rate": 0.5,
        "seed": 4,
    }


def command(keys, *more):
    if keys.get("policy") in BUDGETED:  # which refuse what they do not use
        keys = {k: v for k, v in keys.items() if k != "clients-per-round"}
    return ["run", *[part for k, v in keys.items() for part in ("-c", f"{k}={v}")], *more]


def selections(folder):
    rows = [p for p in parts_of(folder) if p["outcome"] == "trained"]
    return [[p["client"] for p in rows if p["round"] == r["round"]] for r in rounds_of(folder)]


def test_a_run_leaves_ledger_model_and_states(keys, tmp_path, aoi):
    """JSON is all there is on stdout, and a pipe gets no colours."""
    status, out, err = aoi(*command(keys, "-c", f"runs-dir={tmp_path}", "-c", "run-name=r", "--json"))
    told = json.loads(out)
    assert (status, told["status"], told["rounds"], told["run"]) == (0, "completed", ROUNDS, str(tmp_path / "r"))
    folder = tmp_path / "r"
    rounds = rounds_of(folder)
    assert [r["round"] for r in rounds] == [1, 2, 3] and told["test_accuracy"] == rounds[-1]["test_accuracy"]
    assert about_of(folder)["config"]["clients-per-round"] == PER_ROUND
    assert load_file(folder / "model.safetensors")
    assert [client["name"] for client in clients_of(folder)] == [f"client-{i}" for i in range(CLIENTS)]
    assert len(list((folder / "clients").glob("client-*.json"))) == CLIENTS
    assert "\x1b" not in err and "INFO" in err
    lines = [line for line in err.splitlines() if line.startswith("round ")]
    assert len(lines) == ROUNDS
    assert all(word in lines[1] for word in ("round 2/3", "age", "loss", "accuracy", " s |", "left"))


RATES = {"policy": "systematic", "rates": "given", "clients-file": "rates.csv", "run-name": "r"}


@pytest.fixture
def one_paragraph(refusal):
    """Return a function that runs a refused command, and looks for words in its one paragraph."""

    def check(arguments, *words):
        message = refusal(*arguments)
        assert message.count("aoi: ") == 1 and all(word in message for word in words), message

    return check


@pytest.mark.parametrize(
    ("changes", "text", "words"),
    [
        (RATES | {"clients-file": "none.csv"}, "", ["clients-file ", "none.csv, but must be a readable file"]),
        (RATES, "rate\n" + "0.25\n" * 6, ["clients-file ", "is '1.5', but must be clients-per-round, 3"]),
    ],
)
def test_tables_are_read_before_any_client_is_asked(one_paragraph, keys, tmp_path, monkeypatch, changes, text, words):
    monkeypatch.setattr(
        "aoi_fl.server.engine.local.LocalGrid.push_messages", lambda *_: pytest.fail("a client is asked")
    )
    (tmp_path / "rates.csv").write_text(text)
    one_paragraph(command(keys | changes), *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("compensate", ["none", "availability"])
def test_a_rate_too_small_for_a_table_is_refused_early(aoi, one_paragraph, keys, tmp_path, compensate):
    """What the message asks for, a millionth or no table, is accepted."""
    two = keys | RATES | {"num-clients": 2, "clients-per-round": 1, "num-server-rounds": 1, "compensate": compensate}

    def line(policy, rare):
        (tmp_path / "rates.csv").write_text(f"name,rate\nclient-0,{1 - rare!r}\nclient-1,{rare!r}\n")
        return command(two | {"policy": policy, "run-name": f"{policy}-{rare}"})

    wrong = line("markov-optimal", 1e-10)
    one_paragraph(wrong, "clients-file ", "rates.csv: rate of client client-1 is 1e-10", "at least 1e-06")
    assert not (tmp_path / "runs").exists()
    for policy, rare in (("markov-optimal", 1e-6), ("systematic", 1e-10)):
        status, _, err = aoi(*line(policy, rare))
        assert status == 0, err


def test_a_key_of_another_policy_is_refused_at_its_default(one_paragraph, keys):
    for key, value in (("budget", "40"), ("coordination", "auto")):
        line = command(keys | {"policy": "oldest-age"}, "-c", f"{key}={value}")
        one_paragraph(line, f"{key} is ", value, "policy oldest-age does not use it", *users_of(key))


def test_fewer_nodes_than_the_run_needs(keys, tmp_path, capfd):
    values = RunConfig.parse(keys | {"runs-dir": str(tmp_path), "run-name": "r", "join-timeout": 0.1}).flat()
    with pytest.raises(NodesError) as error:
        run_local(server_app, client_app, values, nodes=CLIENTS - 2)
    text = str(error.value)
    assert "4 clients are connected after 0.1 s" in text and "needs 6" in text
    assert "flwr run . --federation-config 'num-supernodes=6 client-resources-num-cpus=1'" in text
    assert about_of(tmp_path / "r")["status"] == "failed"
    run_here(values)  # the name is free: nothing was played
    assert about_of(tmp_path / "r")["status"] == "completed"


# Both engines -------------------------------------------------------------------------------------------------------


def differences(one, two):
    first, second = left_behind(one), left_behind(two)
    return [f"{one.name}: {what}" for what, found in first.items() if found != second[what]]


CELLS = {
    "reserve": {"policy": "markov-optimal", "coordination": "reserve"},
    "broadcast": {"policy": "markov-optimal", "coordination": "broadcast"},
    "ahead": {"policy": "markov-increasing", "coordination": "poll", "evaluate-clients": 4},
    "int8": {"policy": "random", "evaluate-clients": 2, "compression": "int8"},
    "systematic": {
        "policy": "systematic",
        "coordination": "reserve",
        "rates": "size",
        "sizes": "zipf:1.5",
        "weights": "unbiased",
        "jitter": 0.2,
    },
    "bids": {"policy": "wics", "index-source": "bid", "budget": 25.0},
    "own": {"policy": "python:own_rule_both:Impatient"},
}

# The order of arrival decides which updates make a model, so the engines need not agree.
WITHOUT_BARRIER = {"policy": "random", "buffer": 2, "late-rounds": 9}


@pytest.mark.slow
@pytest.mark.ray
def test_both_engines_play_the_same_in_every_wire_mode(keys, tmp_path):
    """All on one start of Ray, which is most of the time."""
    (tmp_path / "own_rule_both.py").write_text(RULE)
    # 7 is no multiple of 3: coins are thrown. The first question waits for Ray's processes.
    keys = keys | {"num-clients": 7, "num-server-rounds": 4, "device": "cpu", "ask-timeout": 500.0}
    keys["model-dir"] = str(tmp_path)
    for name, more in CELLS.items():
        run_here(keys | more | {"runs-dir": str(tmp_path / "local"), "run-name": name})
    config = keys | {"runs-dir": str(tmp_path / "ray"), "cells": json.dumps(CELLS | {"open": WITHOUT_BARRIER})}
    ended, log = simulate(ROOT / "tests/apps/cells", config, 7, 400)
    assert ended == "finished:completed", log
    for name in CELLS:
        chosen = selections(tmp_path / "local" / name)
        assert len(chosen) == 4 and len(set().union(*chosen)) < sum(map(len, chosen))  # somebody comes twice
    found = [d for name in CELLS for d in differences(tmp_path / "local" / name, tmp_path / "ray" / name)]
    assert found == []
    rounds = rounds_of(tmp_path / "ray/open")
    assert [(row["trained"], row["at_work"]) for row in rounds] == [(2, 3)] * 4
