"""Schedule of a client's polls for messages, its sleep and its heartbeats.

A client that has reserved a round (:mod:`aoi_fl.strategies.coordination`) need not poll until shortly before it. The
request names the shortest duration of a round and the time since this round's start, and the client knows the number of
rounds in between. The time that the request waited for the client's poll counts too: a client that polls seldom would
otherwise delay its next round. The SuperLink counts a node as connected for twice its last heartbeat interval. So a
client that goes to sleep names an interval that lasts until it wakes up.

A client without a known next message polls as often as the server's request allows. If the request has no limit, it
polls often after the last message, then less and less. Before the first request it polls as Flower's own client does.
It polls less if the SuperLink answers slowly. One slow answer at most doubles the pause, because a SuperLink that is
busy with many clients' first messages is idle soon after.

The functions neither read a clock nor sleep: they receive and return seconds.
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
from aoi_fl.protocol.files import read_regular

SHORTEST_LOOK = 0.5  # seconds, the shortest pause between two polls
LONGEST_LOOK = 3.0  # seconds, the longest pause of an awake client, as in Flower's own SuperNode
_NEAR = 1.0  # seconds between two looks for each round until a client's own, at most
_SOON = 10.0  # seconds, the longest pause of a new client, which the server asks soon
SILENCE_SHARE = 0.05  # share of the time since the last reply that the next pause lasts
NAP_SHARE = 0.005  # share of a nap that each pause after it lasts, at least
_MARGIN = 0.25  # share of the time until its round by which a client wakes up earlier, at most LONGEST_LOOK
_AFTER = 0.2  # seconds after the expected start of its round at which a client looks
EARLY = 0.001  # share of the time until its round by which a client wakes up earlier, because clocks drift
_REST = 50.0  # ratio of a pause to the duration of the last poll, before the first request
_SLOW = 20.0  # least ratio of a pause to the duration of the last poll, after the first request
_LONGEST_REST = 60.0  # seconds, the longest pause before the first request, or after an early end of a nap
_LONGEST_WAIT = 300.0  # seconds that a message may have waited; a larger difference is a wrong clock
_LONGEST_NOTE = 1000  # bytes of the file that the ClientApp writes
SHORTEST_NAP = 2 * LONGEST_LOOK  # seconds; a shorter nap saves too little

HEARTBEAT, LONGEST_HEARTBEAT = 30.0, 1800.0  # seconds: Flower's interval, and the longest that a SuperLink accepts
_PATIENCE = 2.0  # intervals after which a SuperLink counts a node as disconnected
LONGEST_SILENCE = 0.8 * _PATIENCE * LONGEST_HEARTBEAT  # seconds, the longest time between two heartbeats
_SPARE = 30.0  # seconds that a node stays connected after its nap without a heartbeat

ASLEEP = inf  # the pause of a sleeping client
NAP_FILE = "AOI_NAP_FILE"  # variable with the path of the file in which the ClientApp leaves its next message's time


@dataclass(frozen=True)
class NextMessage:
    """The expected time of a client's next message.

    Attributes
    ----------
    nap : seconds without a message; None: unknown
    apart : the shortest pause between two polls until then, in seconds; infinite for a client that sleeps
    """

    nap: float | None
    apart: float

    @property
    def asleep(self) -> bool:
        """Whether the client sleeps; it then polls once between two heartbeats, for another run."""
        return self.apart == ASLEEP


class PollSchedule:
    """The polls of one client, by a monotonic clock in seconds.

    Parameters
    ----------
    now : time of the start
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._next: NextMessage | None = None
        self._rest = 0.0  # the last pause

    def answered(self, now: float, following: NextMessage | None = None) -> None:
        """Note that a message was answered, and the expected time of the next one, if known."""
        self._next = following or NextMessage(
            None, 0.0 if self._next is None or self._next.asleep else self._next.apart
        )
        self._since, self._rest = now + (self._next.nap or 0.0), 0.0

    def wait(self, now: float, took: float = 0.0) -> float:
        """Return the seconds until the next poll: the rest of a nap, else a pause that grows.

        ``took`` is the duration of the last poll in seconds.
        """
        if self._next is None:
            self._rest = max(LONGEST_LOOK, min(_LONGEST_REST, _REST * took, 2 * self._rest))
            return self._rest
        silent, nap, apart = now - self._since, self._next.nap, self._next.apart
        if silent < 0:
            return min(-silent, max(LONGEST_LOOK, apart), LONGEST_SILENCE)  # another run may have a message
        soon = max(SHORTEST_LOOK, SILENCE_SHARE * silent)
        if nap is None:
            slow = min(_LONGEST_REST, _SLOW * took, 2 * self._rest)
            self._rest = max(SHORTEST_LOOK, apart, slow) if apart else min(LONGEST_LOOK, soon)
            return self._rest
        seldom = min(LONGEST_LOOK, NAP_SHARE * nap)
        if seldom >= LONGEST_LOOK / 2:  # a look just after the expected start, then some in quick succession
            until = _early(nap) + _AFTER - silent
            if until > 0:
                return min(LONGEST_LOOK, max(SHORTEST_LOOK, until))
            if until > -LONGEST_LOOK:
                return SHORTEST_LOOK
        # When rounds become longer, many clients wake too early, and their polls would slow rounds further.
        return min(_LONGEST_REST, max(soon, seldom))

    def heartbeat(self, now: float) -> tuple[float, float]:
        """Return the interval in the next heartbeat, and the seconds until the one after it.

        An awake client names Flower's interval, or twice its pause if that is longer. A nap that is too long for one
        heartbeat needs several; all but the last name the longest interval.
        """
        left = self._since - now
        if self._next is None or left <= 0 or not self._next.asleep:
            apart = self._rest if self._next is None else 0.0 if self._next.asleep else self._next.apart
            interval = min(LONGEST_HEARTBEAT, max(HEARTBEAT, 2 * apart))
            return interval, (interval - 5.0) * uniform(0.7, 0.9)  # as Flower does
        return lasting(left), min(left + _SPARE / 2, LONGEST_SILENCE)


