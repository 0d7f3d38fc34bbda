"""Trackers with the real libraries, writing to a folder: what they hold is read back by the library's own reader."""

from importlib.util import find_spec

import pytest
from flwr.app import ArrayRecord

from aoi_fl.config.groups import TRACKERS
from aoi_fl.protocol.records import RoundRecord
from aoi_fl.server.record import record
from aoi_fl.server.tracking import together, tracker
from aoi_fl.server.tracking.base import Tracker, numbers
from tests.ledgers import rounds_of
from tests.refusals import refused

RUN = "run -c preset=papers --clients 4 --per-round 2 --rounds 4 --run-name r --model lr -c max-age=3"


def of_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    text = found.Tensors("configuration/text_summary")[-1].tensor_proto.string_val[0].decode()
    config = dict(map(str.strip, row.split("|")[1:3]) for row in text.splitlines()[2:])
    return config, {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def of_mlflow(folder):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("aoi-fl").experiment_id])
    assert found.info.status == "FINISHED" and found.info.run_name == "r"
    metrics = {
        name: [(m.step, m.value) for m in client.get_metric_history(found.info.run_id, name)]
        for name in found.data.metrics
    }
    return found.data.params, metrics


READERS = {"tensorboard": of_tensorboard, "mlflow": of_mlflow}
pytestmark = pytest.mark.filterwarnings("ignore")


TOOLS = ["tensorboard", pytest.param("mlflow", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", TOOLS)
def test_a_resumed_run_is_one_run_of_the_tracker(aoi, tmp_path, cut_after, name):
    """It is cut after round 2 is in the ledger and before the tool has heard of it."""
    pytest.importorskip(name)

    with cut_after(2):
        assert aoi(f"{RUN} -c track={name}")[0] != 0
    assert aoi("resume", "r")[0] == 0
    config, metrics = READERS[name](tmp_path / "runs/r")
    rows = rounds_of(tmp_path / "runs/r")
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    expected = {}
    for row in rows:
        for key, value in numbers(row).items():
            expected.setdefault(key, []).append((row["round"], pytest.approx(value, rel=1e-6)))
    assert metrics == expected
    assert {"seconds", "trained", "test_accuracy", "test_loss", "train_loss"} <= set(metrics)
    assert (config["policy"], config["seed"], config["track"]) == ("markov-optimal", "1", name)


@pytest.mark.parametrize("name", TRACKERS)
def test_what_is_not_installed_is_refused_before_the_start(refusal, tmp_path, monkeypatch, name):
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None if wanted == name else find_spec(wanted))
    message = refusal(f"{RUN} -c track={name}")
    assert f"pip install 'aoi-fl[{name}]'" in message and TRACKERS[name] in message
    assert not (tmp_path / "runs/r").exists()


@pytest.mark.parametrize(
    ("value", "words"), [("tensorbord", "Did you mean 'tensorboard'?"), ("wandb,wandb", "distinct names")]
)
def test_what_is_no_tracker_is_refused(refusal, value, words):
    assert words in refusal(f"run -c track={value}")
    with refused("track", "tensorbord", "tensorboard"):
        tracker("tensorbord", "r")


class Broken(Tracker):
    tool = "Broken"

    def _begin(self):
        return 1

    def _log(self, round_, values):
        raise OSError("its disk is full")

    def _end(self, status):
        self.status = status


def test_trouble_with_a_tool_costs_the_run_nothing(tmp_path, caplog):
    broken = Broken("r", tmp_path)
    observer = together(record("r", tmp_path), broken)
    observer.run_begins({"kind": "random"}, 2)
    for number in (1, 2):
        observer.round_done(RoundRecord(number, seconds=1.0), ArrayRecord(), {})
    observer.run_ends(None, None)
    assert (tmp_path / "r/ledger.sqlite").is_file() and broken.status == "completed"
    assert caplog.text.count("Broken could not log round") == 1  # round 1 is one that it has
    assert "its disk is full" in caplog.text


@pytest.mark.parametrize("name", TOOLS)
def test_an_extended_run_shows_its_number_of_rounds(tmp_path, name):
    pytest.importorskip(name)
    rows = [{"round": number, "seconds": number / 2} for number in (1, 2, 3)]
    for rounds in (2, 3):
        observer = tracker(name, "r", tmp_path, {"num-server-rounds": rounds}, resume=rounds > 2)
        observer.catch_up(rows[:rounds])
        observer.run_begins({"rate": rounds / 4}, rounds)
        observer.run_ends(None, None)
    assert READERS[name](tmp_path / "r") == (
        {"num-server-rounds": "3", "rounds": "3", "policy.rate": "0.75"},
        {"seconds": [(1, 0.5), (2, 1.0), (3, 1.5)]},
    )
