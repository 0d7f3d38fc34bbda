"""Many clients trained at once equal one after another: in float64 to 1e-9, in whole runs within float32."""

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from safetensors.numpy import load_file
from torch import nn

from aoi_fl.client.state import written_together
from aoi_fl.config.run import RunConfig
from aoi_fl.config.task import MODELS
from aoi_fl.learning import batched, models, partition, sgd, stacked
from aoi_fl.learning.client_app import app
from aoi_fl.learning.form import Form
from aoi_fl.learning.task import Task
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.arrays import to_record
from aoi_fl.server.app import play
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.folder import MODEL
from tests.ledgers import left_behind, parts_of

SHAPE, CLASSES = (1, 8, 8), 5
SIZES = [7, 1, 23, 4, 23]  # one client has a single image
TOLERANCE = 1e-9  # of the largest value, float64

pytestmark = pytest.mark.usefixtures("one_thread")


def problem(name, device="cpu"):
    """Return a model and the clients' images and labels, in float64."""
    rng = np.random.default_rng(3)
    model = models.build(name, Form(SHAPE, CLASSES), seed=1).double().to(device)
    xs = [torch.from_numpy(rng.normal(size=(n, *SHAPE))).to(device) for n in SIZES]
    ys = [torch.from_numpy(rng.integers(0, CLASSES, n)).to(device) for n in SIZES]
    return model, xs, ys


def orders(sizes):
    return [np.random.default_rng([5, i]) for i in range(len(sizes))]


def one_after_another(name, model, xs, ys, **how):
    start = {k: v.clone() for k, v in model.state_dict().items()}
    found, losses = [], []
    for x, y, order in zip(xs, ys, orders(xs), strict=True):
        model.load_state_dict(start)
        losses.append(sgd.fit(model, sgd.Share(x, y, order), loss=models.loss_of(name), **how))
        found.append([p.detach().clone() for p in model.parameters()])
    model.load_state_dict(start)
    return [torch.stack(values) for values in zip(*found, strict=True)], losses


def together(name, model, xs, ys, **how):
    shares = [sgd.Share(x, y, o) for x, y, o in zip(xs, ys, orders(xs), strict=True)]
    return batched.fit_many(model, shares, loss=models.loss_of(name), **how)


def agree(ours, theirs):
    (values, losses), (wanted, wanted_losses) = ours, theirs
    assert len(values) == len(wanted)
    for value, want in zip(values, wanted, strict=True):
        assert value.shape == want.shape
        assert float((value - want).abs().max()) <= TOLERANCE * float(want.abs().max())
    np.testing.assert_allclose(losses, wanted_losses, rtol=TOLERANCE)


HOW = {"epochs": 3, "batch_size": 4, "learning_rate": 0.2}
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
@pytest.mark.parametrize(
    "change",
    [
        {},  # the last batch of a pass is short
        {"merged": True},  # as on a GPU
        {"batch_size": 50},  # more than any client has
        {"batch_size": 1},
        {"epochs": None, "steps": 5},  # ends within a pass, or after many
    ],
    ids=str,
)
def test_together_equals_one_after_another(name, device, change, monkeypatch):
    how, given = HOW | change, problem(name, device)
    if how.pop("merged", False):
        monkeypatch.setattr(stacked, "merges", lambda x: True)
    expected, found = (train(name, *given, **how) for train in (one_after_another, together))
    moved = zip(expected[0], given[0].parameters(), strict=True)  # the model itself stays
    assert all(float((p - q.detach()).abs().max()) > 1e-3 for p, q in moved)
    agree(found, expected)


def test_a_client_that_diverges_leaves_the_others_alone():
    given = problem("cnn")
    given[1][2][:] = torch.nan
    expected, losses = one_after_another("cnn", *given, **HOW)
    values, found = together("cnn", *given, **HOW)
    assert np.isnan(found[2]) and np.isnan(losses[2])
    others = [0, 1, 3, 4]
    agree(
        ([v[others] for v in values], [found[i] for i in others]),
        ([v[others] for v in expected], [losses[i] for i in others]),
    )


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


