"""Messages to selected clients, and the clients of their replies, for our loop and others."""

from collections.abc import Callable, Collection, Iterable, Mapping

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from aoi_fl import protocol
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.clock import FIRST, clock_of
from aoi_fl.protocol.records import SURPLUS
from aoi_fl.science import draws
from aoi_fl.strategies.aggregation.base import Draft
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.round.open_exchange import OpenExchange
from aoi_fl.strategies.round.retry import EVALUATION, TRAINING
from aoi_fl.strategies.round.run import Run


class Dispatch:
    """The messages of one step of a round, training or evaluation, and their replies by client."""

    def __init__(self, run: Run) -> None:
        self._run, self._roster = run, run.roster
        self._sent: dict[int, Message] = {}
        self._new = 0  # of these, not sent in an earlier round
        self._kind = TRAINING
        self._excused: set[int] = set()
        self._exchange: Exchange  # of these messages, once they are sent

    def message_id(self, client: int) -> str:
        """Return the id of a client's message."""
        return self._sent[client].metadata.message_id

    @property
    def why_missing(self) -> str:
        """Why clients sent no reply, once the replies of the others are taken."""
        if not (self._exchange.satisfied or self._exchange.cut_short):
            return "no reply by the deadline"
        return SURPLUS if self._exchange.satisfied else "no reply, like the last time, so it was not waited for as long"

    def begin(self, kind: str, asleep: Iterable[int] = ()) -> None:
        """Begin a step, training or evaluation; sleeping clients do not count as silent."""
        self._kind, self._excused = TRAINING if kind == protocol.TRAIN else EVALUATION, set(asleep)

    @staticmethod
    def write(drafts: Mapping[int, Draft], terms: Mapping[int, ParticipationRequest]) -> list[Message]:
        """Return the messages to nodes, each with our own record; equal contents share it.

        Parameters
        ----------
        drafts : content for each node, without our record; a node without a draft gets no message
        terms : our record for each node
        """
        shared: dict[tuple[int, ParticipationRequest], RecordDict] = {}
        messages = []
        for node in (node for node in terms if node in drafts):
            content, own = drafts[node].content, terms[node]
            if (key := (id(content), own)) not in shared:
                # A strategy may go on changing its configuration while a message still waits for its client.
                kept = {k: v.copy() if isinstance(v, ConfigRecord) else v for k, v in content.items()}
                shared[key] = RecordDict({**kept, protocol.AOI: ConfigRecord(own.write())})
            messages.append(Message(shared[key], node, drafts[node].kind, group_id=str(own.round)))
        return messages

    def send(self, grid: Grid, messages: Iterable[Message], timeout: float, *, sequential: bool) -> Exchange:
        """Send messages, ours or those of a subclass.

        Parameters
        ----------
        grid, messages : connection to the nodes, and the messages
        timeout : seconds until the deadline
        sequential : read one reply at a time, as updates are; these may be late, or enough before all have arrived
        """
        options, patience = self._run.options, self._roster.patience
        ordered = sequential and options.deterministic
        enough, late = (options.enough, options.late_rounds) if sequential else (None, 0)
        keep = late * timeout if late else None  # a round takes no longer, except for its question
        self._sent = self.by_client(messages)
        self._new = len(self._sent)
        if sequential and options.buffer:
            self._exchange = exchange = self._run.send(grid, self._sent, timeout)
            self._sent = exchange.messages | self._sent
            return exchange
        if enough is not None:  # the order of clients that answer at the same time
            lots = draws.uniforms(options.seed, self._run.round.number, FIRST, len(self._roster))
            self._sent = {client: self._sent[client] for client in sorted(self._sent, key=lots.__getitem__)}
        self._exchange = Exchange(
            grid,
            self._sent,
            timeout,
            sequential=sequential,
            ordered=ordered,
            enough=enough,
            settled=patience.worth(
                self._kind,
                self._sent,
                clock_of(grid),
                others=self._roster.others_answer,
                strangers=self._roster.strangers(self._sent),
            ),
            last=patience.doubtful(self._kind),
            keep=keep,
            packing=self._roster.packing,
        )
        return self._exchange

    def take(
        self,
        replies: Iterable[Message],
        take: Callable[[int, Message], bool],
        keep: Callable[[Exchange, set[int]], Collection[int]] = lambda exchange, silent: (),
    ) -> list[int]:
        """Pass on each reply of a round with its client's number; return the clients without a reply.

        ``take`` returns whether a reply counts under over-selection. ``keep`` receives the exchange and the clients
        without a reply; it returns those that work on.
        """
        self._run.round.recorder.exchanged(self._new)
        client_of = {message.metadata.message_id: client for client, message in self._sent.items()}
        silent = set(self._sent)
        for reply in replies:
            client = client_of.get(reply.metadata.reply_to_message_id)
            if client in silent:
                silent.discard(client)
                self._roster.patience.answered(self._kind, client, self._exchange.elapsed)
                if take(client, reply):
                    self._exchange.counted()
            del reply  # else it stays while the next one is decoded
        working = set(keep(self._exchange, silent))
        silent -= working
        # A surplus client might still have answered by the deadline.
        mute = set() if self.why_missing == SURPLUS else silent - self._excused
        exchange = None if isinstance(self._exchange, OpenExchange) else self._exchange
        self._roster.patience.ended(self._kind, mute, self._run.round.number, exchange, elsewhere=bool(working))
        return sorted(silent)

    def by_client(self, messages: Iterable[Message]) -> dict[int, Message]:
        """Return messages by the clients that they go to."""
        known = ((self._roster.number(message.metadata.dst_node_id), message) for message in messages)
        return {client: message for client, message in known if client is not None}
