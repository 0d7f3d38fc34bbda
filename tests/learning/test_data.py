"""Data sets: the embedded one, files laid out as the published ones, one's own, and everything wrong with them."""

import pickle
import struct
from unittest.mock import ANY

import numpy as np
import pytest

from aoi_fl.learning import data
from tests.refusals import refused


def test_digits_are_split_in_proportion_and_once():
    digits = data.load("digits", "unused")
    assert (digits.train_x.shape, digits.test_x.shape) == ((1500, 1, 8, 8), (297, 1, 8, 8))
    assert digits.train_x.dtype == np.float32
    assert (digits.train_x.min(), digits.train_x.max()) == (0, 1)
    from sklearn.datasets import load_digits

    bunch = load_digits()
    train, test = np.bincount(digits.train_y), np.bincount(digits.test_y)
    np.testing.assert_array_equal(train + test, np.bincount(bunch.target))
    np.testing.assert_allclose(test, (train + test) * 297 / 1797, atol=1)
    # All of the real images are there, each with its own label.
    pairs = np.column_stack([bunch.images.reshape(-1, 64), bunch.target])
    x = np.concatenate([digits.train_x, digits.test_x]).reshape(-1, 64) * 16
    ours = np.column_stack([x, np.concatenate([digits.train_y, digits.test_y])])
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], pairs[np.lexsort(pairs.T)])
    assert data.load("digits", "unused") is digits


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx_files(tmp_path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(1)
    arrays = {}
    for part, n in (("train", 5), ("t10k", 3)):
        arrays[part] = rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n).astype(np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(arrays[part][0]))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx(arrays[part][1]))
    fashion = data.load("fashion-mnist", tmp_path, download=False)
    for x, y, part in ((fashion.train_x, fashion.train_y, "train"), (fashion.test_x, fashion.test_y, "t10k")):
        np.testing.assert_allclose(x[:, 0], (arrays[part][0] / 255 - 0.286) / 0.353, atol=1e-5)
        np.testing.assert_array_equal(y, arrays[part][1])
    (raw / "train-images-idx3-ubyte").write_bytes(idx(arrays["train"][0])[:-9])
    data._load.cache_clear()
    with refused("data-dir"):
        data.load("fashion-mnist", tmp_path, download=False)


def cifar_batch(path, n, key, classes, rng):
    rows, labels = rng.integers(0, 256, (n, 3072), np.uint8), rng.integers(0, classes, n).tolist()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps({"data": rows, key: labels, "coarse_labels": [0] * n}, protocol=2))
    return rows, labels


def test_cifar100_in_its_published_layout(tmp_path):
    rng = np.random.default_rng(1)
    folder = tmp_path / "cifar-100-python"
    (rows, labels), _ = (cifar_batch(folder / f, n, "fine_labels", 100, rng) for f, n in (("train", 6), ("test", 4)))
    got = data.load("cifar100", tmp_path, download=False)
    assert got.classes == 100
    assert got.train_y.tolist() == labels
    assert got.test_x.shape == (4, 3, 32, 32)
    # Pixel (row 2, column 5) of the blue plane of image 3, standardised.
    expected = (rows[3, 2 * 1024 + 2 * 32 + 5] / 255 - 0.4409) / 0.2762
    assert got.train_x[3, 2, 2, 5] == pytest.approx(expected, abs=1e-5)


def test_cifar10_from_batches_or_from_one_file(tmp_path):
    rng = np.random.default_rng(1)
    folder = tmp_path / "cifar-10-batches-py"
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    rows, labels = zip(*(cifar_batch(folder / name, 2, "labels", 10, rng) for name in names), strict=True)
    batches = data.load("cifar10", tmp_path, download=False)
    assert batches.train_y.tolist() == np.concatenate(labels[:5]).tolist()
    x = np.concatenate(rows).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    y = np.concatenate(labels)
    other = tmp_path / "other"
    other.mkdir()
    np.savez(other / "cifar10.npz", train_x=x[:10], train_y=y[:10], test_x=x[10:], test_y=y[10:])
    single = data.load("cifar10", other, download=False)
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
        data.load("cifar100", tmp_path, download=False)
    assert capsys.readouterr().out == ""


def test_missing_and_not_to_be_downloaded(tmp_path):
    with refused("data-dir"):
        data.load("mnist", tmp_path, download=False)


def test_a_download_that_fails(tmp_path, monkeypatch):
    torchvision = pytest.importorskip("torchvision")
    mirror = (tmp_path / "no-such-mirror").as_uri() + "/"
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [mirror])
    with refused("data-dir") as caught:
        data.load("mnist", tmp_path)
    assert "\n" not in str(caught.value)


GOOD = {
    "train_x": np.zeros((6, 4, 5), np.uint8),
    "train_y": np.array([0, 1, 2, 0, 1, 2]),
    "test_x": np.zeros((2, 4, 5), np.uint8),
    "test_y": np.array([0, 2]),
}


