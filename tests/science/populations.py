"""Clients to choose from, with nothing learnt about them yet."""

import numpy as np

from aoi_fl.science.selection import Population


def population(sizes, available=None):
    """Return clients that have waited for no round; all are there unless it is said who is."""
    sizes = np.asarray(sizes, dtype=np.int64)
    here = np.ones(len(sizes), bool) if available is None else np.asarray(available)
    return Population(np.zeros(len(sizes), np.int64), sizes, here)


def equals(clients):
    """Return clients of equal size."""
    return population(np.ones(clients))
