"""Messages to chosen clients, and whose their replies are, whoever sends them."""

from collections.abc import Callable, Iterable, Mapping

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from aoi_fl.strategies.exchange import Exchange
from aoi_fl.strategies.roster import Roster
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Ask


class Dispatch:
    """The messages of one step of a round, training or evaluation: made, perhaps sent, and their replies told apart."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._sent: dict[int, Message] = {}

    def message_id(self, client: int) -> str:
        """Return the number of the message that a client was sent."""
        return self._sent[client].metadata.message_id

    @property
    def count(self) -> int:
        """How many clients are written to."""
        return len(self._sent)

    def messages(self, kind: str, contents: Mapping[int, RecordDict], terms: Mapping[int, Ask]) -> list[Message]:
        """Return the messages to nodes, each with our own record; those of equal content share it.

        Parameters
        ----------
        kind : the messages' type
        contents : what goes to each node, but for our record; a node without is sent nothing
        terms : by node
        """
        shared: dict[tuple[int, Ask], RecordDict] = {}
        messages = []
        for node in (node for node in terms if node in contents):
            key = id(contents[node]), terms[node]
            if key not in shared:
                shared[key] = RecordDict({**contents[node], protocol.AOI: ConfigRecord(terms[node].write())})
            messages.append(Message(shared[key], node, kind, group_id=str(terms[node].round)))
        self._sent = self._by_client(messages)
        return messages

    def send(
        self,
        grid: Grid,
        messages: Iterable[Message],
        timeout: float,
        *,
        one_by_one: bool,
        ordered: bool,
        enough: int | None = None,
    ) -> Exchange:
        """Send messages, ours or those that a subclass has made of them."""
        self._sent = self._by_client(messages)
        return Exchange(grid, self._sent, timeout, one_by_one=one_by_one, ordered=ordered, enough=enough)

    def take(self, replies: Iterable[Message], take: Callable[[int, Message], None]) -> list[int]:
        """Hand on each reply with its client's number; return the clients that were written to and sent none."""
        client_of = {message.metadata.message_id: client for client, message in self._sent.items()}
        silent = set(self._sent)
        for reply in replies:
            client = client_of.get(reply.metadata.reply_to_message_id)
            if client is None:  # whoever plays the rounds has sent messages of its own making
                client = self._roster.number(reply.metadata.src_node_id)
            if client in silent:
                silent.discard(client)
                take(client, reply)
            del reply  # else it stays while the next one is decoded
        return sorted(silent)

    def _by_client(self, messages: Iterable[Message]) -> dict[int, Message]:
        known = ((self._roster.number(message.metadata.dst_node_id), message) for message in messages)
        return {client: message for client, message in known if client is not None}
