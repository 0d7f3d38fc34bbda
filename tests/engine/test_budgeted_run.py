"""Whole runs under a budget: the ledger tells what `aoi simulate` says, whoever computes the index, on any engine."""

import logging

import numpy as np
import pytest

from aoi_fl.cli.keys import pairs
from aoi_fl.config.fields import kebab
from aoi_fl.config.policies import BUDGETED
from aoi_fl.protocol.clients import read_clients_file, section5_instance
from aoi_fl.report.metrics import exposition
from aoi_fl.report.quantities import key_numbers
from aoi_fl.report.runs import load
from aoi_fl.report.seeds import Setting
from aoi_fl.report.summary_card import glance
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from tests.ledgers import about_of, clients_of, parts_of, rounds_of
from tests.server.interrupted import run_here

ROUNDS = 8
RUN = {
    "dataset": "digits",
    "model": "lr",
    "num-clients": 10,
    "num-server-rounds": ROUNDS,
    "local-steps": 1,
    "evaluate-every": 100,
    "budget": 40.0,
    "seed": 5,
}


def play(folder, **keys):
    return run_here(RUN | {"runs-dir": str(folder), "run-name": "r"} | {kebab(k): v for k, v in keys.items()})


def simulated(table, values, rounds=ROUNDS, total=float("inf")):
    ageing = values.get("ageing", "linear")
    kind = BUDGETED[values["policy"]]
    selector = BudgetedSelector(values["budget"], kind, values["seed"], ageing=ageing, total=total)
    there = np.ones(len(table.names), bool)
    population = Population(table.ages, table.sizes, there, table.payments, table.sensitivities)
    return simulate(selector, population, rounds, values["seed"])


def chosen(history):
    return [history.selection(t).clients.tolist() for t in range(1, history.rounds + 1)]


def refreshed_by_round(folder, rounds=ROUNDS):
    rows = [row for row in parts_of(folder) if row["refreshed"]]
    return [[row["client"] for row in rows if row["round"] == t] for t in range(1, rounds + 1)]


@pytest.mark.parametrize(
    "line",
    [
        "policy=wics ageing=quadratic",
        "policy=abs index-source=bid",
        "policy=maxpack index-source=bid trains=all mislabel-rate=0.05",
        "policy=random-budget",
    ],
)
def test_a_run_chooses_as_the_simulator_until_its_total_budget_is_spent(line, tmp_path, caplog):
    caplog.set_level(logging.INFO, "flwr")
    keys = {"budget": 40, "total-budget": 105, "evaluate_every": ROUNDS} | pairs(line.split())
    folder = play(tmp_path, **keys)
    table = section5_instance(RUN["num-clients"], RUN["seed"])
    history = simulated(table, {"seed": RUN["seed"]} | keys, total=105.0)
    assert history.rounds < ROUNDS
    rounds = rounds_of(folder)
    assert refreshed_by_round(folder, len(rounds)) == (wanted := chosen(history))
    assert [row["trained"] for row in rounds] == [10 if "trains" in keys else len(clients) for clients in wanted]
    assert [row["spent"] for row in rounds] == pytest.approx([table.payments[clients].sum() for clients in wanted])
    assert {row["asked"] for row in rounds} == {10 if "index-source" in keys else 0}
    assert [row["round"] for row in rounds if row["test_accuracy"] is not None] == [len(rounds)]
    spent = sum(row["spent"] for row in rounds)
    assert 105 - table.payments.min() < spent <= 105
    about = about_of(folder)
    words = f"is left of the total budget of 105, and the smallest payment is {table.payments.min():g} (total-budget)"
    assert about["status"] == "completed" and words in about["reason"] and words in caplog.text
    assert glance(folder).state.sentence == f"Completed: {about['reason']}"
    assert not (folder / "checkpoints").exists()
    told = exposition(folder).decode()
    assert "aoi_total_budget 105.0\n" in told
    left = float(next(line for line in told.splitlines() if line.startswith("aoi_budget_left ")).split()[1])
    assert left == pytest.approx(105 - spent)


def clients_file(path, rows):
    path.write_text("\n".join(["name,size,payment,sensitivity,age", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


@pytest.mark.parametrize("source", ["server", "bid"])
def test_a_clients_file_sets_the_first_ages(source, tmp_path):
    rows = [("north", 30, 7, 0.5, 4), ("south", 90, 9, 0.1, 0), ("east", 60, 5, 0.4, 12), ("west", 120, 6, 0.2, 1)]
    keys = {
        "policy": "wics",
        "budget": 12.0,
        "num_clients": 4,
        "index_source": source,
        "trains": "all",
        "mislabel-rate": 0.05,
        "clients_file": clients_file(tmp_path / "c.csv", rows),
    }
    folder = play(tmp_path, **keys)
    table = read_clients_file(tmp_path / "c.csv")
    history = simulated(table, {"seed": RUN["seed"], **keys})
    assert refreshed_by_round(folder) == chosen(history)
    # Round 1 by hand, index (Δ+1)(Δ+2)·12·φ/2p: north 12.857, south 0.133, east 87.36, west 1.2. East (5) and north
    # (7) spend 12 exactly.
    assert refreshed_by_round(folder)[0] == [0, 2]
    known = clients_of(folder)
    assert [(c["data_age"], c["payment"], c["sensitivity"], c["examples"]) for c in known] == [
        (age, payment, sensitivity, size) for _, size, payment, sensitivity, age in rows
    ]
    run = load(folder, "r")
    assert run.history.first_ages.tolist() == [4, 0, 12, 1]
    labels = [row[0] for row in key_numbers([Setting("r", (run,))])[1]]
    assert not any("Σ" in label for label in labels)  # which would be of refreshed clients only


GOOD = [("a", 9, 5, 0.5, 0), ("b", 9, 6, 0.5, 0)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (GOOD, "num-clients is 3, but must be 2"),
        ([(name, 9, 50, 0.5, 0) for name in "abc"], "smallest payment, 50"),
    ],
)
def test_budgets_that_cannot_be_kept_end_before_the_run(rows, words, tmp_path, refusal):
    file = clients_file(tmp_path / "c.csv", rows)
    keys = RUN | {"run-name": "r", "policy": "wics", "num-clients": 3, "clients-file": file}
    message = refusal("run", *(f"-c{key}={value}" for key, value in keys.items()))
    assert words in message and message.startswith("aoi: ")
    assert not (tmp_path / "runs").exists()
