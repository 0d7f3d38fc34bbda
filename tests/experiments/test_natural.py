"""Natural federations: categories, splits and windows by hand, and runs on the real files."""

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
from aoi_fl.lab.experiments.registry import find
from tests.refusals import refused

SHARED = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not (SHARED / "natural").is_dir(), reason="../shared/data/natural is not there")
SOURCE = DataSource("x.csv.gz", "pupil", "mark", {"sex": None, "age": 1.0})
ROWS = "pupil,mark,sex,age\nb,1,F,3\na,0,M,4\nb,1,M,3\nb,0,F,4\na,1,F,10\nc,0,F,3\n"


def written(folder):
    (folder / SOURCE.file).write_bytes(gzip.compress(ROWS.encode()))
    return folder


def test_categories_of_features_do_not_overlap(tmp_path):
    table = read_csv(written(tmp_path), SOURCE)
    assert table.names == ["a", "b", "c"] and table.clients.tolist() == [1, 0, 1, 1, 0, 2]
    assert table.x.tolist() == [[0, 2], [1, 3], [1, 2], [0, 3], [0, 4], [0, 2]]  # 10 comes after 3 and 4
    assert (table.categories, table.classes, table.y.tolist()) == (5, 2, [1, 0, 1, 0, 1, 0])


def test_a_missing_file_is_named(tmp_path):
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


@real
@pytest.mark.parametrize("where", ["always available", "phone trace"])
def test_a_real_federation_runs(where):
    row = find("natural").play(
        {"seed": 1, "case": f"schools, {where}", "policy": "systematic"},
        Options(data_dir=SHARED, quick=True, rounds=20),
    )[0]
    assert 1.0 < row["loss"] < 2.5 and 0.1 < row["accuracy"] < 0.6 and 0 < row["jain"] <= 1
    assert row["updates"] == 15 if where == "always available" else row["updates"] < 15
