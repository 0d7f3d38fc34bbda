"""Checkpoints on disk: what is written is what is read, and what is damaged is noticed."""

import os
from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvgM
from safetensors import safe_open

from aoi_fl.client import ClientApp
from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.science.errors import AoiError, NothingTrainedError, ResumeError, StorageError
from aoi_fl.server.checkpoint import Checkpoint, Checkpoints, encode
from aoi_fl.server.folder import LEDGER, make_run_folder, only_player
from aoi_fl.server.ledger import Ledger, read
from aoi_fl.server.observe import Recorder
from aoi_fl.server.resume import recorded_run
from aoi_fl.strategies import RandomSelection
from aoi_fl.strategies.plan import Resume
from tests.fakes import play, zeros

MODEL = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4).T,  # not contiguous
    "bias": np.array([np.pi, np.nan, -0.0]),
    "batches": np.array(7),  # 0-d, as in batch normalisation
    "empty": np.zeros((0, 3), np.float16),
}
MEMORY = {"last": np.array([3, -2, 0]), "next_round": np.array([5, 0, 2**40])}


@pytest.fixture
def store(tmp_path):
    return Checkpoints(tmp_path / "a/checkpoints")


def save(store, round_, model=MODEL, memory=MEMORY):
    store.save(Checkpoint(round_, model, memory))


@pytest.mark.parametrize("order", ["=", "S"])
def test_a_checkpoint_comes_back_bit_for_bit_and_in_order(order, store):
    swapped = [{k: v.astype(v.dtype.newbyteorder(order)) for k, v in arrays.items()} for arrays in (MODEL, MEMORY)]
    save(store, 4, *swapped)
    found = store.load(4)
    assert found.round == 4
    assert list(found.model) == list(MODEL)  # safetensors sorts by name and type; the model's order is kept aside
    for mine, theirs in ((MODEL, found.model), (MEMORY, found.memory)):
        for name, array in mine.items():
            assert theirs[name].dtype == array.dtype
            assert theirs[name].shape == array.shape
            assert theirs[name].tobytes() == array.tobytes()


def test_the_last_two_are_kept_and_nothing_else(store):
    for round_ in range(1, 6):
        save(store, round_)
        store.prune(round_, round_ - 1)
    (store.folder / ".model-6.safetensors.tmp").write_bytes(b"half")  # of a process that was killed while writing
    save(store, 6)
    store.prune(6, 5)
    assert sorted(os.listdir(store.folder)) == ["model-5.safetensors", "model-6.safetensors"]
    store.prune()
    assert not store.folder.exists()


def test_every_flipped_bit_and_every_cut_is_noticed(store):
    save(store, 1)
    path = store.path(1)
    whole = path.read_bytes()
    damaged = [whole[:length] for length in (0, 7, 8, 100, len(whole) - 1)]
    flipped = range(len(whole) - sum(a.nbytes for a in (*MODEL.values(), *MEMORY.values())), len(whole))  # the values
    damaged += [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in flipped]
    for blob in damaged:
        path.write_bytes(blob)
        with pytest.raises(ResumeError, match="cannot be used"):
            store.load(1)


def test_a_checkpoint_of_another_run_or_round_is_refused(store, tmp_path):
    save(store, 1)
    store.path(1).rename(store.path(2))
    with pytest.raises(ResumeError, match="made after round 1"):
        store.load(2)
    store.path(2).rename(store.path(1))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(ResumeError, match="of run 'a'"):
        Checkpoints(tmp_path / "b/checkpoints").load(1)


def test_a_run_that_broke_off_in_its_first_round_begins_again(store):
    save(store, 1)
    make_run_folder(store.folder.parent)
    save(store, 2)
    with pytest.raises(ResumeError):
        make_run_folder(store.folder.parent)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_file_of_no_regular_kind_is_named_and_hangs_nothing(make, store, tmp_path):
    (tmp_path / "r").mkdir()
    make(tmp_path / "r" / LEDGER)
    for reads in (lambda: recorded_run(tmp_path / "r"), lambda: make_run_folder(tmp_path / "r")):
        with pytest.raises(AoiError):
            reads()
    store.folder.mkdir(parents=True, exist_ok=True)
    make(path := store.path(99))
    with pytest.raises(ResumeError, match=path.name):
        store.load(99)


