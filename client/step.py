"""A client's decision as one pure function: ``step(state, request)`` returns the next state and the reply.

All that a client remembers of a run is in :class:`ClientMemory`, and all that it learns from outside in
:class:`Request`. So the same state and request always have the same outcome. :class:`aoi_fl.client.member.Member` reads
and writes the files.

The rule of a message is the object that the simulator calls with n clients; here n is 1. The client's memory is its
:class:`aoi_fl.science.age.ClientAge` and, under a rule that counts them, the number of its last participation.
"""

from dataclasses import dataclass, replace

import numpy as np

from aoi_fl.client.gate.rules import SEPARATION
from aoi_fl.client.promises import Promise
from aoi_fl.client.state import ClientState
from aoi_fl.protocol import CENTRAL, MAX_AGE, RESERVE, ParticipationReply, ParticipationRequest
from aoi_fl.science.age import ClientAge
from aoi_fl.science.draws import uniform
from aoi_fl.science.rule import Clocks, ParticipationRule, Terms
from aoi_fl.science.types import Floats


@dataclass(frozen=True)
class ClientMemory:
    """What a client remembers of a run: its clocks, and its promise if it has made one."""

    own: ClientState
    promise: Promise | None = None


@dataclass(frozen=True)
class Request:
    """A message, and what the client knows beside it.

    Attributes
    ----------
    ask : the message's record
    name, number : the client's name, and the counter of its draws
    folder : searched first for the user's own rule
    rule : the owner's rule that forbids a training now, or None
    trains : whether an update follows a yes; under a promise a round has one only, and a repeated question is free
    alone : whether no other process of this client trains; else it declines under a promise
    trained : whether the client has trained; the age is then reset, and under reserve the next round is drawn
    """

    ask: ParticipationRequest
    name: str = ""
    number: int = 0
    folder: str = "."
    rule: str | None = None
    trains: bool = False
    alone: bool = True
    trained: bool = False


def step(state: ClientMemory, request: Request) -> tuple[ClientMemory, ParticipationReply]:
    """Decide by age, promise and the owner's rules; a forced client only by the last two.

    If a rule declines, the age goes on to grow, and a reservation for this round is drawn again for a later one. A
    repeated request then gets the same no, but without the rule's name.

    Raises
    ------
    ConfigError : the terms are out of range, or the rule's code cannot be used or differs from the server's.
    """
    ask, promise = request.ask, state.promise
    decider = _Decider(ask, state.own, request.number, request.folder)
    willing, rule, repeats = True, None, False
    if request.trained:
        decider.take_part()
        if promise is not None:
            promise = replace(promise, last=max(promise.last, ask.round))
    else:
        willing = decider.willing()
        repeats = request.trains and promise is not None and promise.last == ask.round
        if repeats:  # the process may have ended before it noted so in its age
            decider.take_part()
        if willing:
            kept = promise is None or (request.alone and not promise.forbids(ask.round, repeats=not request.trains))
            rule = request.rule or (None if kept else SEPARATION)
        if rule is not None and ask.wire == RESERVE and decider.clock.reserved == ask.round:
            decider.reserve_next()
    reply = ParticipationReply(
        name=request.name,
        takes_part=willing and rule is None,
        age=decider.age,
        next_round=decider.clock.reserved,
        rule=rule,
        trained=repeats or None,
    )
    return ClientMemory(replace(state.own, age=decider.clock, turn=decider.count), promise), reply


class _Decider:
    """Decides for one client in a request's round by the rule of the request; a newcomer draws its clock.

    Attributes
    ----------
    clock, count : the client's clock, and the number of its last participation under a rule that counts them
    age : its age at the start of the round
    """

    def __init__(self, ask: ParticipationRequest, own: ClientState, number: int, folder: str) -> None:
        self._ask, self._seed, self._number = ask, own.seed, number
        self._rule = _rule(ask, own.seed, number, folder)
        if own.age is not None:
            self.clock = own.age
        elif ask.wire == CENTRAL:  # its selection draws no age: a newcomer has missed all rounds before
            self.clock = ClientAge(last=0)
        else:
            age = int(self._rule.first_age(ask.round, self._draw("first-age", ask.round))[0])
            self.clock = ClientAge(last=max(-MAX_AGE, ask.round - 1 - age))
        counts = None if own.turn is not None else self._rule.counts(np.array([self.clock.last]))
        self.count = own.turn if counts is None else int(counts[0])
        self._last = self.clock.last_before(ask.round)
        self.age = ask.round - 1 - self._last

    def willing(self) -> bool:
        """Decide about the round; a repeated round gets the same decision. A missed reservation is drawn again."""
        round_, clock = self._ask.round, self.clock
        if self._ask.wire == RESERVE and not clock.due(round_) and (clock.reserved or 0) < round_:
            self._reserve(round_, self._last)
        if self._ask.forced or self._ask.wire == CENTRAL:
            return True
        if self._ask.wire == RESERVE:
            return self.clock.due(round_)
        if self.count is not None and clock.last == round_ and not clock.forced:  # this repeats the round
            return True
        return bool(self._rule.participates(self._clocks(self._last), round_, self._draw("participate", round_))[0])

    def reserve_next(self) -> None:
        """Draw the next round of participation after this one."""
        round_ = self._ask.round + 1
        self._reserve(round_, self.clock.last_before(round_))

    def _reserve(self, round_: int, last: int) -> None:
        clocks, u = self._clocks(last), self._draw("reserve", round_)
        self.clock = replace(self.clock, reserved=min(MAX_AGE, int(self._rule.next_round(clocks, round_, u)[0])))

    def take_part(self) -> None:
        """Note the participation in this round; a repeated one changes nothing."""
        round_, forced = self._ask.round, self._ask.forced
        if round_ > self.clock.last and self.count is not None:
            clocks, one = self._clocks(self._last), np.ones(1, np.bool_)
            counts = self._rule.advance(clocks, round_, one, one & forced).counts
            self.count = None if counts is None else int(counts[0])
        self.clock = self.clock.took_part(round_, forced)
        if self._ask.wire == RESERVE:
            self.reserve_next()

    def _draw(self, purpose: str, round_: int) -> Floats:
        return np.array([uniform(self._seed, round_, purpose, self._number)])

    def _clocks(self, last: int) -> Clocks:
        """Return the client's memory at the start of a round as arrays of one; ``last`` is valid in a repeated one."""
        return Clocks(np.array([last]), None if self.count is None else np.array([self.count]))


def _rule(ask: ParticipationRequest, seed: int, number: int, folder: str) -> ParticipationRule:
    """Return the rule of a request."""
    if ask.rule is not None:
        from aoi_fl.protocol.own_rule import rule_of_client

        terms = ask.rule_source or "", ask.clients or 1, ask.per_round or 1
        return rule_of_client(ask.rule, folder, *terms, seed, number)
    if ask.wire == CENTRAL:  # the server decides
        return ParticipationRule()
    if ask.rate is None:
        from aoi_fl.science.markov import MarkovPolicy

        return MarkovPolicy.from_message(Terms(ask.table))
    from aoi_fl.science.systematic import SystematicPolicy

    return SystematicPolicy.from_message(Terms((), ask.rate, ask.phase, ask.jitter, ask.shift), seed, number)
