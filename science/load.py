"""The load that a history of selections shows: how often, how evenly, and with what weight clients took part."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.history import History
from aoi_fl.science.types import Ints

_MOST_PAIRED = 10_000  # clients, for a table of 12.5 MB
_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)
WINDOWS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True)
class Counts:
    """How many rounds the clients took part in; a client drawn twice in a round took part once.

    ``jain`` is the index (Σc)²/(n Σc²) of Jain, Chiu & Hawe (1984): 1 for equal counts, 1/n for a single busy client.
    """

    mean: float
    min: int
    max: int
    jain: float


@dataclass(frozen=True)
class LoadMetrics:
    """The load that a history put on its clients.

    Attributes
    ----------
    interval_counts : {x: number of intervals of x rounds} between consecutive participations of a client, all pooled
    interval_mean, interval_variance : of these intervals (ddof = 0); None without any
    window_deviation : {T: √Var(Y)/T}, Y the draws of a client in a window of T rounds; disjoint windows, pooled (ddof =
        0)
    round_mean, round_deviation : of the participants a round (ddof = 0)
    participation : counts a client
    pairs_met : {T: share of the pairs of clients in a same round up to round T}, the last one R
    weight_variance : Σ_i Var_t[ω_i(t)] (ddof = 0), the Σ of Javani & Wang (2025), eq. (14), over rounds with
        participants, or None; Theorem 5's (33) as printed counts empty rounds as 0
    empty_rounds : rounds without participants
    mean_age, peak_age : over clients and rounds, of the age before the decision, in rounds missed
    """

    interval_counts: dict[int, int] = field(repr=False)
    interval_mean: float | None
    interval_variance: float | None
    window_deviation: dict[int, float]
    round_mean: float
    round_deviation: float
    participation: Counts
    pairs_met: dict[int, float]
    weight_variance: float | None
    empty_rounds: int
    mean_age: float
    peak_age: int

    @property
    def met(self) -> float | None:
        """The share of all pairs of clients that trained together; None without pairs."""
        return list(self.pairs_met.values())[-1] if self.pairs_met else None


def measure(history: History) -> LoadMetrics:
    """Compute all load metrics; O(P log P + nR) time, about 70 bytes a participation of memory, 13 MB for pairs."""
    counts = interval_counts(history)
    number, total, squares = (sum(x**power * c for x, c in counts.items()) for power in range(3))
    active, sizes = history.rounds - history.empty_rounds, np.diff(history.offsets)
    square = float(history.weights @ history.weights)
    means = np.bincount(history.members, history.weights) / max(active, 1)
    age = peak = 0
    for ages in islice(history.ages(), history.rounds):
        age, peak = age + int(ages.sum()), max(peak, int(ages.max()))
    return LoadMetrics(
        counts,
        total / number if number else None,
        (number * squares - total**2) / number**2 if number else None,
        window_deviation(history),
        float(sizes.mean()) if len(sizes) else 0.0,
        float(sizes.std()) if len(sizes) else 0.0,
        participation(history),
        pairs_met(history, (*WINDOWS, history.rounds)),
        square / active - float(means @ means) if active else None,
        history.empty_rounds,
        age / max(history.clients * history.rounds, 1),
        peak,
    )


def interval_counts(history: History) -> dict[int, int]:
    """Count the intervals X by length."""
    members, when, _ = history.by_client
    counts = np.bincount(np.diff(when)[members[1:] == members[:-1]])
    return {int(x): int(counts[x]) for x in np.flatnonzero(counts)}


def participation(history: History) -> Counts:
    """Summarise the participation counts."""
    counts = history.counts
    total, squares = int(counts.sum()), int(counts @ counts)
    jain = total**2 / (history.clients * squares) if squares else 1.0
    return Counts(total / history.clients, int(counts.min()), int(counts.max()), jain)


def data_a_participation(history: History, sizes: Ints) -> float:
    """Return how many examples a participation trains on, in parts of an average client's; ``sizes`` are (n,)."""
    return float(history.counts @ sizes) / max(int(history.counts.sum()), 1) / float(sizes.mean())


def window_deviation(history: History) -> dict[int, float]:
    """Return {T: √Var(Y)/T} for the windows T that fit (Javani & Wang 2025, Fig. 4)."""
    members, when, draws = history.by_client
    result = {}
    for length in (length for length in WINDOWS if length <= history.rounds):
        windows = history.rounds // length
        inside = when <= windows * length
        # One number a (client, window), ascending, so that equal ones stand together.
        cell = members[inside].astype(np.int64) * windows + (when[inside] - 1) // length
        starts = np.flatnonzero(np.diff(cell, prepend=-1))
        y = np.add.reduceat(draws[inside], starts, dtype=np.int64) if len(starts) else starts
        total, squares, cells = int(y.sum()), int(y @ y), history.clients * windows
        result[length] = math.sqrt(cells * squares - total**2) / cells / length
    return result


def pairs_met(history: History, rounds: Iterable[int]) -> dict[int, float]:
    """Return {T: share of all pairs of clients that took part in a same round up to round T}, T ≤ R.

    n²/8 bytes of memory. Of more than 10,000 clients as many are sampled, always the same. A single client has no
    pairs, and the result is empty.

    >>> alone, idle = (History.from_arrays(clients, 3, [], [], []) for clients in (1, 4))
    >>> pairs_met(alone, [3]), pairs_met(idle, [3, 5])
    ({}, {3: 0.0})
    """
    marks = sorted({length for length in rounds if 1 <= length <= history.rounds})
    clients = min(history.clients, _MOST_PAIRED)
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
