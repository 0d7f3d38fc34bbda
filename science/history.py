"""A history of selections: the participants of each round, with their weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import Selection
from aoi_fl.science.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class History:
    """The participants of rounds 1 … R, stored round after round: 16 bytes a participation.

    Attributes
    ----------
    clients : n; the clients are numbered 0 … n−1
    offsets : (R+1,) int64, round t's participations are those from offsets[t−1] to offsets[t]
    members : (P,) int32, client numbers, ascending within a round
    weights : (P,) float64, aggregation weights ω
    draws : (P,) int32, how often the client was drawn in that round
    first_ages : (n,) int64, ages at the start of round 1
    """

    clients: int
    offsets: Ints
    members: NDArray[np.int32]
    weights: Floats
    draws: NDArray[np.int32]
    first_ages: Ints

    @classmethod
    def from_arrays(
        cls,
        clients: int,
        rounds: int,
        when: ArrayLike,
        who: ArrayLike,
        weights: ArrayLike,
        first_ages: ArrayLike | None = None,
    ) -> "History":
        """Build a history of n clients and R rounds from participations in any order, such as a ledger's rows.

        Participation j is client ``who[j]`` in round ``when[j]`` (from 1); each is one draw, and ``first_ages``
        are zeros unless given. Raises ConfigError for a participation outside the clients or the rounds.
        """
        when, who = np.asarray(when, dtype=np.int64), np.asarray(who, dtype=np.int64)
        outside = np.flatnonzero((when < 1) | (when > rounds) | (who < 0) | (who >= clients))
        if len(outside):
            j = outside[0]
            allowed = f"from 1 to {rounds}, for clients 0 to {clients - 1}"
            remedy = "Check that the record is whole, and of one run."
            raise ConfigError(f"round of client {who[j]}", int(when[j]), allowed, remedy)
        order = np.lexsort((who, when))
        return cls(
            clients=clients,
            offsets=np.searchsorted(when[order], np.arange(1, rounds + 2)).astype(np.int64),
            members=who[order].astype(np.int32),
            weights=np.asarray(weights, dtype=np.float64)[order],
            draws=np.ones(len(order), np.int32),
            first_ages=np.zeros(clients, np.int64) if first_ages is None else np.asarray(first_ages, dtype=np.int64),
        )

    @classmethod
    def of(cls, selections: Sequence[Selection], first_ages: Ints) -> "History":
        """Return the history of selections, one for each round from 1 on."""
        return cls(
            clients=len(first_ages),
            offsets=np.cumsum([0, *(len(each.clients) for each in selections)], dtype=np.int64),
            members=np.concatenate([np.empty(0, np.int32), *(each.clients for each in selections)], dtype=np.int32),
            weights=np.concatenate([np.empty(0), *(each.weights for each in selections)]),
            draws=np.concatenate([np.empty(0, np.int32), *(each.draws for each in selections)], dtype=np.int32),
            first_ages=first_ages,
        )

    @property
    def rounds(self) -> int:
        """R, the number of rounds, empty ones included."""
        return len(self.offsets) - 1

    @property
    def empty_rounds(self) -> int:
        """The number of rounds without a participant."""
        return int(np.count_nonzero(np.diff(self.offsets) == 0))

    @property
    def counts(self) -> Ints:
        """The number of rounds that each client took part in, (n,)."""
        return np.bincount(self.members, minlength=self.clients).astype(np.int64)

    def selection(self, round_: int) -> Selection:
        """Return the selection of a round (from 1)."""
        part = slice(self.offsets[round_ - 1], self.offsets[round_])
        return Selection(self.members[part].astype(np.int64), self.weights[part], self.draws[part].astype(np.int64))

    def ages(self) -> Iterator[Ints]:
        """Yield (n,) the ages at the start of rounds 1 … R+1; the array is overwritten."""
        ages = self.first_ages.copy()
        yield ages
        for start, end in pairwise(self.offsets.tolist()):
            ages += 1
            ages[self.members[start:end]] = 0
            yield ages

    @cached_property
    def by_client(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Members, rounds and draws of all participations, ordered by client, then by round; each (P,) int32."""
        order = np.argsort(self.members, kind="stable")
        when = np.repeat(np.arange(1, self.rounds + 1, dtype=np.int32), np.diff(self.offsets))
        return self.members[order], when[order], self.draws[order]