def test_the_last_committed_round_decides_which_one_is_used(store, caplog):
    assert store.last(0) == (0, {}, {})  # nothing committed: the run begins at its beginning
    for round_ in (6, 7, 8):
        save(store, round_)
    assert store.last(7).round == 7  # 8 was written, but never committed
    store.path(7).write_bytes(b"")
    assert store.last(7).round == 6
    assert "model-7.safetensors" in caplog.text
    store.path(6).unlink()
    with pytest.raises(ResumeError, match=r"model-7\.safetensors cannot be used.*no checkpoint .*model-6\.safetensors"):
        store.last(7)


def test_a_round_is_in_the_ledger_only_after_its_checkpoint(store, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    recorder = Recorder(ledger, store, 3)
    recorder.clients_seen([ClientRecord(0, "client-0", 1)])
    arrays = ArrayRecord({"w": Array(np.ones(3))})
    recorder.round_done(RoundRecord(1, participations=[Participation(0, "client-0", "trained")]), arrays, MEMORY)
    store.path(2).mkdir()
    with pytest.raises(StorageError):
        recorder.round_done(RoundRecord(2), arrays, MEMORY)
    assert [row["round"] for row in read(ledger.path, "rounds")] == [1]
    assert store.last(1).model["w"].tolist() == [1, 1, 1]
    ledger.close()


def test_two_processes_cannot_play_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr("aoi_fl.server.folder._PATIENCE", 0.2)
    with only_player(tmp_path), pytest.raises(ResumeError, match="another process"), only_player(tmp_path):
        pass
    with only_player(tmp_path):
        pass


FORGED = {
    "an order without end": {"order": "[" * 200_000},
    "an order that is a number": {"order": "5"},
    "an order of lists": {"order": '[["weight"]]'},
    "an order of other names": {"order": '["else"]'},
    "no checksum": {"checksum": None},
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_checkpoint_is_named(store, what):
    save(store, 1)
    with safe_open(store.path(1), "numpy") as file:
        about = file.metadata() | FORGED[what]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    store.path(1).write_bytes(encode(tensors, {key: value for key, value in about.items() if value is not None}))
    with pytest.raises(ResumeError, match="cannot be used"):
        store.load(1)


CARRIED = {
    "an array of another kind": {"so_far": np.array([["x"]], dtype="S1").view(np.uint8)},
    "one of another shape": {"last": np.zeros((2, 3, 4))},
    "no numbers": {"unable": np.zeros(0, np.float32), "next_round": np.zeros((0, 9))},
    "a description without end": {"aggregation/0/structure": np.frombuffer(b"[" * 200_000, np.uint8)},
    "a description of another thing": {"aggregation/0/structure": np.frombuffer(b'{"attributes": [1]}', np.uint8)},
    "a description of an array that is not there": {
        "aggregation/0/structure": np.frombuffer(b'{"attributes": {"x": ["array", "9"]}, "lost": {}}', np.uint8)
    },
}


@pytest.mark.parametrize("what", CARRIED)
def test_what_a_strategy_cannot_take_back_is_named(what, tmp_path):
    make = partial(RandomSelection, 1, aggregation=FedAvgM(server_momentum=0.5))
    resume = Resume(2, [ClientRecord(0, "client-0", 1)], CARRIED[what])
    try:
        play(make, ClientApp(), tmp_path, nodes=1, start=zeros(), resume=resume)
    except ResumeError as error:
        assert "does not fit this strategy" in str(error)
    except NothingTrainedError:
        pass  # what it could take back harmed nobody
