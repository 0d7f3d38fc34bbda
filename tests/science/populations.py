"""Clients to choose from, with nothing learnt about them yet, and the law that a chain keeps."""

from dataclasses import replace

import numpy as np

from aoi_fl.science.selection import Population


def population(sizes, available=None, **more):
    """Return clients that have waited for no round, all available by default; ``more`` are further fields."""
    sizes = np.asarray(sizes, dtype=np.int64)
    here = np.ones(len(sizes), bool) if available is None else np.asarray(available, bool)
    return replace(Population(np.zeros(len(sizes), np.int64), sizes, here), **more)


def equals(clients):
    """Return clients of equal size."""
    return population(np.ones(clients))


def stationary(matrix):
    """Return the law that a chain keeps."""
    n = len(matrix)
    return np.linalg.lstsq(np.vstack([matrix.T - np.eye(n), np.ones(n)]), np.append(np.zeros(n), 1.0), rcond=None)[0]
