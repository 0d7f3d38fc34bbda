"""The central selectors: pure functions of the round and of the server's knowledge of the clients.

Their randomness comes from :mod:`aoi_fl.science.draws`, so a seed gives the same selections on any transport.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError, check_whole
from aoi_fl.science.types import AnyArray, Floats, Ints, Mask

_PURPOSE = "select"  # the purpose under which every central choice draws


@dataclass(frozen=True, eq=False)
class Foresight:
    """Knowledge that no server has, for policies with papers that assume it.

    Attributes
    ----------
    until : gives (n,) when the clients that are available at a second leave; other clients get that second
    seconds : (n,) float64, of each client's training; with the loading once a model has been sent
    uploads : (n,) float64, the part of that for sending the update
    """

    until: Callable[[float], Floats]
    seconds: Floats
    uploads: Floats


@dataclass(frozen=True)
class Population:
    """The server's knowledge of n clients at the start of a round; position i of every array is client i.

    Attributes
    ----------
    ages : (n,) int64, rounds missed since the last selection
    sizes : (n,) int64, examples d_i
    available : (n,) bool
    payments : (n,) float64 or None, p_i in budget units
    sensitivities : (n,) float64 or None, φ_i, the sensitivity of the objective to the client's age
    connected : (n,) bool, the available clients and those that are busy or rest; None: as ``available``
    now : simulated seconds since the run began; None without a clock
    foresight : knowledge that no server has, for policies with papers that assume it; None without it
    """

    ages: Ints
    sizes: Ints
    available: Mask
    payments: Floats | None = None
    sensitivities: Floats | None = None
    connected: Mask | None = None
    now: float | None = None
    foresight: Foresight | None = None


def sound_clients(where: str, clients: object, n: int) -> Ints:
    """Return client numbers of own code as (s,) int64.

    Raises
    ------
    ConfigError : they are no list of distinct whole numbers from 0 to n − 1.
    """
    key, remedy = f"clients of {where}", "Return client numbers, for a mask numpy.flatnonzero(mask)."
    chosen = sound_values(key, clients, None, most=n - 1, kinds="iu", remedy=remedy)
    if len(np.unique(chosen)) < len(chosen):
        raise ConfigError(key, None, "different from each other", "Return each number once.")
    return chosen.astype(np.int64)


def sound_values(
    name: str,
    values: object,
    length: int | None,
    *,
    most: float = np.inf,
    kinds: str = "iuf",
    unknown: bool = False,
    remedy: str = "Return one value a client.",
) -> AnyArray:
    """Return numbers or truth values of own code as an array.

    Parameters
    ----------
    name, values : what they are called, and the values
    length, most : how many they are, None for any number, and the largest that is allowed; the least is 0
    kinds : kinds of NumPy's types
    unknown : whether NaN is allowed
    remedy : the next step where they are no such array

    Raises
    ------
    ConfigError : they are something else, or one is out of range.
    """
    array = _array(values)
    if array is None or (array.dtype.kind not in kinds and array.size):
        allowed = f"an array of {dict(b='truth values', iu='whole numbers').get(kinds, 'numbers')}"
        raise ConfigError(name, type(values).__name__, allowed, remedy)
    if array.ndim != 1 or length not in (None, len(array)):
        wanted = "s" if length is None else length
        raise ConfigError(name, f"of shape {array.shape}", f"of shape ({wanted},)", remedy)
    if not array.size:  # of any type
        return array
    bad = array[~((array >= 0) & (array <= most) & np.isfinite(array)) & ~(unknown & np.isnan(array))]
    if len(bad):
        raise ConfigError(name, str(bad[0]), f"numbers from 0 to {most:.15g}", "Return numbers of this range.")
    return array


def _array(values: object) -> AnyArray | None:
    """Return a list or an array as an array; None: it is something else, or has masked values."""
    if not isinstance(values, np.ndarray | list | tuple) or isinstance(values, np.ma.MaskedArray):
        return None
    try:
        return np.asarray(values)
    except ValueError:  # lists of different lengths
        return None


def everyone(sizes: Ints) -> Population:
    """Return clients of these (n,) sizes, all available and of age 0."""
    return Population(np.zeros(len(sizes), np.int64), sizes, np.ones(len(sizes), np.bool_))


@dataclass(frozen=True)
class Selection:
    """The clients of one round.

    Attributes
    ----------
    clients : (s,) int64, distinct client numbers in ascending order
    weights : (s,) float64, aggregation weights ω, summing to 1; empty without clients
    draws : (s,) int64, how often each was drawn: ones, but for selection with replacement
    """

    clients: Ints
    weights: Floats
    draws: Ints


class Selector(Protocol):
    """A policy that chooses centrally."""

    def select(self, round_: int, population: Population) -> Selection:
        """Choose among the available clients of a population in a round (counted from 1)."""


@dataclass(frozen=True)
class _Selector:
    """A selector of k clients a round, whose draws have a seed."""

    per_round: int
    seed: int

    def __post_init__(self) -> None:
        check_whole("clients-per-round", self.per_round)


class _SharingSelector(_Selector):
    """One whose available clients share k."""

    def rates(self, population: Population) -> Floats:
        """Return (n,) how often each client takes part, in participations a round: k shared among those available."""
        available = max(1, int(np.count_nonzero(population.available)))
        return np.full(len(population.available), min(1.0, self.per_round / available))


class RandomSelector(_SharingSelector):
    """Exactly k of the available clients, uniformly at random, weighted by data size (all of them, if fewer than k).

    ω_i = d_i / Σ_{j∈S} d_j (Javani & Wang 2025, Policy 1). Client i draws u_i from (seed, round) and the k smallest are
    chosen, whatever the others' availability. Clients without examples are skipped.
    """

    def long_run_rates(self, population: Population) -> Floats:
        """Return (n,) participations a round of each client in the long run, if all are available."""
        filled = population.sizes > 0  # the others are skipped
        return np.where(filled, min(self.per_round / max(int(filled.sum()), 1), 1.0), 0.0)

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n) time, at most 40 bytes a client at the peak, the selection included."""
        keys = draws.uniforms(self.seed, round_, _PURPOSE, len(population.ages))
        chosen = smallest(keys, population.available & (population.sizes > 0), self.per_round)
        return by_size(chosen, population.sizes)


