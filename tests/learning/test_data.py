"""Data sets: the embedded one, and files with the layout of the published ones."""

import pickle
import struct

import numpy as np
import pytest

from aoi_fl.learning import data
from aoi_fl.learning.data import load
from tests.refusals import refused


def test_digits_are_split_in_proportion_and_once():
    digits = load("digits", "unused")
    assert (digits.train_x.shape, digits.test_x.shape) == ((1500, 1, 8, 8), (297, 1, 8, 8))
    from sklearn.datasets import load_digits

    bunch = load_digits()
    train, test = np.bincount(digits.train_y), np.bincount(digits.test_y)
    np.testing.assert_allclose(test, (train + test) * 297 / 1797, atol=1)
    # All of the real images are there, each with its own label.
    x = np.concatenate([digits.train_x, digits.test_x]).reshape(-1, 64) * 16
    ours = zip(x.tolist(), [*digits.train_y, *digits.test_y], strict=True)
    assert sorted(ours) == sorted(zip(bunch.data.tolist(), bunch.target, strict=True))
    assert load("digits", "unused") is digits


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_mnist_files_in_their_published_layout(tmp_path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(1)
    arrays = {}
    for part, n in (("train", 5), ("t10k", 3)):
        arrays[part] = rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n).astype(np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(arrays[part][0]))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx(arrays[part][1]))
    fashion = load("fashion-mnist", tmp_path)
    for x, y, part in ((fashion.train_x, fashion.train_y, "train"), (fashion.test_x, fashion.test_y, "t10k")):
        np.testing.assert_allclose(x[:, 0], (arrays[part][0] / 255 - 0.286) / 0.353, atol=1e-5)
        np.testing.assert_array_equal(y, arrays[part][1])
    (raw / "train-images-idx3-ubyte").write_bytes(idx(arrays["train"][0])[:-9])
    data._load.cache_clear()
    with refused("data-dir"):
        load("fashion-mnist", tmp_path)


def cifar_batch(path, n, key, classes, rng):
    rows, labels = rng.integers(0, 256, (n, 3072), np.uint8), rng.integers(0, classes, n).tolist()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps({"data": rows, key: labels, "coarse_labels": [0] * n}, protocol=2))
    return rows, labels


def test_cifar_in_its_published_layouts(tmp_path):
    rng = np.random.default_rng(1)
    folder = tmp_path / "cifar-100-python"
    (rows, labels), _ = (cifar_batch(folder / f, n, "fine_labels", 100, rng) for f, n in (("train", 6), ("test", 4)))
    got = load("cifar100", tmp_path)
    assert got.classes == 100 and got.train_y.tolist() == labels and got.test_x.shape == (4, 3, 32, 32)
    # Pixel (row 2, column 5) of the blue plane of image 3, standardised.
    expected = (rows[3, 2 * 1024 + 2 * 32 + 5] / 255 - 0.4409) / 0.2762
    assert got.train_x[3, 2, 2, 5] == pytest.approx(expected, abs=1e-5)
    folder, names = tmp_path / "cifar-10-batches-py", [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    rows, labels = zip(*(cifar_batch(folder / name, 2, "labels", 10, rng) for name in names), strict=True)
    batches = load("cifar10", tmp_path)
    assert batches.train_y.tolist() == np.concatenate(labels[:5]).tolist()
    images, labels = np.concatenate(rows).reshape(-1, 3, 32, 32), np.concatenate(labels)
    np.testing.assert_allclose(batches.test_x[:, 1], (images[10:, 1] / 255 - 0.4822) / 0.2435, atol=1e-5)
    x = images.transpose(0, 2, 3, 1)
    np.savez(tmp_path / "cifar10.npz", train_x=x[:10], train_y=labels[:10], test_x=x[10:], test_y=labels[10:])
    data._load.cache_clear()
    single = load("cifar10", tmp_path)  # which takes precedence
    np.testing.assert_array_equal(single.train_x, batches.train_x)
    np.testing.assert_array_equal(single.test_y, batches.test_y)


class Harm:
    def __reduce__(self):
        return print, ("a data file has run code",)


def test_a_data_file_cannot_run_code(tmp_path, capsys):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test"):
        (folder / name).write_bytes(pickle.dumps({"data": Harm()}, protocol=2))
    with refused("data-dir"):
        load("cifar100", tmp_path)
    assert capsys.readouterr().out == ""


def test_a_data_set_that_cannot_be_had_is_one_line(tmp_path, monkeypatch):
    with refused("data-dir"):
        load("mnist", tmp_path)
    torchvision = pytest.importorskip("torchvision")
    mirror = (tmp_path / "no-such-mirror").as_uri() + "/"
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [mirror])
    with refused("data-dir") as caught:
        load("mnist", tmp_path, download=True)
    assert "\n" not in str(caught.value)
