"""Somebody else's ServerApp, recorded by one line: its ledger, its page, and how it truly ended."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from aoi_fl.client import ClientApp
from aoi_fl.report import page
from aoi_fl.report.headline import headline
from aoi_fl.report.measure import worst_tenth
from aoi_fl.report.runs import load
from aoi_fl.report.seeds import settings
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.folder import CHECKPOINTS, MODEL, is_played
from aoi_fl.server.record import record
from aoi_fl.strategies import MarkovParticipation, OldestAge, RandomSelection, SystematicParticipation
from tests.ledgers import about_of, rounds_of
from tests.refusals import refused
from tests.report.recorded import drawn

NODES, ROUNDS = 6, 8


def play(strategy, rounds=ROUNDS, evaluate=None, **reported):
    """Play somebody's app: a vector whose clients pull it to one, and its owner's own test of it."""
    client = ClientApp()

    @client.train()
    def train(message, context):
        (model,) = message.content["arrays"].to_numpy_ndarrays()
        metrics = MetricRecord({"num-examples": 5, "train_loss": float(np.abs(1 - model).mean()), "lag": 2})
        content = RecordDict({"arrays": ArrayRecord([model + 0.5 * (1 - model)]), "metrics": metrics})
        return Message(content, reply_to=message)

    @client.evaluate()
    def measure(message, context):
        number = context.node_config["partition-id"]
        metrics = {name: value[number] if isinstance(value, list) else value for name, value in reported.items()}
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 5, **metrics})}), reply_to=message)

    strategy.start(LocalGrid(client, {}, NODES), ArrayRecord([np.zeros(3)]), num_rounds=rounds, evaluate_fn=evaluate)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_one_line_gives_a_ledger_and_a_page(tmp_path):
    play(RandomSelection(2, observer=record("random")))
    play(MarkovParticipation.optimal(NODES, 2, observer=record("markov")))
    play(OldestAge(2, observer=record("oldest")))
    runs = [load(tmp_path / "runs" / name, name) for name in ("random", "markov", "oldest")]
    assert [run.status for run in runs] == ["completed"] * 3
    assert [run.law is not None for run in runs] == [True, True, False]
    for run in runs:
        assert len(run.rounds) == ROUNDS and run.size == NODES
        assert run.history.counts.sum() == sum(row["trained"] for row in run.rounds) > 0
        assert {"participation-0", "counts", "intervals"} <= drawn(run).keys()
        assert f"{ROUNDS} of {ROUNDS} rounds" in page.render([run])
    folder = tmp_path / "runs/random"
    assert not (folder / CHECKPOINTS).exists() and not (folder / MODEL).exists()


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RuntimeError("no\nmore"), "failed", "RuntimeError: no more"),
        (KeyboardInterrupt(), "interrupted", "the process received a request to stop"),
    ],
)
def test_a_run_that_an_error_ends_says_so(error, status, reason, tmp_path):
    def evaluate(round_, arrays):
        if round_ == 3:
            raise error
        return MetricRecord({})

    with pytest.raises(type(error)):
        play(RandomSelection(3, observer=record("mine")), evaluate=evaluate)
    about = about_of(tmp_path / "runs/mine")
    assert (about["status"], about["reason"]) == (status, reason)
    assert len(rounds_of(tmp_path / "runs/mine")) == 2
    assert is_played(tmp_path / "runs/mine") is False


def test_what_clients_measure_is_recorded_drawn_and_shown(told, tmp_path, capfd, caplog):
    names = {"accuracy": "client_accuracy", "f1": "client_f1", "eval_loss": "client_loss"}
    reported = {"accuracy": [i / 10 for i in range(NODES)], "f1": 0.25, "eval_loss": 3.5}
    play(RandomSelection(2, observer=record("a")), 2, **reported)
    run = load(tmp_path / "runs/a", "a")
    charts = drawn(run)
    for metric, column in names.items():
        assert run.rounds[-1][column] == pytest.approx(np.mean(reported[metric]))
        assert column.replace("_", "-") in charts
    assert run.rounds[-1]["train_lag"] == 2 and "train-lag" in charts
    assert any("Final results" in message and "'f1'" in message for message in caplog.messages)
    progress = next(line for line in capfd.readouterr().err.splitlines() if "round 2/2" in line)
    assert "accuracy 0.250" in progress and "loss 3.5" in progress
    assert told("report a")["runs"][0]["client_f1"] == pytest.approx(0.25)
    each = {f"client-{i}": i / 10 for i in range(NODES)}
    assert {row["name"]: row["test"] for row in told("clients a")["clients"]} == each


def test_the_last_measurement_of_each_client_counts(tmp_path):
    """Half of the clients evaluate a round; all metrics of one are no numbers, and another's are per cent."""
    reported = {"acc": [float("nan"), 50.0, 0.5, 0.5, 0.5, 0.5]}
    play(RandomSelection(2, fraction_evaluate=0.5, observer=record("a")), 6, **reported)
    assert load(tmp_path / "runs/a", "a").about["test_by_client"] == {f"client-{i}": 0.5 for i in range(1, NODES)}
    play(RandomSelection(2, observer=record("b")), 1, rmse=[float(i) for i in range(NODES)])
    run = load(tmp_path / "runs/b", "b")
    assert [*worst_tenth([run])] == ["client-5"] and run.about["test_by_client"]["client-1"] == 1.0


def test_a_run_is_held_while_it_lasts_and_never_written_over(tmp_path):
    seen = []

    def evaluate(round_, arrays):
        seen.append(load(tmp_path / "runs/mine", "mine").status)
        return MetricRecord({})

    play(RandomSelection(3, observer=record("mine")), 2, evaluate)
    assert seen == ["running"] * 3
    for _ in range(2):
        play(RandomSelection(3, observer=record("mine")), 1)
    lengths = {folder.name: len(load(folder, "").rounds) for folder in (tmp_path / "runs").glob("mine*")}
    assert lengths == {"mine": 2, "mine-2": 1, "mine-3": 1}
    with refused("run-name"):
        record("../up")


def test_a_test_loss_that_is_no_number_is_said(tmp_path, caplog):
    def evaluate(round_, arrays):
        return MetricRecord({"loss": float("nan") if round_ > 1 else 2.0, "accuracy": 0.5})

    play(RandomSelection(3, observer=record("a")), 3, evaluate)
    warned = [entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING"]
    assert sum("test loss" in message for message in warned) == 1
    run = load(tmp_path / "runs/a", "a")
    assert "2 of 3 rounds" in headline(settings([run])) and page.render([run])


@pytest.mark.parametrize(
    ("make", "per_round", "more", "warned"),
    [
        (SystematicParticipation, 3, {}, True),
        (SystematicParticipation, 4, {}, False),
        (SystematicParticipation, 3, {"jitter": 0.5}, False),
        (MarkovParticipation.optimal, 3, {}, True),
        (MarkovParticipation.increasing, 3, {}, False),
    ],
)
def test_a_warning_names_clients_that_always_meet(make, per_round, more, warned, caplog):
    play(make(NODES, per_round, **more), 1)
    assert any("always train together" in message for message in caplog.messages) == warned
