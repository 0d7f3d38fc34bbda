"""Warnings about a user's own data that are valid but probably a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.learning.form import Dataset, resemble_classes

_LARGE, _SMALL = 5.0, 0.01  # SGD learns badly with a larger root mean square, or with all values smaller
_SHOWN = 5
_RENUMBERED = (
    "classes, train_y = numpy.unique(train_y, return_inverse=True), and test_y = numpy.searchsorted(classes, test_y)"
)


def cautions(dataset: Dataset) -> list[str]:
    """Return warnings about a user's own data set, one for each probable mistake."""
    if not dataset.name.startswith("npz:"):
        return list(dataset.notes)
    return inputs(dataset.train_x, "train_x") + labels(dataset.train_y, dataset.classes)


def inputs(x: NDArray[np.float32], name: str) -> list[str]:
    """Return a warning if pixels or a table's columns (N, …) have a bad scale for plain SGD."""
    if x.ndim > 2:
        size = _size(x.reshape(-1, 1))
        if not _unscaled(size)[0]:
            return []
        return [
            f"{name} has pixels up to {np.abs(x).max():.6g}, of which a model learns little: scale them to 0 to 1, in "
            "every array by the same number."
        ]
    sizes = _size(x)
    unscaled = np.flatnonzero(_unscaled(sizes))
    if not unscaled.size:
        return []
    shown = ", ".join(f"column {i} (around {sizes[0][i]:.3g})" for i in unscaled[:_SHOWN])
    more = f" and {unscaled.size - _SHOWN} more" if unscaled.size > _SHOWN else ""
    return [
        f"{name} has columns that are not scaled, of which a model learns little: {shown}{more}. Standardise every "
        "array by the training data: x = (x - train_x.mean(axis=0)) / train_x.std(axis=0)."
    ]


def labels(y: NDArray[Any], classes: int) -> list[str]:
    """Return warnings about ``train_y``: classes without examples, and about suspicious targets."""
    if classes:
        missing = np.setdiff1d(np.arange(classes), y)
        if not missing.size:
            return []
        shown = ", ".join(map(str, missing[:_SHOWN].tolist()))
        more = f" and {missing.size - _SHOWN} more" if missing.size > _SHOWN else ""
        return [
            f"train_y has no example of class {shown}{more} among its classes 0 to {classes - 1}: the model has an "
            f"output for each of them. If no class is meant to be empty, number them again: {_RENUMBERED}."
        ]
    if resemble_classes(y):
        return [
            f"train_y is floating point, so the model learns a regression, but it holds {len(np.unique(y))} whole "
            f"numbers from {y.min():g} to {y.max():g}. If they are classes, number them from 0: {_RENUMBERED}."
        ]
    size = _size(np.asarray(y, np.float32)[:, None])
    if _unscaled(size)[0]:
        return [
            f"train_y holds targets around {size[0][0]:.3g}, which a model learns badly or diverges on: standardise "
            "them, in every array by the training data: y = (y - train_y.mean()) / train_y.std()."
        ]
    return []


def _size(columns: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the root mean square and the largest absolute value of each column of (N, columns)."""
    largest = np.abs(columns).max(axis=0).astype(np.float64)
    scale = np.where(largest > 0, largest, 1.0)  # else the squares of large numbers overflow
    share = np.einsum("ij,ij->j", columns / scale, columns / scale) / len(columns)
    return scale * np.sqrt(share), largest


def _unscaled(size: tuple[NDArray[np.float64], NDArray[np.float64]]) -> NDArray[np.bool_]:
    around, largest = size
    return (around > _LARGE) | ((largest < _SMALL) & (largest > 0))
