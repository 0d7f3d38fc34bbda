"""A client's decision to take part, by the rule of a message.

The rule is the object that the simulator calls with n clients; here n is 1. The client's memory is its
:class:`aoi_fl.science.age.ClientAge` and, under a rule that counts them, the number of its last participation.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aoi_fl.client.state import ClientState
from aoi_fl.protocol import CENTRAL, MAX_AGE, RESERVE, ParticipationRequest
from aoi_fl.science.age import ClientAge
from aoi_fl.science.draws import uniform
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.rule import Clocks, ParticipationRule, Terms

_LONGEST = 10_000  # rounds in which a user's own rule must take part once


class Decider:
    """Decides for one client in a request's round.

    Parameters
    ----------
    ask : the request
    own : the client's state; a newcomer draws its clock
    number : the counter of its draws
    folder : searched first for the user's own rule

    Attributes
    ----------
    clock, count : the client's clock, and the number of its last participation under a rule that counts them

    Raises
    ------
    ConfigError : the terms are out of range, or the rule's code cannot be used or differs from the server's.
    """

    def __init__(self, ask: ParticipationRequest, own: ClientState, number: int, folder: str) -> None:
        self._ask, self._own, self._number = ask, own, number
        self._rule = _rule(ask, own.seed, number, folder)
        self.clock = own.age or self._newcomer()
        self.count = _only(self._rule.counts(np.array([self.clock.last]))) if own.turn is None else own.turn

    def _newcomer(self) -> ClientAge:
        """Return the clock of a client that joins in this round."""
        if self._ask.wire == CENTRAL:  # its selection draws no age: a newcomer has missed all rounds before
            return ClientAge(last=0)
        age = int(self._rule.first_age(self._ask.round, self._draw("first-age", self._ask.round))[0])
        return ClientAge(last=max(-MAX_AGE, self._ask.round - 1 - age))

    @property
    def own(self) -> ClientState:
        """The client's state."""
        return replace(self._own, age=self.clock, turn=self.count)

    def willing(self) -> bool:
        """Decide about the round; a repeated round gets the same decision."""
        round_ = self._ask.round
        if self._ask.wire == CENTRAL:
            return True
        if self._ask.wire == RESERVE:
            return self.clock.due(round_)
        if self.count is not None and self.clock.last == round_ and not self.clock.forced:  # this repeats the round
            return True
        return bool(self._rule.participates(self._clocks(round_), round_, self._draw("participate", round_))[0])

    def reserve(self, round_: int) -> None:
        """Draw the next round of participation, ``round_`` or later."""
        drawn = self._rule.next_round(self._clocks(round_), round_, self._draw("reserve", round_))
        self.clock = replace(self.clock, reserved=min(MAX_AGE, int(drawn[0])))

    def take_part(self) -> None:
        """Note the participation in this round; a repeated one changes nothing."""
        round_, forced = self._ask.round, self._ask.forced
        clock = self.clock.took_part(round_, forced)
        if clock != self.clock and self.count is not None:
            one = np.ones(1, np.bool_)
            self.count = _only(self._rule.advance(self._clocks(round_), round_, one, one & forced).counts)
        self.clock = clock
        if self._ask.wire == RESERVE:
            self.reserve(round_ + 1)

    def _draw(self, purpose: str, round_: int) -> NDArray[np.float64]:
        return np.array([uniform(self._own.seed, round_, purpose, self._number)])

    def _clocks(self, round_: int) -> Clocks:
        """Return the client's clock at the start of a round as an array of one; valid when repeated."""
        last = np.array([round_ - 1 - self.clock.age(round_)])
        return Clocks(last, None if self.count is None else np.array([self.count]))


def _only(counts: NDArray[np.int64] | None) -> int | None:
    return None if counts is None else int(counts[0])


def _rule(ask: ParticipationRequest, seed: int, number: int, folder: str) -> ParticipationRule:
    if ask.rule is not None:
        rule = _own_rule(ask.rule, ask.rule_source or "", folder, ask.clients or 1, ask.per_round or 1)
        return _OneOfOwn(rule, seed, number)
    if ask.wire == CENTRAL:  # the server decides
        return ParticipationRule()
    if ask.rate is None:
        return _by_table(ask.table)
    return _by_stride(Terms((), ask.rate, ask.phase, ask.jitter, ask.shift), seed, number)


@lru_cache(maxsize=4096)  # a process with many clients uses each of them again
def _by_stride(terms: Terms, seed: int, number: int) -> ParticipationRule:
    from aoi_fl.science.systematic import SystematicPolicy

    return SystematicPolicy.from_message(terms, seed, number)


@lru_cache(maxsize=64)  # most clients of a process have the same table
def _by_table(table: tuple[float, ...]) -> ParticipationRule:
    from aoi_fl.science.markov import MarkovPolicy

    return MarkovPolicy.from_message(Terms(table))


class _OneOfOwn(ParticipationRule):
    """A user's own rule for one client; a reservation uses the same draws as round by round."""

    def __init__(self, rule: ParticipationRule, seed: int, number: int) -> None:
        self._rule, self._seed, self._number = rule, seed, number
        self.first_age, self.participates = rule.first_age, rule.participates  # type: ignore[method-assign]

    def next_round(self, clocks: Clocks, round_: int, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the first round in which the client takes part."""
        for later in range(round_, round_ + _LONGEST):
            coin = np.array([uniform(self._seed, later, "participate", self._number)])
            if self.participates(clocks, later, coin)[0]:
                return np.array([later])
        allowed = f"a rule that takes part in one of {_LONGEST} rounds from {round_} on"
        remedy = "Raise its probabilities, or choose another coordination than reserve."
        raise ConfigError("policy", None, allowed, remedy)


@lru_cache(maxsize=8)
def _own_rule(name: str, source: str, folder: str, clients: int, per_round: int) -> ParticipationRule:
    from aoi_fl.protocol.own_code import source_digest
    from aoi_fl.protocol.own_rule import make_rule

    if (here := source_digest("policy", name, folder)) != source:
        allowed = f"the server's, digest {source[:12]}…; the module here has {here[:12]}…"
        raise ConfigError("policy", name, allowed, "Copy the server's file.")
    return make_rule(name, folder, clients, per_round)
