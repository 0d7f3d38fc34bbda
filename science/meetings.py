"""Who meets whom: which pairs of clients have trained in the same round.

Under label skew a model that always hears the same clients together learns something else than one that hears every
mixture; how fast clients get to know each other is what tells policies of equal load apart.
"""

from collections.abc import Iterable

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.history import History

_MOST = 10_000  # clients whose pairs are all looked at; a table of 12.5 MB
_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def pairs_met(history: History, rounds: Iterable[int]) -> dict[int, float]:
    """Return {T: share of all pairs of clients that took part in a same round up to round T}, T ≤ R.

    n²/8 bytes of memory, and P·n/8 of them looked at. Of more than 10,000 clients so many are sampled, always the same,
    whose pairs are a fair sample of all. With a single client there are no pairs, and nothing is returned.
    """
    marks = sorted({length for length in rounds if 1 <= length <= history.rounds})
    clients = min(history.clients, _MOST)
    if clients < 2 or not marks:
        return {}
    place = np.arange(history.clients)  # of a client in the table, −1 outside the sample
    if clients < history.clients:
        place[:] = -1
        place[draws.generator(0, 0, "pairs").choice(history.clients, clients, replace=False)] = np.arange(clients)
    met = np.zeros((clients, (clients + 7) // 8), dtype=np.uint8)  # a bit for each pair, and for oneself
    present = np.zeros(clients, dtype=np.bool_)
    found: dict[int, float] = {}
    for round_ in range(1, marks[-1] + 1):
        together = place[history.members[history.offsets[round_ - 1] : history.offsets[round_]]]
        together = together[together >= 0]
        present[:] = False
        present[together] = True
        met[together] |= np.packbits(present)
        if round_ in marks:
            oneself = int(np.count_nonzero(met.any(axis=1)))
            found[round_] = (int(_ONES[met].sum(dtype=np.int64)) - oneself) / (clients * (clients - 1))
    return found