class ProportionalSelector(_Selector):
    """k draws **with replacement**, each falling on an available client with probability q_i = d_i / Σ d.

    A client drawn l times trains once, with weight l/k (Javani & Wang 2025, Policy 2, the weights of their Theorem 4).
    There are always k draws. Clients without examples are never drawn.
    """

    def long_run_rates(self, population: Population) -> Floats:
        """Return (n,) draws a round of each client in the long run, if all are available."""
        shares: Floats = population.sizes / population.sizes.sum()
        return self.per_round * shares

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n + k log n) time, at most 20 bytes a client and 32 bytes a draw at the peak."""
        # Integers, not floats: the cumulated sizes are exact, so no client's share is off by a rounding.
        upper = np.cumsum(np.where(population.available, population.sizes, 0))
        if len(upper) == 0 or upper[-1] == 0:
            return nobody()
        tickets = draws.generator(self.seed, round_, _PURPOSE).integers(upper[-1], size=self.per_round)
        chosen, times = np.unique(np.searchsorted(upper, tickets, side="right"), return_counts=True)
        return Selection(chosen.astype(np.int64), times / self.per_round, times.astype(np.int64))


class OldestAgeSelector(_SharingSelector):
    """The k available clients with the largest ages, ties broken at random (all of them, if fewer than k).

    The central ideal of the optimal Markov policy (Javani & Wang 2025), hence with that policy's weights 1/|S|. Random
    ties keep clients of equal ages from training always together.
    """

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n) time, at most 50 bytes a client at the peak, the selection included."""
        ties = draws.uniforms(self.seed, round_, _PURPOSE, len(population.ages))
        return evenly(smallest(ties - population.ages, population.available, self.per_round))


def evenly(clients: Ints) -> Selection:
    """Return the selection of these clients (distinct, ascending) with equal weights 1/|S|."""
    count = len(clients)
    return Selection(clients, np.full(count, 1.0 / max(count, 1)), np.ones(count, dtype=np.int64))


def by_size(clients: Ints, sizes: Ints) -> Selection:
    """Return the selection of these clients (distinct, ascending) with weights d_i/Σ_S d_j; sizes are (n,)."""
    chosen = sizes[clients]
    return Selection(clients, chosen / max(chosen.sum(), 1), np.ones(len(clients), dtype=np.int64))


def nobody() -> Selection:
    """Return the selection of no client."""
    return evenly(np.empty(0, dtype=np.int64))


def smallest(keys: Floats, eligible: Mask, count: int) -> Ints:
    """Return the positions of the ``count`` smallest keys among the eligible, ascending; ``keys`` is overwritten."""
    count = min(count, int(np.count_nonzero(eligible)))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    keys[~eligible] = np.inf
    return np.sort(np.argpartition(keys, count - 1)[:count])
