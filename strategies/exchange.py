"""Sending messages to clients and seeing their replies as they come, one at a time.

Flower's ``send_and_receive`` sleeps three seconds between looks and gathers all replies before it hands out the first.
Here the waits start short and back off, and at most one update is held at once.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from aoi_fl.flower.grids import uploads
from aoi_fl.flower.replies import SENT_AT_ONCE, Replies, batched
from aoi_fl.strategies.clock import MACHINE, Clock, clock_of

_FIRST_WAIT, _LONGEST_WAIT, _GROWTH = 0.005, 0.5, 1.6
_GRACE = 30.0  # seconds, at most, that a message outlives its deadline
ANSWERS_KEPT = 30.0  # seconds that a late reply to a question can be fetched; what lives longer meets a resumed run
_REST = 4.0  # times what a look took, until the next one: a SuperLink has other things to do
_PATIENCE = 2.0  # seconds that the others wait for one upload


@dataclass
class Waits:
    """The pauses of a pull loop: short after a success, then longer and longer."""

    seconds: float = _FIRST_WAIT

    def pause(self, until: float, clock: Clock = MACHINE, message_ids: Collection[str] = (), count: int = 1) -> None:
        """Wait for replies as :meth:`Clock.wait` does, for the current wait, and lengthen the next one."""
        clock.wait(message_ids, count, self.seconds, until)
        self.seconds = min(self.seconds * _GROWTH, _LONGEST_WAIT)

    def reset(self) -> None:
        """Begin again with the shortest wait."""
        self.seconds = _FIRST_WAIT


class _Pull(threading.Thread):
    """The pull of one reply, in the background."""

    def __init__(self, grid: Grid, message_id: str) -> None:
        super().__init__(daemon=True)  # the process may end before it does
        self._grid, self.message_id = grid, message_id
        self.replies: list[Message] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.replies = list(self._grid.pull_messages([self.message_id]))
        except Exception as error:
            self.error = error


class Uploads:
    """Pulls replies one by one, and waits but a moment for one that is still being uploaded.

    Flower's SuperLink hands a reply out as soon as a client announces it, and ``pull_messages`` then waits for its
    arrays: three minutes for a client that died meanwhile, hours for one that sends a little now and then. Here such a
    pull goes on in the background, where it may hold an update of its own, and a later call hands its reply out.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._slow: dict[str, _Pull] = {}

    def pull_messages(self, message_ids: Iterable[str]) -> Iterator[Message]:
        """Yield those of the replies to these messages that are there; what a pull raised is raised."""
        for message_id in message_ids:
            pull = self._slow.pop(message_id, None)
            if pull is None:
                pull = _Pull(self._grid, message_id)
                pull.start()
                pull.join(_PATIENCE)
            if pull.is_alive():
                self._slow[message_id] = pull
            elif pull.error is not None:
                raise pull.error
            else:
                yield from pull.replies