def save(path, **changes):
    np.savez(path, **{k: v for k, v in (GOOD | changes).items() if v is not None})
    data._load.cache_clear()
    return f"npz:{path}"


def test_ones_own_images_in_every_accepted_form(tmp_path):
    rng = np.random.default_rng(1)
    grey, colour = rng.integers(0, 256, (6, 4, 5), np.uint8), rng.integers(0, 256, (6, 4, 5, 3), np.uint8)
    path = tmp_path / "own.npz"
    two = data.load(save(path, train_x=grey), "unused")
    assert (two.train_x.shape, two.classes, two.shape) == ((6, 1, 4, 5), 3, (1, 4, 5))
    np.testing.assert_allclose(two.train_x[:, 0], grey / 255, atol=1e-6)
    one = data.load(save(path, train_x=grey[..., None]), "unused")
    np.testing.assert_array_equal(one.train_x, two.train_x)
    three = data.load(save(path, train_x=colour, test_x=colour[:2]), "unused")
    np.testing.assert_allclose(three.train_x[:, 2], colour[..., 2] / 255, atol=1e-6)
    floats = rng.normal(size=(6, 4, 5))
    as_is = data.load(save(path, train_x=floats, train_y=GOOD["train_y"].astype(np.uint8)), "unused")
    np.testing.assert_array_equal(as_is.train_x[:, 0], floats.astype(np.float32))
    assert as_is.train_y.dtype == np.int64


NAN = np.zeros((6, 4, 5), np.float32)
NAN[3, 1, 1] = np.nan


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"test_y": None}, ("arrays in", "test_x, train_x, train_y")),
        ({"train_x": np.zeros((6, 20), np.uint8)}, ("train_x in", "of shape (6, 20) and type uint8")),
        ({"train_x": np.zeros((6, 3, 4, 5), np.uint8)}, ("train_x in", "of shape (6, 3, 4, 5)")),
        ({"train_x": np.zeros((0, 4, 5), np.uint8)}, ("train_x in", "of shape (0, 4, 5)")),
        ({"train_x": np.zeros((6, 4, 5), np.int64)}, ("train_x in", "of type int64")),
        ({"train_x": NAN}, ("train_x in", ANY, "finite; 1 values are missing or infinite, the first at 3, 0, 1, 1")),
        ({"train_x": np.full((6, 4, 5), 1e300)}, ("train_x in", 1e300)),
        (
            {"train_x": np.array([None] * 6)},
            ("array train_x in", None, r"readable numbers in an undamaged file \(it holds Python objects"),
        ),
        ({"test_x": np.zeros((2, 4, 6), np.uint8)}, ("test_x in", "images of 4×6 pixels, 1 channel")),
        ({"train_y": np.arange(5)}, ("train_y in", "5 values")),
        ({"test_y": np.array([0, 1.5])}, ("test_y in", "of type float64")),
        ({"train_y": np.array(list("abcabc"))}, ("train_y in", "of type <U1")),
        ({"train_y": np.zeros((6, 3), np.int64)}, ("train_y in", "of shape (6, 3)")),
        ({"train_y": np.array([0, 1, 2, 0, 1, -1])}, ("train_y in", -1)),
        ({"test_y": np.array([0, 3])}, ("test_y in", 3)),
        ({"train_y": np.array([0, 1, 2, 0, 1, 10**9])}, ("train_y in", "6 labels, the largest 1000000000")),
        ({"train_y": np.zeros(6, np.int64)}, ("train_y in", "6 labels, the largest 0")),
    ],
)
def test_what_is_wrong_with_ones_own(tmp_path, changes, match):
    with refused(*match):
        data.load(save(tmp_path / "own.npz", **changes), "unused")


def test_labels_outside_a_published_sets_classes(tmp_path):
    x = np.zeros((2, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "cifar10.npz", train_x=x, train_y=np.array([0, 10]), test_x=x, test_y=np.array([0, 1]))
    with refused(f"train_y in {tmp_path / 'cifar10.npz'}", 10, "0 to 9"):
        data.load("cifar10", tmp_path, download=False)


def test_unreadable_files(tmp_path):
    path = tmp_path / "own.npz"
    with refused("dataset=npz:PATH"):
        data.load(f"npz:{path}", "unused")
    save(path, train_x=np.random.default_rng(1).integers(0, 256, (6, 4, 5), np.uint8))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(b"NUMPY") + 130] ^= 255  # within the pixels of train_x: the zip's checksum tells
    for damaged, match in ((b"", "npz file"), (b"junk", "npz file"), (whole[:-30], "npz file"), (flipped, "train_x")):
        path.write_bytes(damaged)
        with refused(match, allowed="readable"):
            data.load(f"npz:{path}", "unused")
    path.write_text("x,y\n1.5,2\n")
    with refused("npz file"):
        data.load(f"npz:{path}", "unused")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with refused("npz file"):
        data.load(f"npz:{path}", "unused")
