"""Load data sets as arrays.

torchvision downloads a missing data set. This module reads files in the data folder itself, so a present data set needs
neither torchvision nor a network.
"""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.config.task import OWN_DATA
from aoi_fl.learning import npz, tabular
from aoi_fl.learning.form import Dataset, Form, Labels
from aoi_fl.protocol import files as disk
from aoi_fl.science.errors import ConfigError, install
from aoi_fl.science.types import Ints, Singles

_IDX = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


@dataclass(frozen=True)
class _Published:
    """A published data set: torchvision's class, its folder, the files read from it, and the pixels' moments.

    ``mean`` and ``deviation`` are of the training pixels of each channel, pixels in [0, 1].
    """

    torchvision: str
    folder: str
    files: tuple[str, ...]
    classes: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        return (1, 28, 28) if self.files == _IDX else (3, 32, 32)


_PUBLISHED = {
    "mnist": _Published("MNIST", "MNIST/raw", _IDX, 10, (0.1307,), (0.3081,)),
    "fashion-mnist": _Published("FashionMNIST", "FashionMNIST/raw", _IDX, 10, (0.2860,), (0.3530,)),
    "cifar10": _Published(
        "CIFAR10",
        "cifar-10-batches-py",
        (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
        10,
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
    ),
    "cifar100": _Published(
        "CIFAR100",
        "cifar-100-python",
        ("train", "test"),
        100,
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
    ),
}
_DIGITS_TEST = 297  # of 1797, which leaves 1500 to train on


def load(
    name: str,
    data_dir: Path | str,
    *,
    download: bool = True,
    source: str = "",
    **columns: str,
) -> Dataset:
    """Return a data set; its arrays are cached in this process until its files change.

    Parameters
    ----------
    name : ``digits`` (scikit-learn's 1797 images, with a fixed stratified split into 1500 for training and 297 for
        tests; pixels in [0, 1]), ``mnist``, ``fashion-mnist``, ``cifar10``, ``cifar100`` (standardised by channel), or
        your own: ``npz:FILE`` (:func:`aoi_fl.learning.npz.read`), ``csv:FILE`` and ``parquet:FILE``
        (:func:`aoi_fl.learning.tabular.read`).
    data_dir : folder of the data sets and of downloads, with torchvision's layout. A ``cifar10.npz`` in it (uint8
        arrays, images (N, 32, 32, 3)) takes precedence over torchvision's files.
    download : whether a missing data set may be downloaded.
    source : the required digest of your own data's file; empty: any.
    columns : of your own data: ``client``, the column (or array) with each row's client; of a table also ``target``,
        the column to predict, and ``drop`` and ``missing`` as the run keys.

    Raises
    ------
    ConfigError : the data set is missing and cannot be downloaded; a file has another digest,
        cannot be read, or has arrays that do not fit together.
    """
    root = disk.absolute(data_dir)
    return _load(name, root, download, source or present_digest(name, root), **columns)


def present_digest(name: str, data_dir: Path | str) -> str:
    """Return the digest of a data set's files; "" while one is missing, and for a package's data set."""
    return disk.present_digest(files(name, data_dir))


@lru_cache(maxsize=4)
def _load(name: str, root: Path, download: bool, source: str, **columns: str) -> Dataset:
    if name.startswith(OWN_DATA) and (here := present_digest(name, root)) != source:
        allowed = f"the run's, of digest {source[:12]}…; the file {_own(name)} has {here[:12] or 'none'}…"
        raise ConfigError("dataset", name, allowed, "Bring the run's file back, or start a new run.")
    if name.startswith("npz:"):
        arrays = npz.read(_own(name))
        regression = arrays[1].dtype.kind == "f"
        client = columns.get("client")
        owners, names = npz.read_owners(_own(name), client, len(arrays[1])) if client else (None, ())
        return Dataset(name, *arrays, 0 if regression else int(arrays[1].max()) + 1, owners, names)
    if name.startswith(OWN_DATA):
        return replace(tabular.read(name.partition(":")[0], _own(name), **columns), name=name)
    if name == "digits":
        return Dataset(name, *_digits(), classes=10)
    train_x, train_y, test_x, test_y = _published(name, root, download)
    for x in (train_x, test_x):
        _standardise(name, x)
    return Dataset(name, train_x, train_y, test_x, test_y, _PUBLISHED[name].classes)


def _own(name: str) -> Path:
    return disk.absolute(name.partition(":")[2])


def names_of_clients(name: str, client: str) -> tuple[str, ...]:
    """Return the names of the clients in a column, or an array, of the user's own data set."""
    if name.startswith("npz:"):
        return npz.read_owners(_own(name), client)[1]
    return tabular.read_clients(name.partition(":")[0], _own(name), client)


def load_examples(name: str, form: Form, path: Path | str) -> tuple[Singles, Labels]:
    """Return a client's own examples from an npz file, standardised as the named data set."""
    x, y = npz.read_examples(disk.absolute(path), form.shape, form.classes)
    _standardise(name, x)
    return x, y


def _standardise(name: str, x: Singles) -> None:
    """Standardise images in place by channel with the data set's moments; CIFAR takes 0.7 GB."""
    if name in _PUBLISHED:
        moments = (_PUBLISHED[name].mean, _PUBLISHED[name].deviation)
        mean, deviation = (np.array(m, np.float32)[:, None, None] for m in moments)
        x -= mean
        x /= deviation


def files(name: str, data_dir: Path | str) -> list[Path]:
    """Return the files of a data set, which may be missing; none for a package's data set."""
    root = disk.absolute(data_dir)
    if name.startswith(OWN_DATA):
        return [_own(name)]
    if name not in _PUBLISHED:
        return []
    own = root / "cifar10.npz"
    if name == "cifar10" and disk.is_file(own):
        return [own]
    source = _PUBLISHED[name]
    return [root / source.folder / file for file in source.files]


def _published(name: str, root: Path, download: bool) -> npz.Arrays:
    paths, source = files(name, root), _PUBLISHED[name]
    if paths[0].suffix == ".npz":
        return npz.read(paths[0], shape=(3, 32, 32), classes=10)
    if not all(map(disk.is_file, paths)):
        _download(name, root, paths, download)
    if source.files == _IDX:
        arrays = [_read(path, _idx) for path in paths]
    else:
        batches = [_read(path, _cifar) for path in paths]
        train_x, train_y = (np.concatenate(part) for part in zip(*batches[:-1], strict=True))
        arrays = [train_x, train_y, *batches[-1]]
    found = dict(zip(npz.ARRAYS, arrays, strict=True))
    return npz.check(found, f"{name} in {root / source.folder}", source.shape, source.classes)


def _download(name: str, root: Path, paths: list[Path], allowed: bool) -> None:
    why = f"{next(path for path in paths if not disk.is_file(path))} is missing"
    cause: Exception | None = None
    if allowed:
        try:
            from torchvision import datasets

            getattr(datasets, _PUBLISHED[name].torchvision)(str(root), download=True)
            return
        except (ImportError, OSError, RuntimeError, EOFError, ValueError) as error:
            why, cause = f"{why}, and torchvision cannot download it: {' '.join(str(error).split())}", error
    remedy = (
        f"Run once on a machine with a network and torchvision ({install('train')}) and copy the folder, or name the "
        f"folder that holds the set: aoi run -c dataset={name} -c data-dir=FOLDER; dataset=digits needs no download."
    )
    raise ConfigError("data-dir", root, f"a folder with the data set {name} ({why})", remedy) from cause


def _read(path: Path, reader: Callable[[bytes], Any]) -> Any:
    try:
        return reader(path.read_bytes())
    except Exception as error:  # a forged pickle raises any type
        allowed = f"a readable file of its data set ({type(error).__name__}: {error})"
        raise ConfigError("data-dir", path, allowed, "Delete the file, and the next run downloads it again.") from error


def _idx(blob: bytes) -> NDArray[np.uint8]:
    """Read LeCun's idx format: two zero bytes, type (8: bytes), number of axes, lengths, data."""
    if blob[:3] != b"\0\0\x08" or len(blob) < 4 + 4 * blob[3]:
        raise ValueError("not an idx file of bytes")
    start = 4 + 4 * blob[3]
    lengths = np.frombuffer(blob, ">u4", blob[3], 4)
    return np.frombuffer(blob, np.uint8, offset=start).reshape(lengths.tolist())


class _ArraysOnly(pickle.Unpickler):
    """Unpickles only arrays and plain values, so that a data file cannot run code."""

    _ALLOWED = frozenset({"_reconstruct", "_frombuffer", "ndarray", "dtype", "encode"})

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] not in ("numpy", "_codecs") or name not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a data file has no use for")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _cifar(blob: bytes) -> tuple[NDArray[np.uint8], Ints]:
    """Read a batch of CIFAR, a pickled dict; rows have 1024 red, 1024 green, 1024 blue pixels."""
    batch = _ArraysOnly(io.BytesIO(blob), encoding="latin1").load()
    labels = batch["fine_labels"] if "fine_labels" in batch else batch["labels"]
    return np.asarray(batch["data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.asarray(labels)


def _digits() -> npz.Arrays:
    found = find_spec("sklearn")
    if not found or not found.origin:
        allowed = "installed for the data set digits"
        raise ConfigError("scikit-learn", None, allowed, "Install it: pip install scikit-learn.")
    # Its file alone: importing scikit-learn takes each process of a run some seconds.
    table = np.loadtxt(Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    x, y = (table[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32), table[:, -1].astype(np.int64)
    ranked = tabular.by_group(y, "digits")
    test = np.zeros(len(y), bool)
    test[ranked[np.arange(_DIGITS_TEST) * len(y) // _DIGITS_TEST]] = True  # evenly spaced: each class in proportion
    return x[~test], y[~test], x[test], y[test]
