"""Warnings about a user's own data that are valid but probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aoi_fl.learning.form import Dataset, resemble_classes
from aoi_fl.science.types import AnyArray, Floats, Mask, Singles

_LARGE, _SMALL = 5.0, 0.01  # SGD learns badly with a larger root mean square, or with all values smaller
_SHOWN = 5
_RENUMBERED = (
    "classes, train_y = numpy.unique(train_y, return_inverse=True), and test_y = numpy.searchsorted(classes, test_y)"
)


def cautions(dataset: Dataset) -> list[str]:
    """Return warnings about a user's own data set, one for each probable mistake."""
    if not dataset.name.startswith("npz:"):
        return list(dataset.notes)
    return [*inputs(dataset.train_x, "train_x"), *_labels(dataset.train_y, dataset.classes)]


def inputs(x: Singles, name: str) -> Iterator[str]:
    """Yield a warning if pixels or a table's columns (N, …) have a bad scale for plain SGD."""
    pixels = x.ndim > 2
    around, unscaled = _scales(x.reshape(-1, 1) if pixels else x)
    if pixels and unscaled[0]:
        yield (
            f"{name} has pixels up to {np.abs(x).max():.6g}, of which a model learns little: scale them to 0 to 1, in "
            "every array by the same number."
        )
    elif unscaled.any():
        columns = [f"column {i} (around {around[i]:.3g})" for i in np.flatnonzero(unscaled)]
        yield (
            f"{name} has columns that are not scaled, of which a model learns little: {_listed(columns)}. Standardise "
            "every array by the training data: x = (x - train_x.mean(axis=0)) / train_x.std(axis=0)."
        )


def _labels(y: AnyArray, classes: int) -> Iterator[str]:
    """Yield a warning about ``train_y``: classes without examples, or suspicious targets."""
    if classes:
        missing = np.setdiff1d(np.arange(classes), y)
        if missing.size:
            yield (
                f"train_y has no example of class {_listed([*map(str, missing.tolist())])} among its classes 0 to "
                f"{classes - 1}: the model has an output for each of them. If no class is meant to be empty, number "
                f"them again: {_RENUMBERED}."
            )
        return
    (around,), (unscaled,) = _scales(y[:, None])
    if resemble_classes(y):
        yield (
            f"train_y is floating point, so the model learns a regression, but it holds {len(np.unique(y))} whole "
            f"numbers from {y.min():g} to {y.max():g}. If they are classes, number them from 0: {_RENUMBERED}."
        )
    elif unscaled:
        yield (
            f"train_y holds targets around {around:.3g}, which a model learns badly or diverges on: standardise "
            "them, in every array by the training data: y = (y - train_y.mean()) / train_y.std()."
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _scales(columns: Singles) -> tuple[Floats, Mask]:
    """Return the root mean square of each column of (N, columns), and whether it is far from 1."""
    largest = np.abs(columns).max(axis=0).astype(np.float64)
    scale = np.where(largest > 0, largest, 1.0)  # else the squares of large numbers overflow
    around = scale * np.sqrt(np.einsum("ij,ij->j", columns / scale, columns / scale) / len(columns))
    return around, (around > _LARGE) | ((largest < _SMALL) & (largest > 0))
