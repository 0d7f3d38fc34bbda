"""When a client looks for messages, sleeps, and sends heartbeats.

A client that has reserved a round (:mod:`aoi_fl.strategies.coordination`) need not look for messages until shortly
before it: with the question or the model comes how many seconds a round takes, at least, and it knows how many there
are in between. The SuperLink counts a node as connected for twice the heartbeat interval that it named last; a client
that goes to sleep names one that lasts until it is awake again.

A client that does not know when its next message comes looks often after the last one and less with the silence, but
never more often than a server of many clients has told it. Before it is told anything it looks as Flower's own does, or
less, by how long the SuperLink takes to answer a look; but one slow answer at most doubles its pause, since a SuperLink
that is busy with the first messages of many is idle soon after.

Nothing here reads a clock or sleeps: seconds come in and go out.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import uniform
from typing import Any

from aoi_fl.protocol import RESERVE, ParticipationReply, ParticipationRequest
from aoi_fl.science.errors import ConfigError

SHORTEST_LOOK = 0.5  # seconds, at least, between two looks for the SuperLink's next message
LONGEST_LOOK = 3.0  # seconds, at most, when it is awake; as Flower's own SuperNode
_SOON = 10.0  # seconds, at most, between two looks of a new client, which will be asked soon
SILENCE_SHARE = 0.05  # of the time since the last answer, which the next look for a message waits
NAP_SHARE = 0.005  # of a nap, which each look after it waits at least: so sure it is of when its round begins
EARLY = 0.001  # of the time until its round, by which a client wakes up before it: clocks drift
_REST = 50.0  # times the duration of a look, until the next one without other instructions
_LONGEST_REST = 60.0  # seconds, at most, until the next look of such a client, or of one awake long before its round
SHORTEST_NAP = 2 * LONGEST_LOOK  # seconds; for less it is not worth while

HEARTBEAT, LONGEST_HEARTBEAT = 30.0, 1800.0  # seconds: Flower's interval, and the longest that a SuperLink takes
_PATIENCE = 2.0  # intervals after which a SuperLink counts a node as gone
LONGEST_SILENCE = 0.8 * _PATIENCE * LONGEST_HEARTBEAT  # seconds, at most, between two heartbeats
_SPARE = 30.0  # seconds that it counts as connected after it has woken up, before it needs to say so

ASLEEP = inf  # between two looks of a client that sleeps
NAP_FILE = "AOI_NAP_FILE"  # the variable in which a SuperNode tells its ClientApp where to lay down when to look


@dataclass(frozen=True)
class NextMessage:
    """What is known of a client's next message.

    Attributes
    ----------
    nap : the seconds in which none can come; None: not known
    apart : those between two looks, at least, until then; infinite for a client that sleeps
    """

    nap: float | None
    apart: float

    @property
    def asleep(self) -> bool:
        """Whether the client does not look until then, but once between two heartbeats, for another run."""
        return self.apart == ASLEEP


class PollSchedule:
    """The looks of one client, by a clock in seconds that does not jump.

    Parameters
    ----------
    now : when it began to look
    """

    def __init__(self, now: float) -> None:
        self._heard = now
        self._told: NextMessage | None = None
        self._rest = 0.0  # what it has waited last, before it was told anything

    def answered(self, now: float, told: NextMessage | None = None) -> None:
        """Note that a message has been answered, and what is known of the next one; None: no more than before."""
        self._told = told or NextMessage(None, 0.0 if self._told is None or self._told.asleep else self._told.apart)
        self._heard = now + (self._told.nap or 0.0)

    def wait(self, now: float, took: float = 0.0) -> float:
        """Return the seconds until the next look: the rest of a nap, else little, and more with the silence.

        ``took`` are the seconds that the last look has taken.
        """
        if self._told is None:
            self._rest = max(LONGEST_LOOK, min(_LONGEST_REST, _REST * took, 2 * self._rest))
            return self._rest
        silent, nap, apart = now - self._heard, self._told.nap, self._told.apart
        if silent < 0:
            return min(-silent, max(LONGEST_LOOK, apart), LONGEST_SILENCE)  # another run may have a message
        soon = max(SHORTEST_LOOK, SILENCE_SHARE * silent)
        if nap is None:
            return max(min(LONGEST_LOOK, soon), apart)
        # Where rounds have become longer, many are awake too early, and their looks make rounds longer still.
        return min(_LONGEST_REST, max(soon, min(LONGEST_LOOK, NAP_SHARE * nap)))

    def heartbeat(self, now: float) -> tuple[float, float]:
        """Return the interval that a heartbeat is to name, and the seconds until the next one.

        A client that is awake names Flower's own, or twice the time between two looks where that is longer. Of a nap
        that is too long for one heartbeat, each but the last names the longest interval.
        """
        left = self._heard - now
        if self._told is None or left <= 0 or not self._told.asleep:
            apart = self._rest if self._told is None else 0.0 if self._told.asleep else self._told.apart
            interval = min(LONGEST_HEARTBEAT, max(HEARTBEAT, 2 * apart))
            return interval, (interval - 5.0) * uniform(0.7, 0.9)  # as Flower's own
        return lasting(left), min(left + _SPARE / 2, LONGEST_SILENCE)


def lasting(seconds: float) -> float:
    """Return the interval that the last heartbeat before a sleep is to name, which may be too short for all of it."""
    return min(LONGEST_HEARTBEAT, max(HEARTBEAT, (seconds + _SPARE) / _PATIENCE))


def foretold(
    ask: ParticipationRequest,
    answer: ParticipationReply | None,
    node: Mapping[str, Any],
    trained: bool = False,
    spent: float = 0.0,
) -> NextMessage:
    """Return what a client knows of its next message.

    Parameters
    ----------
    ask, answer : what it was asked, and what it said of its rounds, if anything
    node : its configuration; with ``sleep = true`` it may sleep
    trained : whether the answer came with an update; else, after a yes, the model follows at once
    spent : seconds of the round that have passed since it was asked, in training above all

    Raises
    ------
    ConfigError : ``sleep`` is neither true nor false.
    """
    may_sleep, apart = node.get("sleep", False), ask.looks or 0.0
    if not isinstance(may_sleep, bool):
        raise ConfigError("sleep", may_sleep, "true or false", "Set it in this client's node-config.")
    if answer is None:
        return NextMessage(None, min(apart, _SOON))
    if answer.takes_part and not trained:
        return NextMessage(None, 0.0)
    if ask.wire != RESERVE:
        return NextMessage(None, apart)
    if not ask.pace or answer.next_round is None or answer.next_round <= ask.round:
        # Its round may begin at any time, but not before those in between; of many clients few are so near theirs.
        coming = 1 if answer.next_round is None else max(1, answer.next_round - ask.round)
        return NextMessage(None, min(apart, LONGEST_LOOK * coming))
    nap = max(0.0, (1 - EARLY) * (answer.next_round - ask.round) * ask.pace - LONGEST_LOOK - spent)
    return NextMessage(nap, ASLEEP if may_sleep and nap >= SHORTEST_NAP else apart)


def lay_down(told: NextMessage, node: int) -> None:
    """Tell the SuperNode, which is another process, what is known, and its number; another than ours learns nothing."""
    if path := os.environ.get(NAP_FILE):
        until = None if told.nap is None else time.time() + told.nap
        Path(path).write_text(json.dumps([until, told.apart, node]), "utf-8")


def laid_down(path: Path) -> tuple[NextMessage, int] | None:
    """Return the message of :func:`lay_down`, once; None without one."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        until, apart, node = json.loads(path.read_text("utf-8"))
        path.unlink()
        nap = None if until is None else max(0.0, float(until) - time.time())
        if math.isfinite(nap or 0.0) and (told := float(apart)) >= 0 and type(node) is int:
            return NextMessage(nap, told), node
    return None
