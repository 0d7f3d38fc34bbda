"""The base of the rivals that learn from what a server observes of its clients during a run."""

from abc import abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.client_stats import ClientArrays, Report
from aoi_fl.science.errors import ConfigError, check_whole
from aoi_fl.science.selection import Population, Selection, smallest
from aoi_fl.science.types import Arrays, Floats, Ints, Mask

State: TypeAlias = Arrays  # what a selector has learned, as arrays by name


class ClientStats(ClientArrays):
    """The last reports of n clients; the arrays grow with the clients.

    Attributes
    ----------
    losses, seconds : (n,) float64, NaN where unknown
    taken : (n,) int64, updates that counted
    last, tried : (n,) int64, the round of the last such update, and of the last selection; 0: none
    waited : (n,) float64, the longest wait in vain since the last update
    """

    prefix = "seen"
    unknown = MappingProxyType({"losses": np.nan, "seconds": np.nan, "taken": 0, "last": 0, "tried": 0, "waited": 0.0})

    losses: Floats
    seconds: Floats
    taken: Ints
    last: Ints
    tried: Ints
    waited: Floats

    @property
    def durations(self) -> Floats:
        """(n,) each client's known duration: its last update's, or a longer wait since; NaN where unknown."""
        return np.fmax(self.seconds, np.where(self.waited > 0, self.waited, np.nan))

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


def number_of_candidates(given: int, per_round: int, least: int) -> int:
    """Return how many candidates a selector draws, twice k for 0; raise ConfigError below the least."""
    candidates = given or 2 * per_round
    if candidates < least:
        allowed = f"at least clients-per-round, {least}" if least == per_round else f"at least {least}"
        raise ConfigError("candidates", candidates, allowed, "Raise it.")
    return candidates


@dataclass(eq=False)
class LearningSelector:
    """Base of the selectors that learn from reports; the learned state is part of the run.

    Attributes
    ----------
    per_round : k
    seed : of the draws
    seen : the clients' statistics
    """

    per_round: int
    seed: int
    seen: ClientStats = field(default_factory=ClientStats, init=False)

    def __post_init__(self) -> None:
        check_whole("clients-per-round", self.per_round)

    @abstractmethod
    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round."""

    def take_smallest(self, round_: int, who: Ints, clients: int, *keys: Floats | Mask) -> Ints:
        """Return the k of these clients with the smallest keys, the last key first, ties at random; ascending."""
        ties = draws.uniforms(self.seed, round_, "select", clients)[who]
        return np.sort(who[np.lexsort((ties, *keys))[: self.per_round]])

    def learn(self, round_: int, population: Population, report: Report) -> None:
        """Take note of the outcome of a round that was chosen for from this population."""
        self.seen.note(round_, report)

    def state_dict(self) -> State:
        """Return the learned state, as arrays by name."""
        return self.seen.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`."""
        self.seen.load_state_dict(state)


def sequential(uniforms: Floats, weights: Floats, count: int) -> Ints:
    """Return the positions of ``count`` draws without replacement, ascending, each in proportion to the weights left.

    The smallest of −ln(1−u_i)/w_i are as good as draws one after another (Efraimidis & Spirakis 2006). A position of
    weight 0 is never drawn.

    >>> sequential(np.array([0.5, 0.5, 0.9]), np.array([1.0, 3.0, 0.0]), 2).tolist()
    [0, 1]
    """
    eligible = weights > 0
    keys = -np.log1p(-uniforms) / np.where(eligible, weights, 1.0)
    return smallest(keys, eligible, count)
