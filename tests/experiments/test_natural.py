"""Natural federations: real files, and files that do not fit are named before a run."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.natural_data import (
    DataSource,
    read_csv,
    read_speakers,
    split_rows,
)
from aoi_fl.lab.experiments.runner import reproduce
from aoi_fl.lab.experiments.studies.natural import Natural
from tests.refusals import refused

SHARED = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not (SHARED / "natural").is_dir(), reason="../shared/data/natural is not there")
SOURCE = DataSource("x.csv.gz", "pupil", "mark", {"sex": str, "age": lambda cell: round(float(cell))})
ROWS = "pupil,mark,sex,age\nb,1,F,3\na,0,M,4\nb,1,M,3\nb,0,F,4\na,1,F,10\nc,0,F,3\n"


def written(folder, text=ROWS):
    (folder / SOURCE.file).write_bytes(gzip.compress(text.encode()))
    return folder


def test_categories_of_features_do_not_overlap(tmp_path):
    table = read_csv(written(tmp_path), SOURCE)
    assert table.names == ["a", "b", "c"] and table.clients.tolist() == [1, 0, 1, 1, 0, 2]
    assert table.x.tolist() == [[0, 2], [1, 3], [1, 2], [0, 3], [0, 4], [0, 2]]  # 10 comes after 3 and 4
    assert (table.categories, table.classes, table.y.tolist()) == (5, 2, [1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"no gzip",
        gzip.compress(b""),
        gzip.compress(ROWS.replace("pupil,", "school,").encode()),
        gzip.compress(ROWS.replace("a,0,M,4", "a,0,M,old").encode()),
    ],
    ids=["missing", "no gzip", "empty", "another column", "a word"],
)
def test_a_file_that_does_not_fit_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / SOURCE.file).write_bytes(content)
    with refused("--data-dir", tmp_path / SOURCE.file):
        read_csv(tmp_path, SOURCE)


def test_every_client_has_rows_of_both_kinds(tmp_path):
    table = read_csv(written(tmp_path), SOURCE)
    train, test = split_rows(table, 2, 10, 1)
    assert [len(rows) for rows in train] == [1, 2] and len(test) == 2
    assert set(np.concatenate([*train, test]).tolist()) == {0, 1, 2, 3, 4}
    assert all((table.clients[rows] == i).all() for i, rows in enumerate(train))
    assert len(split_rows(table, 2, 1, 1)[0]) == 1


def test_speakers_have_their_last_characters(tmp_path):
    windows = np.tile(np.arange(40, dtype=np.uint8) % 2, (3, 1))
    arrays = {f"{part}_x": windows for part in ("train", "test")}
    arrays |= {f"{part}_{what}": np.array([0, 1, 1]) for part in ("train", "test") for what in ("y", "client")}
    np.savez(tmp_path / "s.npz", **arrays, client_names=np.array(["Romeo", "Juliet"]), characters=np.array(["a", "b"]))
    train, test = read_speakers(tmp_path / "s.npz", 3)
    assert train.x.tolist() == [[1, 2, 5]] * 3 and (train.categories, train.classes) == (6, 2)
    assert test.clients.tolist() == [0, 1, 1] and train.names == ["Romeo", "Juliet"]
    np.savez(tmp_path / "less.npz", **arrays)
    with refused("--data-dir", tmp_path / "less.npz"):
        read_speakers(tmp_path / "less.npz", 3)


@real
def test_the_real_files_fit_and_are_checked_before_a_run(tmp_path):
    Natural().check(Options(data_dir=SHARED))
    (tmp_path / "natural").symlink_to(SHARED / "natural")
    with np.load(SHARED / "availability_300.npz") as whole:
        few = {"offsets": whole["offsets"][:201], "training_seconds": whole["training_seconds"][:200]}
        rows = slice(0, int(few["offsets"][-1]))
        few |= {name: whole[name][rows] for name in ("seconds", "available")}
    np.savez(tmp_path / "availability_300.npz", **few)
    with refused("num-clients", 300, "at most 200"):
        reproduce(Natural(), Options(data_dir=tmp_path, quick=True), tmp_path / "out", 1)
    assert not list((tmp_path / "out").glob("*.csv"))


@real
@pytest.mark.parametrize("where", ["always available", "phone trace"])
def test_a_real_federation_runs(where):
    row = Natural().play(
        {"seed": 1, "case": f"schools, {where}", "policy": "systematic"},
        Options(data_dir=SHARED, quick=True, rounds=20),
    )[0]
    assert 1.0 < row["loss"] < 2.5 and 0.1 < row["accuracy"] < 0.6 and 0 < row["jain"] <= 1
    assert row["updates"] == 15 if where == "always available" else row["updates"] < 15
