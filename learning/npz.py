"""A user's own data set: an npz file with images or a table, and labels or targets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.learning import archive
from aoi_fl.learning.form import Labels, Shape
from aoi_fl.protocol import MAX_NAME, is_name
from aoi_fl.protocol.files import is_file
from aoi_fl.science.errors import ConfigError

_NEEDED = ("train_x", "train_y", "test_x", "test_y")
Arrays = tuple[NDArray[np.float32], Labels, NDArray[np.float32], Labels]


def read(path: Path, shape: Shape | None = None, classes: int | None = None) -> Arrays:
    """Read ``train_x``, ``train_y``, ``test_x`` and ``test_y`` from an npz file.

    Images are (N, H, W), or (N, H, W, C) with 1 or 3 channels last. uint8 is divided by 255, floating point is
    unchanged. A table is (N, features), floating point. Labels are integers (N,) from 0 to the largest label of
    ``train_y``. Floating-point values are targets of a regression.

    Parameters
    ----------
    path : the file.
    shape : required (channels, height, width) of images, or (features,); None: any.
    classes : required number of classes, 0 for a regression; None: any.

    Returns
    -------
    tuple
        train_x, train_y, test_x, test_y: images as float32 (N, C, H, W) or a table as float32 (N, features), labels as
        int64 (N,) or targets as float32 (N,).

    Raises
    ------
    ConfigError : the file is missing or damaged, lacks an array, or an array has the wrong shape, type, length or
        values.
    """
    arrays = _arrays(path, _NEEDED, "dataset=npz:PATH")
    return check(arrays, str(path), shape, classes)


def read_examples(path: Path, shape: Shape, classes: int) -> tuple[NDArray[np.float32], Labels]:
    """Read a client's own examples, arrays ``x`` and ``y`` of an npz file; see :func:`read`."""
    arrays = _arrays(path, ("x", "y"), "data-file")
    x = _inputs(arrays["x"], f"x in {path}")
    if x.shape[1:] != shape:
        allowed = f"of the size that the model takes, {_size(shape)}"
        raise ConfigError(f"x in {path}", _size(x.shape[1:]), allowed, "Convert the data, or choose another model.")
    return x, _labels(arrays["y"], f"y in {path}", len(x), classes)


