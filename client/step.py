"""A client's decision as one pure function: ``step(state, request)`` returns the next state and the reply.

All that a client remembers of a run is in :class:`State`, and all that it learns from outside in :class:`Request`. So
the same state and request always have the same outcome. :class:`aoi_fl.client.member.Member` reads and writes the
files.
"""

from dataclasses import dataclass, replace

from aoi_fl import protocol
from aoi_fl.client.deciding import Decider
from aoi_fl.client.gate.rules import SEPARATION
from aoi_fl.client.promises import Promise, strictest
from aoi_fl.client.state import ClientState
from aoi_fl.protocol import ParticipationReply, ParticipationRequest


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
    apart : the owner's ``min-separation``
    rule : the owner's rule that forbids a training now, or None
    trains : whether an update follows a yes; under a promise a round has one only, and a repeated question is free
    alone : whether no other process of this client trains; else it declines under a promise
    """

    ask: ParticipationRequest
    name: str = ""
    number: int = 0
    folder: str = "."
    apart: int = 1
    rule: str | None = None
    trains: bool = False
    alone: bool = True


def step(
    state: ClientMemory, request: Request, trained: ParticipationReply | None = None
) -> tuple[ClientMemory, ParticipationReply]:
    """Decide by age, promise and the owner's rules; a forced client only by the last two.

    If a rule declines, the age goes on to grow, and a reservation for this round is drawn again for a later one. A
    repeated request then gets the same no, but without the rule's name.

    Parameters
    ----------
    state, request : the client's state and the message
    trained : the reply to this request, after its training; the age is then reset, and under reserve a round is drawn
    """
    ask, promise = request.ask, heard(state, request).promise
    decider = Decider(ask, state.own, request.number, request.folder)
    if trained is not None:
        decider.take_part()
        if promise is not None:
            promise = replace(promise, last=max(promise.last, ask.round))
        return ClientMemory(decider.own, promise), replace(trained, next_round=decider.clock.reserved)
    reserves, clock = ask.wire == protocol.RESERVE, decider.clock
    if reserves and not clock.due(ask.round) and (clock.reserved or 0) < ask.round:
        decider.reserve(ask.round)
    willing = ask.forced or decider.willing()
    rule = request.rule if willing else None
    repeats = request.trains and promise is not None and promise.last == ask.round
    if repeats:  # the process may have ended before it noted so in its age
        decider.take_part()
    kept = promise is None or (request.alone and not promise.forbids(ask.round, repeats=not request.trains))
    if willing and rule is None and not kept:
        rule = SEPARATION
    if rule is not None and reserves and decider.clock.reserved == ask.round:
        decider.reserve(ask.round + 1)
    reply = ParticipationReply(
        name=request.name,
        takes_part=willing and rule is None,
        age=decider.clock.age(ask.round),
        next_round=decider.clock.reserved,
        rule=rule,
        trained=repeats or None,
    )
    return ClientMemory(decider.own, promise), reply


def heard(state: ClientMemory, request: Request) -> ClientMemory:
    """Return the state after a message that needs no decision: with the strictest promise of all so far."""
    ask, known, age = request.ask, state.promise, state.own.age
    if known is None and request.apart == 1 and not ask.private:
        return state
    if known is None and age is not None:  # the first terms arrive in the middle of the run
        known = Promise(1, None, since=0, last=max(0, age.last))
    apart, clear = max(request.apart, ask.min_separation or 1), bool(ask.clear) or not ask.private
    terms = Promise(apart, ask.rounds, ask.round - 1, clear=clear, mu=ask.mu, delta=ask.delta)
    return replace(state, promise=strictest(known, terms))
