"""A user's own data set: an npz file with images or a table, and labels or targets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from aoi_fl.learning import archive
from aoi_fl.learning.form import Labels, Shape
from aoi_fl.protocol import MAX_NAME, is_name
from aoi_fl.protocol.files import is_file
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import AnyArray, Ints, Singles

ARRAYS = ("train_x", "train_y", "test_x", "test_y")
Arrays = tuple[Singles, Labels, Singles, Labels]


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
    return check(_arrays(path, ARRAYS, "dataset=npz:PATH"), str(path), shape, classes)


def read_examples(path: Path, shape: Shape, classes: int) -> tuple[Singles, Labels]:
    """Read a client's own examples, arrays ``x`` and ``y`` of an npz file; see :func:`read`."""
    arrays = _arrays(path, ("x", "y"), "data-file")
    x = _inputs(arrays["x"], f"x in {path}", shape)
    return x, _labels(arrays["y"], f"y in {path}", len(x), classes)


def read_owners(path: Path, name: str, examples: int | None = None) -> tuple[Ints, tuple[str, ...]]:
    """Return the client of each training example, from 0, and the clients' names.

    Raises
    ------
    ConfigError : the array of names is missing, is no list of whole numbers or texts, has another length, or names only
        one client.
    """
    values, key = _arrays(path, (name,), "dataset=npz:FILE")[name], f"{name} in {path}"
    if values.dtype.kind not in "iuUS" or values.shape != (examples or values.size,):
        what = f"of shape {values.shape} and type {values.dtype}"
        raise ConfigError(key, what, "one whole number or text for each training example", "Correct the array.")
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


def _arrays(path: Path, needed: Sequence[str], key: str) -> dict[str, AnyArray]:
    if not is_file(path):
        raise ConfigError(key, path, "the path of an npz file that exists", "Correct the path.")
    try:
        arrays, names = archive.read(path, needed)
    except archive.Unreadable as error:
        where = f"array {error.name} in {path}" if error.name else f"npz file {path}"
        remedy = f"Write it with numpy.savez(path, {', '.join(f'{name}=…' for name in needed)})."
        raise ConfigError(where, None, f"readable ({error})", remedy) from error
    missing = [name for name in needed if name not in arrays]
    if missing:
        allowed = f"{', '.join(needed)}, and {', '.join(missing)} is missing"
        raise ConfigError(f"arrays in {path}", ", ".join(sorted(names)) or "none", allowed, "Write the missing arrays.")
    return arrays


def check(arrays: Mapping[str, AnyArray], source: str, shape: Shape | None, classes: int | None) -> Arrays:
    """Return the four arrays in their final form, or raise ConfigError with the invalid one.

    ``source`` names the file or folder in messages; the other arguments are those of :func:`read`.
    """
    train_x = _inputs(arrays["train_x"], f"train_x in {source}", shape)
    test_x = _inputs(arrays["test_x"], f"test_x in {source}", train_x.shape[1:])
    if classes is None and arrays["train_y"].dtype.kind == "f":
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
    return train_x, train_y, test_x, _labels(arrays["test_y"], f"test_y in {source}", len(test_x), classes)


def _inputs(x: AnyArray, name: str, shape: Shape | None) -> Singles:
    """Return a table, or images with channels first, of a required shape."""
    given, table = f"of shape {x.shape} and type {x.dtype}", x.ndim == 2
    if x.ndim == 3:
        x = x[..., None]
    if 0 in x.shape or not (table or (x.ndim == 4 and x.shape[3] in (1, 3))):
        allowed = (
            "images (N, height, width) or (N, height, width, channels) with 1 or 3 channels, or a table (N, features), "
            "with at least one example"
        )
        raise ConfigError(name, given, allowed, "Reshape the array.")
    if x.dtype.kind != "f" and (table or x.dtype != np.uint8):
        allowed = "floating point, or for images (N, height, width) uint8 from 0 to 255"
        remedy = "Convert with .astype('float32'), after giving each category a number or its own columns."
        raise ConfigError(name, given, allowed, remedy)
    values = _finite(x if table else x.transpose(0, 3, 1, 2), name)
    if x.dtype == np.uint8:
        values /= 255
    if shape not in (None, values.shape[1:]):
        given, allowed = (f"of examples of shape {one}" for one in (values.shape[1:], shape))
        raise ConfigError(name, given, f"{allowed}, as others and the model", "Convert it, or choose another model.")
    return values


def _finite(x: AnyArray, name: str) -> Singles:
    """Return a copy as float32; refuse missing and infinite values."""
    with np.errstate(over="ignore"):
        values = np.array(x, np.float32, order="C")
    if x.dtype.kind == "f" and (bad := ~np.isfinite(values)).any():
        first = tuple(np.argwhere(bad)[0].tolist())
        allowed = f"finite; {bad.sum()} values are missing or infinite, the first at {', '.join(map(str, first))}"
        remedy = "Fill them in (by the column's mean, say), or leave these examples out."
        raise ConfigError(name, float(x[first]), allowed, remedy)
    return values


def _labels(y: AnyArray, name: str, examples: int, classes: int | None) -> Labels:
    """Return labels, or with ``classes`` 0 the targets of a regression."""
    given = f"of shape {y.shape} and type {y.dtype}"
    if y.shape != (examples,):
        allowed = f"one label or target for each of {examples} examples, shape ({examples},)"
        raise ConfigError(name, given, allowed, "Give each example one label, flattened with .reshape(-1).")
    if y.dtype.kind not in ("iu" if classes != 0 else "iuf"):
        allowed = "whole numbers from 0, one label for each example; or floating point for the targets of a regression"
        raise ConfigError(name, given, allowed, "Give each class a number, and convert with .astype('int64').")
    if classes == 0:
        return _finite(y, name)
    bad = (y < 0) | (y >= (classes or np.inf))
    if bad.any():
        first = int(bad.argmax())
        allowed = "numbered from 0" + (f" to {classes - 1}, the classes of the training labels" if classes else "")
        allowed += f"; {bad.sum()} labels are outside, the first at index {first}"
        raise ConfigError(name, int(y[first]), allowed, "Correct the labels.")
    return y.astype(np.int64)