class Exchange:
    """One batch of messages under way.

    Parameters
    ----------
    grid : where to send them
    messages : the messages by client number; the order of the keys is the order of ``ordered`` replies
    timeout : seconds until the deadline; a reply that comes later is left to :meth:`ready`
    one_by_one : pull one reply at a time, so that one update is in memory at once; else all that are ready
    ordered : hand replies out in the order of the messages, each waiting its turn
    keep : seconds after the deadline in which replies can still be fetched; None: as long again, at most half a minute
    settled : told who has not answered yet, says how many seconds they are worth waiting for; None: until the deadline
    enough : how many updates are wanted; when they have come, nobody is waited for any more. None: all
    """

    def __init__(
        self,
        grid: Grid,
        messages: dict[int, Message],
        timeout: float,
        *,
        one_by_one: bool,
        ordered: bool = False,
        keep: float | None = None,
        settled: Callable[[set[int]], float | None] = lambda missing: None,
        enough: int | None = None,
    ) -> None:
        self._clock = clock_of(grid)
        self._replies: Replies | Uploads | Grid = grid
        if uploads(grid):
            self._replies = Replies(grid) if batched(grid) else Uploads(grid)
        self._spent = 0.0  # seconds that the last look took
        self._deadline = self._clock.now() + timeout
        self._one_by_one = one_by_one
        self._ordered = ordered and enough is None  # else the first that come are wanted
        self._wanted = enough
        self._settled = settled
        # A SuperLink forgets a message and its reply when the message's time is up: what came by the deadline must
        # still be there to be fetched, above all the replies that wait for an earlier one which never comes.
        life = timeout + (min(timeout, _GRACE) if keep is None else keep)
        self._forgotten = self._clock.now() + life
        for message in messages.values():
            message.metadata.ttl = life
        pushed: set[str] = set()
        waiting = iter(messages.values())
        # The first are on their way while the next are pushed.
        while some := list(islice(waiting, SENT_AT_ONCE if uploads(grid) else None)):
            pushed.update(grid.push_messages(some))
        self._client_of = {m.metadata.message_id: c for c, m in messages.items() if m.metadata.message_id in pushed}
        self.missing: set[int] = set(messages)
        self._pending = dict.fromkeys(self._client_of)  # in order, and quick to take from

    @property
    def open(self) -> bool:
        """Whether a reply may still come: somebody is missing, and the messages have not expired."""
        return bool(self._pending) and self._clock.now() < self._forgotten

    @property
    def satisfied(self) -> bool:
        """Whether as many updates have come as were wanted, so that whoever is missing was not waited for."""
        return self._wanted is not None and self._wanted <= 0

    def client_of(self, reply: Message) -> int | None:
        """Return the number of the client that a reply comes from, also for an error that names no node."""
        return self._client_of.get(reply.metadata.reply_to_message_id)

    def __iter__(self) -> Iterator[Message]:
        """Yield replies until all have come or the deadline has passed; ``missing`` then holds who sent none."""
        waits = Waits()
        while self._pending:
            self._shorten()
            # In order, one late reply holds up those behind it until the deadline; then all that are there count.
            last = self._clock.now() >= self._deadline
            before = len(self._pending)
            for reply in self.ready(wait=not last):
                if self._wanted is not None and _is_update(reply):
                    self._wanted -= 1
                yield reply
                del reply
                if self.satisfied:
                    return
            if last:
                return
            if len(self._pending) < before:
                waits.reset()
            if len(self._pending) == before or self._spent:
                # In order, a clock that knows when replies come may as well wait for all of them.
                count = len(self._pending) if self._ordered else 1 if self._wanted is None else self._wanted
                waits.seconds = max(waits.seconds, _REST * self._spent)
                waits.pause(self._deadline, self._clock, self._pending, count)

    def ready(self, wait: bool = False) -> Iterator[Message]:
        """Yield the replies that are there now; of ``ordered`` ones, with ``wait``, the next in turn."""
        found = self._replies
        for reply in self._look(found, wait) if isinstance(found, Replies) else self._pull(found, wait):
            del self._pending[reply.metadata.reply_to_message_id]
            self.missing.discard(self._client_of[reply.metadata.reply_to_message_id])
            yield reply
            del reply  # the next one is decoded when this one is gone

    def _pull(self, replies: Uploads | Grid, wait: bool) -> Iterator[Message]:
        """Yield what is there, asked for one by one or all in one call."""
        for ids in self._turns(wait):
            yield from replies.pull_messages(ids)

    def _look(self, replies: Replies, wait: bool) -> Iterator[Message]:
        """Yield what is there, after few calls that say what that is."""
        begun, pending = self._clock.now(), list(self._pending)
        there = replies.look(pending)
        self._spent = self._clock.now() - begun
        in_turn = self._ordered and wait
        for message_id in (i for i, j in takewhile(_same, zip(pending, there, strict=False))) if in_turn else there:
            reply = replies.fetch(message_id)
            if reply is not None:
                yield reply
                del reply  # the next one is decoded when this one is gone
            elif in_turn:
                return

    def _shorten(self) -> None:
        """Bring the deadline forward where those who are missing are not worth waiting for until then."""
        patience = self._settled(self.missing)
        if patience is not None:
            self._deadline = min(self._deadline, self._clock.now() + patience)

    def _turns(self, wait: bool) -> list[list[str]]:
        if self._ordered and wait:
            return [[next(iter(self._pending))]]
        return [[i] for i in self._pending] if self._one_by_one else [list(self._pending)]


def _is_update(reply: Message) -> bool:
    """Tell whether a client has trained: it may have failed, or declined, which it says without arrays.

    Flower's ``array_records`` would tie the update into a cycle, and keep it until garbage is collected.
    """
    return not reply.has_error() and any(isinstance(record, ArrayRecord) for record in reply.content.values())


def _same(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]