INNER, FROZEN, ROW = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False), (3,)


@pytest.mark.parametrize(
    ("layers", "shape", "supported"),
    [
        ([INNER, nn.ReLU(), nn.Linear(3, 2)], ROW, True),
        ([nn.Flatten(), INNER], ROW, True),
        ([nn.BatchNorm2d(1), nn.Flatten(), nn.LazyLinear(2)], SHAPE, False),
        ([nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(128, 2)], SHAPE, False),
        ([nn.Linear(3, 3, bias=False)], ROW, False),
        ([INNER, nn.ReLU(), INNER], ROW, False),  # which has one layer's parameters
        ([INNER, FROZEN], ROW, False),
        ([Doubled(3, 3)], ROW, False),
        ([nn.Linear(3, 3), nn.Flatten(0)], ROW, False),
        *((models.build(name, Form(SHAPE, CLASSES), seed=1), SHAPE, True) for name in MODELS),
    ],
)
def test_a_sequence_is_stacked_if_the_result_is_equal(layers, shape, supported):
    assert stacked.supports(nn.Sequential(*layers), shape) == supported


def test_clients_at_once_follow_from_memory():
    task = Task("digits", "unused", "2nn", device="cpu")
    one = stacked.bytes_a_client(task._model(), task.data.shape, 10)
    parameters = 64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10
    assert one == 4 * (4 * parameters + 3 * 10 * (64 + 200 + 200 + 200 + 200 + 10))
    assert task.clients_at_once(10, room=7 * one + 5) == 7
    assert task.clients_at_once(10, room=1) == 1


# Whole runs ---------------------------------------------------------------------------------------------------------

# Linear, so that its gradient is continuous: at a kink (a rectified unit, a pooling, a margin) the last bit decides
# which way a step goes, and which units come that close to it differs from processor to processor.
RUN = {
    "model": "lr",
    "learning-rate": 0.1,
    "num-clients": 12,
    "clients-per-round": 5,
    "num-server-rounds": 4,
    "evaluate-clients": 2,
    "seed": 3,
}
RUNS = {
    "poll": {"policy": "markov-optimal", "sizes": "zipf:1.5"},
    "wics": {"policy": "wics", "mislabel-rate": 0.05, "trains": "all"},
}
ALWAYS = {"train-together": "always"}
FLOAT32 = 1e-4  # of the largest value of an array, and of losses, after four rounds


def play_run(folder, spoil=lambda grid: None, **keys):
    values = RunConfig.parse(RUN | keys | {"runs-dir": str(folder), "run-name": "r"})
    with written_together() as write:
        grid = LocalGrid(app, values.flat(), values.num_clients, write)
        spoil(grid)
        return play(grid, values)


def counted(monkeypatch):
    """Return a list that fills with the number of clients of each program."""
    found, real = [], Task.train_many

    def train_many(self, arrays, clients, **how):
        found.append(len(clients))
        return real(self, arrays, clients, **how)

    monkeypatch.setattr(Task, "train_many", train_many)
    return found


def compare(*folders):
    """Both runs chose and kept the same; losses and models agree within float32."""
    one, two = map(left_behind, folders)
    assert one["rounds"] and one["states"] == two["states"]
    for a, b in zip(one["participations"], two["participations"], strict=True):
        assert a | {"loss": 0} == b | {"loss": 0} and a["loss"] == pytest.approx(b["loss"], rel=FLOAT32, abs=1e-3)
    first, second = (load_file(folder / MODEL) for folder in folders)
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=0, atol=FLOAT32 * np.abs(value).max())


