"""A run that goes on reads the files that it began with, from wherever it is resumed, or it is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.learning import data
from aoi_fl.learning.examples import tensors
from aoi_fl.server.folder import RATES_FILE
from aoi_fl.server.sources import settled
from aoi_fl.server.terms import rates_of, write_rates
from tests.learning.test_data import idx
from tests.ledgers import rounds_of

RUN = "run --preset papers --clients 6 --rounds 3 -c local-epochs=1 --run-name"
CLOCK = {"seconds": np.tile([0, 1e6], 6), "available": np.tile([1, 0], 6), "offsets": 2 * np.arange(7)}


def table(path, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(90, 4)).astype(np.float32)
    y = np.arange(90) % 3
    np.savez(path, train_x=x[:60], train_y=y[:60], test_x=x[60:], test_y=y[60:])


def published(folder, name, seed=1):
    rng, raw = np.random.default_rng(seed), folder / name / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 60), ("t10k", 20)):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(rng.integers(0, 256, (count, 28, 28), np.uint8)))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx((np.arange(count) % 10).astype(np.uint8)))


def lay_down(here, seed=1):
    """Write a table, a published set, the clients' table, and a clock."""
    table(here / "own.npz", seed)
    published(here / "sets", "MNIST", seed)
    rows = [f"client-{i},10,1,1,0,0.01,0.5" for i in range(6)]
    (here / "clients.csv").write_text("\n".join(["name,size,payment,sensitivity,age,staleness,rate", *rows]) + "\n")
    np.savez(here / "clock.npz", **CLOCK, training_seconds=[3.0 * seed] * 6)


def forget():
    for cache in (data._load, tensors):
        cache.cache_clear()


@pytest.fixture
def interrupted(aoi, tmp_path, cut_after):
    """Return a function that plays a run up to its first round."""

    def begin(words):
        lay_down(tmp_path)
        with cut_after(1):
            assert aoi(f"{RUN} own {words}")[0] != 0
        forget()
        assert len(rounds_of(tmp_path / "runs/own")) == 1

    yield begin
    forget()


OWN = "--dataset npz:own.npz --policy random --per-round 3"
CLOCKED = f"{OWN} -c clock=clock.npz"
MNIST = "--dataset mnist -c model=lr --policy random --per-round 3 -c data-dir=sets"


def other_images(here):
    path = here / "sets/MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")


def other_partition(here):
    path = here / "runs/own/partition.npy"
    parts = np.load(path)
    parts[-2:] = parts[-2:][::-1]
    np.save(path, parts)


def reversed_rows(name):
    def change(here):
        head, *rows = (here / "runs/own" / name).read_text().splitlines()
        (here / "runs/own" / name).write_text("\n".join([head, *rows[::-1]]) + "\n")

    return change


CHANGES = {
    "another table": (OWN, lambda here: lay_down(here, seed=2), "own.npz"),
    "images of a published set": (MNIST, other_images, "dataset=mnist"),
    "the partition": (OWN, other_partition, "partition.npy"),
    "no partition": (OWN, lambda here: (here / "runs/own/partition.npy").unlink(), "partition.npy"),
    "the clients' table": (
        "--dataset npz:own.npz --policy wics -c clients-file=clients.csv -c budget=3",
        reversed_rows("clients.csv"),
        "clients.csv",
    ),
    "the rates": (
        "--dataset npz:own.npz --policy systematic --per-round 3 -c rates=given -c clients-file=clients.csv",
        reversed_rows("rates.csv"),
        "rates.csv",
    ),
    "a clock": (CLOCKED, lambda here: np.savez(here / "clock.npz", **CLOCK, training_seconds=[9.0] * 6), "clock.npz"),
}


@pytest.mark.parametrize(("words", "change", "name"), CHANGES.values(), ids=CHANGES)
def test_a_run_whose_files_have_changed_is_not_resumed(words, change, name, interrupted, aoi, refusal, tmp_path):
    interrupted(words)
    kept = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-kept")
    change(tmp_path)
    message = refusal("resume own")
    assert "was started with" in message and name in message
    assert len(rounds_of(tmp_path / "runs/own")) == 1
    for path in filter(Path.is_file, kept.rglob("*")):  # the remedy
        if path.suffix in (".npz", ".npy", ".csv") or "ubyte" in path.name:
            shutil.copy2(path, tmp_path / path.relative_to(kept))
    (tmp_path / "clients.csv").unlink()  # the run has its own
    forget()
    assert aoi("resume own")[0] == 0


@pytest.mark.parametrize("words", [MNIST, CLOCKED])
def test_a_run_resumes_from_another_folder(words, interrupted, aoi, tmp_path, monkeypatch):
    interrupted(words)
    (other := tmp_path / "elsewhere").mkdir()
    lay_down(other, seed=2)
    with monkeypatch.context() as patch:
        patch.chdir(other)
        assert aoi("resume", str(tmp_path / "runs/own"))[0] == 0
    forget()
    assert aoi(f"{RUN} whole {words}")[0] == 0
    models = [(tmp_path / "runs" / name / "model.safetensors").read_bytes() for name in ("own", "whole")]
    assert models[0] == models[1]


@pytest.mark.parametrize(
    "rates", [[0.1, 1 / 3, 1.0, 17 / 30], {"a": 0.1, '"b", with all': 1 / 3, "c": 1.0, "d": 17 / 30}]
)
def test_rates_are_read_as_they_were_written(rates, tmp_path):
    write_rates(tmp_path / RATES_FILE, rates)
    values = {"num-clients": 4, "clients-per-round": 2, "rates": "given", "clients-file": "nowhere.csv"}
    config = RunConfig.parse(values | {"resume": True, "run-name": tmp_path.name})
    found = rates_of(config, tmp_path)
    assert found == rates and list(found) == list(rates)


def test_names_that_are_no_paths_stay():
    keys = {"dataset": "digits", "clock": "bernoulli:0.3", "clients-file": "", "alpha": 0.5}
    assert settled(keys) == keys
    assert settled({"dataset": "npz:~/own.npz"}) == {"dataset": f"npz:{Path.home()}/own.npz"}
