"""What a server sees of its clients while a run goes on, and the base of the selectors that learn from it.

A server knows what came with an update: the client's mean training loss, and how long it took. Of a client that never
took part it knows neither, of one that did so long ago, what was so then, and of one that missed the end of its round,
how long it was waited for.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science import draws
from aoi_fl.science.rates import Floats
from aoi_fl.science.selection import Population, Selection, check_per_round

Mask: TypeAlias = NDArray[np.bool_]
Clients: TypeAlias = NDArray[np.int64]

_SPREAD = 0.5  # of the logarithms of drawn losses
_SLOWEST = 1.0  # of those of drawn seconds: one client in forty takes more than seven times as long as the median one


@dataclass(frozen=True)
class Report:
    """What came with the updates of a round.

    Attributes
    ----------
    clients : (s,) int64, those whose updates counted, ascending
    losses : (s,) float64, each one's mean training loss; NaN where it was not told
    seconds : (s,) float64, from being sent the model to the update's arrival; NaN where nobody knows
    late : (l,) int64, those that had not answered when the round was over, or with nothing that could be used
    waited : (l,) float64, the seconds until then; 0 for who has answered
    """

    clients: Clients
    losses: Floats
    seconds: Floats
    late: Clients = field(default_factory=lambda: np.zeros(0, np.int64))
    waited: Floats = field(default_factory=lambda: np.zeros(0))


# What the clients that train in a round would report, where nobody learns: of a round and their numbers.
Reports: TypeAlias = Callable[[int, Clients], Report]


@dataclass(eq=False)
class ClientStats:
    """What each of n clients last reported; the arrays grow with the clients.

    Attributes
    ----------
    losses, seconds : (n,) float64, NaN for who has not said
    taken : (n,) int64, updates that counted
    last : (n,) int64, the round of the last of them; 0: none yet
    tried : (n,) int64, the last round that it was tried in, in vain or not; 0: none yet
    waited : (n,) float64, the longest that it was waited for in vain since its last update; 0: it was not
    """

    losses: Floats = field(default_factory=lambda: np.zeros(0))
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    taken: Clients = field(default_factory=lambda: np.zeros(0, np.int64))
    last: Clients = field(default_factory=lambda: np.zeros(0, np.int64))
    tried: Clients = field(default_factory=lambda: np.zeros(0, np.int64))
    waited: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def durations(self) -> Floats:
        """(n,) what is known of how long each takes: as its last update did, or as it was waited for since, if longer.

        NaN where nothing is.
        """
        return np.fmax(self.seconds, np.where(self.waited > 0, self.waited, np.nan))

    def reach(self, clients: int) -> "ClientStats":
        """Make room for n clients, of whom the new ones have said nothing, and return this."""
        for name in (array.name for array in fields(self)):
            known = getattr(self, name)
            if len(known) < clients:
                nothing = np.nan if name in ("losses", "seconds") else 0
                setattr(self, name, np.append(known, np.full(clients - len(known), nothing, known.dtype)))
        return self

    def note(self, round_: int, report: Report) -> None:
        """Take note of a round's report."""
        who, late = report.clients, report.late
        self.reach(int(max(who.max(initial=-1), late.max(initial=-1))) + 1)
        for mine, told in ((self.losses, report.losses), (self.seconds, report.seconds)):
            known = np.isfinite(told)
            mine[who[known]] = told[known]
        self.taken[who] += 1
        self.last[who] = self.tried[who] = self.tried[late] = round_
        self.waited[who] = 0.0
        self.waited[late] = np.maximum(self.waited[late], report.waited)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, for a run that goes on later."""
        return {f"seen-{f.name}": getattr(self, f.name) for f in fields(self)}

    @classmethod
    def recalled(cls, memory: Mapping[str, NDArray[Any]]) -> "ClientStats":
        """Return what :meth:`state_dict` told."""
        names = {f.name: f"seen-{f.name}" for f in fields(cls)}
        found = cls(**{name: memory[kept].copy() for name, kept in names.items() if kept in memory})
        found.reach(len(found.taken))
        found.tried = np.maximum(found.tried, found.last)  # a run of an earlier version has not kept it
        return found


@dataclass(eq=False)
class LearningSelector:
    """Base of the selectors that learn from reports; what it has learned is part of the run, and resumed with it.

    Attributes
    ----------
    per_round : k
    seed : of the draws
    seen : what it has been told up to now
    """

    per_round: int
    seed: int
    seen: ClientStats = field(default_factory=ClientStats, init=False)

    def __post_init__(self) -> None:
        check_per_round(self.per_round)

    @abstractmethod
    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round, by what was learned in those before."""

    def learn(self, round_: int, population: Population, report: Report) -> None:
        """Take note of what came of a round that was chosen for from this population."""
        self.seen.note(round_, report)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return all that was learned, as arrays by name."""
        return self.seen.state_dict()

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`state_dict` returned."""
        self.seen = ClientStats.recalled(state)


def drawn_reports(clients: int, seed: int) -> Reports:
    """Return reports for a simulation without learning: each client has one loss and one time, whatever the round.

    Both are drawn once, lognormal with median 1: losses with σ = 0.5, seconds with σ = 1.
    """
    rng = draws.generator(seed, 0, "reports")
    losses, seconds = rng.lognormal(0.0, _SPREAD, clients), rng.lognormal(0.0, _SLOWEST, clients)
    return lambda round_, who: Report(who, losses[who], seconds[who])