@pytest.mark.parametrize(
    "kind", ["poll", *(pytest.param(kind, marks=pytest.mark.slow) for kind in RUNS if kind != "poll")]
)
def test_a_run_is_the_same_together_and_alone(kind, tmp_path, monkeypatch):
    programs = counted(monkeypatch)
    alone = play_run(tmp_path / "alone", **RUNS[kind], **{"train-together": "never"})
    assert programs == []
    both = play_run(tmp_path / "together", **RUNS[kind], **ALWAYS)
    assert max(programs) >= 2 and len(programs) <= RUN["num-server-rounds"]
    compare(alone, both)


def test_a_client_with_bad_data_fails_alone(tmp_path, monkeypatch, caplog):
    """Its labels are of no class of the task."""
    programs = counted(monkeypatch)
    np.savez(tmp_path / "bad.npz", x=np.zeros((9, 8, 8), np.float32), y=np.full(9, 77))

    def spoil(grid):
        contexts = list(grid._contexts.values())
        contexts[4].node_config["data-file"] = str(tmp_path / "bad.npz")

    keys = {"policy": "random", "clients-per-round": 12, "num-server-rounds": 2, "evaluate-clients": 0}
    both = play_run(tmp_path / "together", spoil, **keys, **ALWAYS)
    assert programs == [11, 11]
    failed = [p for p in parts_of(both) if p["outcome"] != "trained"]
    assert {p["client"] for p in failed} == {4} and "label" in failed[0]["reason"]


def test_when_the_program_fails_each_trains_alone(tmp_path, monkeypatch, caplog):
    calls = []

    def fail(*_, **__):
        calls.append(1)
        raise torch.cuda.OutOfMemoryError("no room")

    monkeypatch.setattr(batched, "fit_many", fail)
    programs, keys = counted(monkeypatch), {"policy": "random", "num-server-rounds": 2}
    both = play_run(tmp_path / "together", **keys, **ALWAYS)
    assert len(calls) == 2  # once a round, not once a client
    assert "Training 5 clients together failed (OutOfMemoryError('no room'))" in caplog.text
    monkeypatch.setattr(Task, "clients_at_once", lambda self, batch_size: 2)
    play_run(tmp_path / "chunks", **keys, **ALWAYS)
    assert programs == [5, 5, 2, 2, 2, 2]  # the last of five trains alone
    alone = play_run(tmp_path / "alone", **keys, device="cpu")
    assert len(programs) == 6  # on a CPU clients train alone by default
    assert (alone / MODEL).read_bytes() == (both / MODEL).read_bytes()


@pytest.mark.parametrize("other", [{"rate": 0.3}, {"factor": np.float32(1.1)}, {"round_": 5}], ids=str)
def test_what_differs_is_not_trained_together(other, tmp_path, monkeypatch):
    """Clients that were sent another model, rate or round than the first of their program."""
    programs, task = counted(monkeypatch), Task("digits", "unused", RUN["model"], device="cpu", seed=3)
    partition.write_index(tmp_path / "r" / "partition.npy", partition.make(task.data.train_y, 4, seed=3))
    model = to_record(task.initial_arrays())

    def content(rate=0.1, factor=None, round_=4):
        moved = factor and to_record({name: value * factor for name, value in task.initial_arrays().items()})
        config, terms = {"learning-rate": rate}, ParticipationRequest("r", round_).write()
        return RecordDict({"arrays": moved or model, "config": ConfigRecord(config), "aoi": ConfigRecord(terms)})

    grid = LocalGrid(app, RunConfig.parse(RUN | ALWAYS | {"runs-dir": str(tmp_path)}).flat(), 4)
    contents = zip([content(), content(), content(**other), content(**other)], grid.get_node_ids(), strict=True)
    replies = grid.send_and_receive([Message(one, node, "train") for one, node in contents])
    one, _, other_one, _ = (reply.content["arrays"]["1.weight"].numpy() for reply in replies)
    assert programs == [2] and not np.allclose(one, other_one, atol=1e-3)