def read_owners(path: Path, name: str, examples: int | None = None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the client of each training example, from 0, and the clients' names.

    Raises
    ------
    ConfigError : the array of names is missing, is no list of whole numbers or texts, has another length, or names only
        one client.
    """
    values, key = _arrays(path, (name,), "dataset=npz:FILE")[name], f"{name} in {path}"
    if values.ndim != 1 or values.dtype.kind not in "iuUS":
        what = f"of shape {values.shape} and type {values.dtype}"
        raise ConfigError(key, what, "one whole number or text for each training example", "Correct the array.")
    if examples is not None and len(values) != examples:
        raise ConfigError(key, f"{len(values)} values", f"{examples}, one for each training example", "Correct it.")
    names, owners = np.unique(values, return_inverse=True)
    if len(names) < 2:
        raise ConfigError(key, f"{len(names)} clients", "two clients or more", "Choose another array of clients.")
    decoded = np.char.decode(names, "utf-8", "backslashreplace") if names.dtype.kind == "S" else names
    texts = tuple(map(str, decoded.tolist()))
    for text in texts:
        if text != text.strip() or not is_name(text):
            allowed = f"names of 1 to {MAX_NAME} printable characters, without blanks around"
            raise ConfigError(key, text[:MAX_NAME], allowed, "Correct the array.")
    return owners.astype(np.int64), texts


def count_examples(path: Path) -> int:
    """Return the number of examples of :func:`read_examples`, from the labels only."""
    return int(_arrays(path, ("y",), "data-file")["y"].size)


def _arrays(path: Path, needed: Sequence[str], key: str) -> dict[str, NDArray[Any]]:
    if not is_file(path):
        raise ConfigError(key, path, "the path of an npz file that exists", "Correct the path.")
    wanted = ", ".join(f"{name}=…" for name in needed)
    try:
        arrays, names = archive.read(path, needed)
    except (OSError, archive.Unreadable) as error:
        if name := getattr(error, "name", ""):
            allowed = f"readable numbers in an undamaged file ({error})"
            remedy = "Write the file again with numpy.savez."
            raise ConfigError(f"array {name} in {path}", None, allowed, remedy) from error
        raise ConfigError(
            "npz file", path, f"readable ({error})", f"Write it with numpy.savez(path, {wanted})."
        ) from error
    missing = [name for name in needed if name not in arrays]
    if missing:
        allowed = f"{', '.join(needed)}, and {', '.join(missing)} is missing"
        raise ConfigError(f"arrays in {path}", ", ".join(sorted(names)) or "none", allowed, "Write the missing arrays.")
    return arrays


def check(arrays: Mapping[str, NDArray[Any]], source: str, shape: Shape | None, classes: int | None) -> Arrays:
    """Return the four arrays in their final form, or raise ConfigError with the invalid one.

    ``source`` names the file or folder in messages; the other arguments are those of :func:`read`.
    """
    train_x, test_x = (_inputs(arrays[name], f"{name} in {source}") for name in ("train_x", "test_x"))
    shape = shape or train_x.shape[1:]
    for name, x in (("train_x", train_x), ("test_x", test_x)):
        if x.shape[1:] != shape:
            allowed = f"of the size of the other examples, {_size(shape)}"
            remedy = "Give all examples of a data set one size."
            raise ConfigError(f"{name} in {source}", _size(x.shape[1:]), allowed, remedy)
    if classes is None and np.issubdtype(arrays["train_y"].dtype, np.floating):
        classes = 0
    train_y = _labels(arrays["train_y"], f"train_y in {source}", len(train_x), classes)
    if classes is None:
        classes = int(train_y.max()) + 1
        if not 2 <= classes <= len(train_y):
            raise ConfigError(
                f"train_y in {source}",
                f"{len(train_y)} labels, the largest {classes - 1}",
                "two classes or more from 0, and no more classes than examples",
                "Correct the labels. For a regression, write the targets as floating point: .astype('float32').",
            )
    test_y = _labels(arrays["test_y"], f"test_y in {source}", len(test_x), classes)
    return train_x, train_y, test_x, test_y


def _size(shape: Shape) -> str:
    """Return the size of one example in words."""
    if len(shape) == 1:
        return f"tables of {shape[0]} feature{'s' * (shape[0] > 1)}"
    channels, height, width = shape
    return f"images of {height}×{width} pixels, {channels} channel{'s' * (channels > 1)}"


def _inputs(x: NDArray[Any], name: str) -> NDArray[np.float32]:
    return _table(x, name) if x.ndim == 2 else _images(x, name)


def _table(x: NDArray[Any], name: str) -> NDArray[np.float32]:
    if 0 in x.shape:
        raise ConfigError(
            name, f"of shape {x.shape}", "a table (N, features), with at least one of each", "Reshape the array."
        )
    if not np.issubdtype(x.dtype, np.floating):
        allowed = "floating point for a table; images are (N, height, width)"
        remedy = "Convert with .astype('float32'), after giving each category a number or its own columns."
        raise ConfigError(name, f"of shape {x.shape} and type {x.dtype}", allowed, remedy)
    return _finite(x, name)


def _finite(x: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Return a copy as float32; refuse missing and infinite values."""
    with np.errstate(over="ignore"):
        values = np.array(x, np.float32, order="C")
    if x.dtype.kind == "f" and (bad := ~np.isfinite(values)).any():
        first = tuple(np.argwhere(bad)[0].tolist())
        allowed = f"finite; {bad.sum()} values are missing or infinite, the first at {', '.join(map(str, first))}"
        remedy = "Fill them in (by the column's mean, say), or leave these examples out."
        raise ConfigError(name, float(x[first]), allowed, remedy)
    return values


def _images(x: NDArray[Any], name: str) -> NDArray[np.float32]:
    if x.ndim == 3:
        x = x[..., None]
    if x.ndim != 4 or x.shape[3] not in (1, 3) or 0 in x.shape:
        raise ConfigError(
            name,
            f"of shape {x.shape if x.shape[3:] != (1,) else x.shape[:3]}",
            "images (N, height, width) or (N, height, width, channels) with 1 or 3 channels, or a table (N, features), "
            "with at least one example",
            "Reshape the array.",
        )
    if x.dtype != np.uint8 and not np.issubdtype(x.dtype, np.floating):
        raise ConfigError(
            name,
            f"of type {x.dtype}",
            "uint8 (0 to 255) or floating point (0 to 1) for images",
            "Convert to 0 to 1 in float32.",
        )
    images = _finite(x.transpose(0, 3, 1, 2), name)  # a copy with channels first, never a view of the caller's array
    if x.dtype == np.uint8:
        images /= 255
    return images


def _labels(y: NDArray[Any], name: str, examples: int, classes: int | None) -> Labels:
    """Return labels, or with ``classes`` 0 the targets of a regression."""
    if y.shape != (examples,):
        what = f"of shape {y.shape}" if y.ndim != 1 else f"{len(y)} values"
        remedy = "Flatten it with .reshape(-1)." if y.shape == (examples, 1) else "Give each example a label."
        raise ConfigError(
            name, what, f"one label or target for each of {examples} examples, shape ({examples},)", remedy
        )
    return _targets(y, name) if classes == 0 else _classes(y, name, classes)


def _targets(y: NDArray[Any], name: str) -> NDArray[np.float32]:
    if y.dtype.kind not in "fiu":
        allowed = "floating point for the targets of a regression"
        raise ConfigError(name, f"of type {y.dtype}", allowed, "Convert with .astype('float32').")
    return _finite(y, name)


def _classes(y: NDArray[Any], name: str, classes: int | None) -> NDArray[np.int64]:
    if y.dtype.kind not in "iu":
        whole = y.dtype.kind == "b" or (y.dtype.kind == "f" and bool((np.isfinite(y) & (y == np.rint(y))).all()))
        remedy = "Convert with .astype('int64')" if whole else "Give each class a number"
        raise ConfigError(name, f"of type {y.dtype}", "whole numbers from 0, one label for each example", f"{remedy}.")
    bad = (y < 0) if classes is None else (y < 0) | (y >= classes)
    if bad.any():
        first = int(bad.argmax())
        allowed = "numbered from 0" if classes is None else f"0 to {classes - 1}, the classes of the training labels"
        allowed = f"{allowed}; {bad.sum()} labels are outside, the first at index {first}"
        raise ConfigError(name, int(y[first]), allowed, "Correct the labels.")
    return y.astype(np.int64)