def lasting(seconds: float) -> float:
    """Return the interval in the last heartbeat before a sleep, limited by the longest interval."""
    return min(LONGEST_HEARTBEAT, max(HEARTBEAT, (seconds + _SPARE) / _PATIENCE))


def foretold(
    ask: ParticipationRequest,
    answer: ParticipationReply | None,
    node: Mapping[str, Any],
    trained: bool = False,
    spent: float = 0.0,
) -> NextMessage:
    """Return the expected time of a client's next message.

    Parameters
    ----------
    ask, answer : the request, and the client's reply if it decided
    node : its configuration; with ``sleep = true`` it may sleep
    trained : whether the reply has an update; otherwise the model follows a yes at once
    spent : seconds since the request was sent, mostly of training
    """
    apart = ask.looks or 0.0
    if answer is None:
        return NextMessage(None, min(apart, _SOON))
    if answer.takes_part and not trained:
        return NextMessage(None, 0.0)
    if ask.wire != RESERVE:
        return NextMessage(None, apart)
    if not ask.pace or answer.next_round is None or answer.next_round <= ask.round:
        # Its round may begin at any time after the rounds in between; few clients are that near their round.
        coming = 1 if answer.next_round is None else max(1, answer.next_round - ask.round)
        return NextMessage(None, min(apart, _NEAR * coming))
    ahead = (answer.next_round - ask.round) * ask.pace - (ask.elapsed or 0.0)
    nap = max(0.0, ahead - _early(ahead) - spent)
    return NextMessage(nap, ASLEEP if node.get("sleep") is True and nap >= SHORTEST_NAP else apart)


def _early(ahead: float) -> float:
    """Return by how many seconds before a round a client wakes up that many seconds after the request."""
    return EARLY * ahead + min(LONGEST_LOOK, _MARGIN * ahead)


def waited(sent: float) -> float:
    """Return the seconds that a message has waited for this client's poll.

    ``sent`` is the sender's time, in seconds since the epoch. Its clock may differ from this client's, so the result is
    limited: a client with a wrong clock then wakes up some minutes early.
    """
    return min(max(0.0, time.time() - sent), _LONGEST_WAIT)


def lay_down(following: NextMessage, node: int) -> None:
    """Write the next message's time and the node's id for our SuperNode's process."""
    if path := os.environ.get(NAP_FILE):
        until = None if following.nap is None else time.time() + following.nap
        Path(path).write_text(json.dumps([until, following.apart, node]), "utf-8")


def laid_down(path: Path) -> tuple[NextMessage, int] | None:
    """Return and remove what :func:`lay_down` wrote; None if there is nothing."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        until, apart, node = json.loads(read_regular(path, _LONGEST_NOTE))
        path.unlink()
        nap = None if until is None else max(0.0, float(until) - time.time())
        if math.isfinite(nap or 0.0) and (pause := float(apart)) >= 0 and type(node) is int:
            return NextMessage(nap, pause), node
    return None
