"""Sending messages to clients and seeing their replies as they come, one at a time.

Flower's ``send_and_receive`` sleeps three seconds between looks and gathers all replies before it hands out the first.
Here the waits start short and back off, and at most one update is held at once.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile

from flwr.app import Message
from flwr.serverapp import Grid

from aoi_fl.flower.errors import MESSAGE_UNAVAILABLE
from aoi_fl.flower.grids import packs, uploads
from aoi_fl.flower.messages import in_error
from aoi_fl.flower.replies import UNREADABLE, Replies, batched, lost, send, size_of
from aoi_fl.protocol.clock import MACHINE, Clock, clock_of
from aoi_fl.protocol.packing import PackingError, packed, unpack

_FIRST_WAIT, _LONGEST_WAIT, _GROWTH = 0.005, 0.5, 1.6
GRACE = 30.0  # seconds, at most, that a message outlives its deadline
ANSWERS_KEPT = 30.0  # seconds that a late reply to a question can be fetched; what lives longer meets a resumed run
REST = 4.0  # times what a look took, until the next one: a SuperLink has other things to do


@dataclass
class Waits:
    """The pauses of a pull loop: short after a success, then longer and longer."""

    seconds: float = _FIRST_WAIT

    def pause(self, until: float, clock: Clock = MACHINE, message_ids: Collection[str] = (), count: int = 1) -> None:
        """Wait for replies as :meth:`Clock.wait` does, for the current wait, and lengthen the next one."""
        clock.wait(message_ids, count, self.seconds, until)
        self.seconds = min(self.seconds * _GROWTH, _LONGEST_WAIT)


class Exchange:
    """One batch of messages and its replies.

    Parameters
    ----------
    grid : connection to the nodes
    messages : the messages by client number; the order of the keys is the order of ``ordered`` replies, and of
        replies that arrive at the same time
    timeout : seconds until the deadline; a later reply is left to :meth:`ready`
    sequential : pull one reply at a time, so that one update is in memory at once; else all that are ready
    ordered : yield replies in the order of the messages
    keep : seconds after the deadline in which replies can be fetched; None: the timeout, at most half a minute
    settled : from the missing clients to the seconds that the server waits for them; None: until the deadline
    enough : updates after which the wait ends; None: all
    packing : nodes that read packed models
    last : clients that count as missing after all others; their ``ordered`` replies come last

    Attributes
    ----------
    missing : clients without an answer
    took : seconds until the last reply by the deadline; None: none
    """

    def __init__(
        self,
        grid: Grid,
        messages: dict[int, Message],
        timeout: float,
        *,
        sequential: bool,
        ordered: bool = False,
        keep: float | None = None,
        settled: Callable[[set[int]], float | None] = lambda missing: None,
        enough: int | None = None,
        last: Collection[int] = (),
        packing: Collection[int] = (),
    ) -> None:
        self._clock = clock_of(grid)
        self._grid = grid
        self._sizes: dict[str, int] = {}  # objects of each message
        self._replies: Replies | None = None  # of a grid whose replies are listed before they are fetched
        if batched(grid):
            self._replies = Replies(grid, large=sequential, sizes=self._sizes, is_late=self._is_late)
        self._read_early: list[Message] = []  # replies for the next look
        self._spent = 0.0  # seconds of the last look
        self._begun = self._clock.now()
        self._deadline = self._latest = self._begun + timeout
        self._last = frozenset(last)
        messages = dict(sorted(messages.items(), key=lambda sent: sent[0] in self._last))
        self.took: float | None = None
        self._one_by_one = sequential
        self._ordered = ordered and enough is None  # else the first replies count
        self._wanted = enough
        self._kept = keep is not None
        self._settled = settled
        # A SuperLink forgets a message and its reply when the message's time is up: what came by the deadline must
        # still be there to be fetched, above all the replies that wait for an earlier one which never comes.
        life = timeout + (min(timeout, GRACE) if keep is None else keep)
        self._forgotten = self._clock.now() + life
        self._client_of = self._push(messages, life, packing)
        self.missing: set[int] = set(messages)
        order = list(self._client_of) if enough is None else sorted(self._client_of, key=self._clock.arrives)
        self._pending = dict.fromkeys(order)  # quick to take from
        if enough is not None:
            self._tell("train_alone", order[enough:])

    def _push(self, messages: dict[int, Message], life: float, packing: Collection[int]) -> dict[str, int]:
        """Send messages that live so many seconds, and return the clients by the ids of those that were sent."""
        grid, everything = self._grid, list(messages.values())
        for message in everything:
            message.metadata.ttl = life
        with packed(everything, packing if packs(grid) else ()):
            far, large = uploads(grid), self._one_by_one
            pushed = send(grid, everything, large=large) if far else set(grid.push_messages(everything))
        if self._replies is not None:
            self._sizes |= {m.metadata.message_id: size_of(m.content) for m in everything if m.has_content()}
        return {m.metadata.message_id: c for c, m in messages.items() if m.metadata.message_id in pushed}

    def _is_late(self) -> bool:
        return self._clock.now() >= self._deadline

    @property
    def elapsed(self) -> float:
        """Seconds since the messages were sent."""
        return self._clock.now() - self._begun

    @property
    def open(self) -> bool:
        """Whether a reply may still arrive: a client is missing, and the messages have not expired.

        In simulated time no late reply is fetched, so it is never made.
        """
        simulated = self._clock.simulated is not None
        return bool(self._pending) and not simulated and self._clock.now() < self._forgotten

    @property
    def pending(self) -> set[int]:
        """Missing clients with a sent message; a grid may not take all messages."""
        return {self._client_of[message_id] for message_id in self._pending}

    @property
    def cut_short(self) -> bool:
        """Whether the wait for the missing clients ended before the given deadline."""
        return self._deadline < self._latest

    @property
    def overdue(self) -> bool:
        """Whether the given deadline has passed, even if the wait was shorter."""
        return self._clock.now() > self._latest

    def coming(self) -> set[int]:
        """Return the missing clients that would answer by the given deadline, as far as the clock knows."""
        return {self._client_of[i] for i in self._pending if self._clock.arrives(i) <= self._latest}

    def foretold(self) -> Iterator[Message]:
        """Yield late replies in advance, as far as the clock knows them."""
        yield from self._awaited_of(self._pulled([[i] for i in self._clock.foresee(list(self._pending))]))

    def stops(self) -> dict[int, float]:
        """Return the times at which the missing clients' devices stop, as far as the clock knows."""
        return {self._client_of[i]: self._clock.stops(i) for i in self._pending}

    def counted(self) -> None:
        """Note a usable update."""
        if self._wanted is not None:
            self._wanted -= 1

    @property
    def satisfied(self) -> bool:
        """Whether enough updates have arrived, which ends the wait for the missing clients."""
        return self._wanted is not None and self._wanted <= 0

    def client_of(self, reply: Message) -> int:
        """Return the client number of a reply, also of an error without a node."""
        return self._client_of[reply.metadata.reply_to_message_id]

    def __iter__(self) -> Iterator[Message]:
        """Yield replies until all have arrived or the deadline has passed; ``missing`` then has the other clients.

        With ``enough``, the caller notes usable replies by :meth:`counted`.
        """
        waits = Waits()
        while not self._is_over:
            patience = self._settled(self.missing)
            if patience is not None:  # the retry policy may give the missing clients less time
                self._deadline = min(self._deadline, self._clock.now() + patience)
            # In order, one late reply delays the next ones until the deadline; then all arrived ones count.
            last = self._clock.now() >= self._deadline
            before = len(self._pending)
            for reply in self.ready(wait=not last):
                self.took = max(self.took or 0.0, self._clock.came(reply) - self._begun)
                yield reply
                del reply
                if self._is_over:
                    break
            self._free_overdue()
            if last or self._is_over:
                break
            if len(self._pending) < before:
                waits = Waits()
            if len(self._pending) == before or self._spent:
                waits.seconds = max(waits.seconds, REST * self._spent)
                waits.pause(self._next_deadline, self._clock, *self._awaited())
        # Else a grid of this process waits for the others before it records what clients have done.
        self._tell("give_up", list(self._pending) if self.satisfied and not self._kept else [])

    def _tell(self, what: str, message_ids: list[str]) -> None:
        """Call a method of a grid of this process; other grids have none."""
        if (method := getattr(self._grid, what, None)) is not None:
            method(message_ids)

    @property
    def _is_over(self) -> bool:
        return not self._pending or self.satisfied

    @property
    def _next_deadline(self) -> float:
        return self._deadline

    def _free_overdue(self) -> None:
        """Give up replies that have a deadline of their own."""

    def ready(self, wait: bool = False) -> Iterator[Message]:
        """Yield the arrived replies; of ``ordered`` ones, with ``wait``, the next in turn."""
        found = self._pull(wait) if self._replies is None else self._look(self._replies, wait)
        yield from self._awaited_of(found)

    def _awaited_of(self, replies: Iterator[Message]) -> Iterator[Message]:
        """Yield the awaited ones of some replies, unpacked."""
        for reply in replies:
            if self._is_awaited(reply):  # else a second answer, or one without a question
                message_id = reply.metadata.reply_to_message_id
                del self._pending[message_id]
                self.missing.discard(self._client_of[message_id])
                reply = _unpacked(reply)
                yield reply
            del reply  # the next one is decoded when this one is gone

    def _is_awaited(self, reply: Message) -> bool:
        return reply.metadata.reply_to_message_id in self._pending

    def _pull(self, wait: bool) -> Iterator[Message]:
        """Yield arrived replies, one by one or all in one call."""
        while self._read_early:
            yield self._read_early.pop(0)
        turns = [[i] for i in self._pending] if self._one_by_one or uploads(self._grid) else [list(self._pending)]
        if self._ordered and wait:
            turns = [[next(iter(self._pending))]]
        yield from self._pulled(turns)

    def _pulled(self, turns: list[list[str]]) -> Iterator[Message]:
        """Yield the arrived replies to messages, in turns; over a network one that cannot be read is an error reply."""
        for message_ids in turns:
            try:
                yield from self._grid.pull_messages(message_ids)
            except UNREADABLE as error:
                if not uploads(self._grid):
                    raise
                reason = f"its reply cannot be read ({type(error).__name__}: {error})"
                yield lost(message_ids[0], self._grid.run.run_id, reason)

    def _look(self, replies: Replies, wait: bool) -> Iterator[Message]:
        """Yield arrived replies, after a few calls that list them."""
        begun, pending = self._clock.now(), list(self._pending)
        there = replies.look(pending)
        self._spent = self._clock.now() - begun
        if not (self._ordered and wait):
            yield from replies.fetch_all(there)
            return
        pairs = zip(pending, there, strict=False)
        for message_id, _ in takewhile(lambda pair: pair[0] == pair[1], pairs):
            reply = replies.fetch(message_id)
            if reply is None:
                return
            yield reply
            del reply  # the next one is decoded when this one is gone

    def _awaited(self) -> tuple[Collection[str], int]:
        """Return the awaited replies and their number, for a clock that knows their arrival."""
        others = [i for i in self._pending if self._client_of[i] not in self._last] if self._last else self._pending
        if self._ordered:  # one may as well wait for all of them
            return others or self._pending, len(others or self._pending)
        return self._pending, 1 if self._wanted is None or len(others) < len(self._pending) else self._wanted


def _unpacked(reply: Message) -> Message:
    """Return a reply with unpacked arrays, or an error in its place."""
    try:
        if reply.has_content():
            reply.content = unpack(reply.content)
        return reply
    except PackingError as error:
        return in_error(reply, MESSAGE_UNAVAILABLE, f"its packed arrays cannot be read: {error}")
