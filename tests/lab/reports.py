"""What a server learns of a round, for selectors that learn from it."""

import numpy as np

from aoi_fl.science.client_stats import Report


def report(clients=(), losses=None, seconds=None, late=(), waited=()):
    """Return the report on the clients that took part, and on the late ones; numbers that are not given are unknown."""
    unknown = np.full(len(clients), np.nan)
    losses, seconds = (unknown if known is None else np.asarray(known, float) for known in (losses, seconds))
    return Report(np.array(clients, int), losses, seconds, np.array(late, int), np.array(waited, float))
