"""Sending models of many rounds and seeing their replies as they come, where no round waits for its own."""

import math
from collections.abc import Collection

from flwr.app import Message
from flwr.serverapp import Grid

from aoi_fl.flower.messages import SERVER_NODE
from aoi_fl.strategies.round.exchange import Exchange

_OURS = (0, SERVER_NODE)  # nodes of errors that the server's side makes


class OpenExchange(Exchange):
    """The models of many rounds and their replies, in the order of arrival.

    A reply counts only from the node that was sent the message, and once.

    Parameters
    ----------
    grid : connection to the nodes
    """

    elapsed = math.nan  # of which message?

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid, {}, math.inf, sequential=True, keep=math.inf)
        self._sent: dict[str, tuple[Message, float]] = {}  # with its deadline
        self._used, self._least, self._most_left = 0, 1.0, 0

    @property
    def messages(self) -> dict[int, Message]:
        """The messages at work, by client."""
        return {self._client_of[i]: self._sent[i][0] for i in self._pending}

    def add(self, messages: dict[int, Message], timeout: float, keep: float, packing: Collection[int]) -> None:
        """Send further messages, whose replies can be fetched ``keep`` seconds after their deadline."""
        sent = self._push(messages, timeout + keep, packing) if messages else {}
        end = self._clock.now() + timeout
        self._sent = {i: self._sent[i] for i in self._pending} | {i: (messages[c], end) for i, c in sent.items()}
        self._client_of = {i: self._client_of[i] for i in self._pending} | sent
        self._pending |= dict.fromkeys(sent)
        self._tell("hold", list(self._pending))

    def await_updates(self, least: float, most_left: int) -> None:
        """Begin a round, which is over after ``least`` usable updates.

        It is over after one where so many cannot arrive any more, once at most ``most_left`` clients are at work.
        """
        self._used, self._least, self._most_left = 0, least, most_left
        self._pending = dict.fromkeys(sorted(self._pending, key=self._clock.arrives))

    def counted(self) -> None:
        """Note a usable update."""
        self._used += 1

    def forget(self, clients: Collection[int]) -> None:
        """Give up the replies of clients."""
        gone = [i for i in self._pending if self._client_of[i] in clients]
        for message_id in gone:
            del self._pending[message_id]
            self._sizes.pop(message_id, None)
        if self._replies is not None:
            self._replies.forget(gone)
        if gone:
            self._tell("give_up", gone)

    def arrived(self, clients: Collection[int]) -> set[int]:
        """Return those of the clients whose replies have arrived, and keep these for the next look."""
        ids = [i for i in self._pending if self._client_of[i] in clients]
        if self._replies is not None:
            return {self._client_of[i] for i in self._replies.look(ids)}
        kept = self._read_early
        unread = set(ids) - {reply.metadata.reply_to_message_id for reply in kept}
        kept += self._pulled([[i] for i in ids if i in unread])
        return {self._client_of[i] for reply in kept if (i := reply.metadata.reply_to_message_id) in ids}

    def _free_overdue(self) -> None:
        now = self._clock.now()
        overdue = {self._client_of[i] for i in self._pending if self._sent[i][1] <= now}
        self.forget(overdue - self.arrived(overdue))

    @property
    def _is_over(self) -> bool:
        left = len(self._pending)
        short = self._used + left < self._least and left <= self._most_left
        return not left or self._used >= self._least or (self._used > 0 and short)

    @property
    def _next_deadline(self) -> float:
        return min(self._sent[i][1] for i in self._pending)

    def _is_awaited(self, reply: Message) -> bool:
        about = reply.metadata
        if about.reply_to_message_id not in self._pending:
            return False
        sent_to = self._sent[about.reply_to_message_id][0].metadata.dst_node_id
        return about.src_node_id == sent_to or (reply.has_error() and about.src_node_id in _OURS)
