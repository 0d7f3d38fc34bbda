"""A Flower ``Grid`` with its clients in this process: no start-up, no copies.

The unchanged Strategy pushes messages to :class:`LocalGrid`. The grid hands each message to the unchanged ClientApp
when its reply is pulled, so one update exists at a time. A client that raises replies with an error, as on any other
engine.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from aoi_fl.client.participation import ClientApp as AgeAwareApp
from aoi_fl.flower import messages as flower
from aoi_fl.flower.messages import RunValue, failure
from aoi_fl.protocol.own_code import error_and_place, is_stop


class LocalGrid(Grid):
    """A grid of nodes in this process.

    Parameters
    ----------
    client_app : the app of every client
    run_config : the flat run configuration that clients see
    nodes : number of clients; node i has ``partition-id`` i, as in Flower's simulation
    settle : called when every message has its reply, before the last reply is returned
    """

    def __init__(
        self,
        client_app: ClientApp,
        run_config: Mapping[str, RunValue],
        nodes: int,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = client_app
        self._run_config = dict(run_config)
        self._settle = settle
        self._run = flower.empty_run(secrets.randbits(63))
        first = secrets.randbits(62)
        self._contexts = {
            first + i: flower.context(
                self._run.run_id,
                first + i,
                self._run_config,
                {"partition-id": i, "num-partitions": nodes, "simulated": True},
            )
            for i in range(nodes)
        }
        self._waiting: dict[str, Message] = {}
        self._ids = map(str, itertools.count(1))
        # Replies made before they are pulled: by clients that trained as a group, or decline. None: train it alone.
        self._early: dict[str, Message | None] = {}
        self._alone: Collection[str] = ()
        self._held: Collection[str] = ()  # of rounds that are over

    def set_run(self, run: flower.Run) -> None:
        """Set the run that messages belong to."""
        self._run = run

    @property
    def run(self) -> flower.Run:
        """The run that messages belong to."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message; Flower keeps this method for old apps."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept messages and return their ids; nothing runs yet."""
        ids = []
        for message in messages:
            flower.send(message, next(self._ids), run_id=self._run.run_id)
            self._waiting[message.metadata.message_id] = message
            ids.append(message.metadata.message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Run the clients that the messages are for, and return their replies."""
        replies = []
        for i in message_ids:
            if i in self._waiting:
                self._train_together(i)
                message, early = self._waiting.pop(i), self._early.pop(i, None)
                replies.append(self._deliver(message) if early is None else early)
        if not any(map(self._has_come, self._waiting)):
            self._settle()
        return replies

    def train_alone(self, message_ids: Iterable[str]) -> None:
        """Train the clients of these messages one by one when they are fetched, not in a group."""
        self._alone = frozenset(message_ids)

    def hold(self, message_ids: Collection[str]) -> None:
        """Keep the messages of these ids, and no others, when later ones are sent; train their clients one by one."""
        self._held = self._alone = frozenset(message_ids)

    def give_up(self, message_ids: Iterable[str]) -> None:
        """Forget messages and write the clients' states."""
        for message_id in message_ids:
            self._waiting.pop(message_id, None)
            self._early.pop(message_id, None)
        self._settle()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Run the clients one after another until all have replied or the time is up."""
        end = None if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        for message_id in self.push_messages(messages):
            if end is None or time.monotonic() < end:
                replies.extend(self.pull_messages([message_id]))
        return replies

    def _has_come(self, message_id: str) -> bool:
        """Return whether a pull of a waiting message would return a reply now; here always."""
        return True

    def _sits_out(self, message: Message) -> bool:
        """Ask a client whether it declines a model, and keep the answer if it does."""
        context = self._contexts[message.metadata.dst_node_id]
        reply = self._app.sits_out(message, context) if isinstance(self._app, AgeAwareApp) else None
        if reply is not None:
            self._sign(reply)
            self._early[message.metadata.message_id] = reply
        return reply is not None

    def _train_together(self, message_id: str) -> None:
        """Train the client of a message together with the following ones, if the app supports it.

        The app sets the size of the group. A client without a reply in the group trains alone, in its turn.
        """
        first = self._waiting[message_id]
        if message_id in self._early or message_id in self._alone or not isinstance(self._app, AgeAwareApp):
            return
        most = self._app.at_once(first, self._contexts[first.metadata.dst_node_id])
        if most < 2:
            return
        kind = first.metadata.message_type
        after = (
            m
            for i, m in self._waiting.items()
            if i != message_id and m.metadata.message_type == kind and self._has_come(i)
            if i not in self._early and i not in self._alone
        )
        group = [first, *itertools.islice(after, most - 1)]
        handed = [self._hand_over(message) for message in group]
        replies = self._app.train_together(*zip(*handed, strict=True))
        for message, (_, context), reply in zip(group, handed, replies, strict=True):
            context.run_config = self._run_config
            if reply is not None and reply.metadata.reply_to_message_id != message.metadata.message_id:
                reply = None
            if reply is not None:
                reply = _apart(reply)
                self._sign(reply)
            self._early[message.metadata.message_id] = reply

    def _hand_over(self, message: Message) -> tuple[Message, Context]:
        """Return a client's own copy of a message, and its context."""
        context = self._contexts[message.metadata.dst_node_id]
        context.run_config = dict(self._run_config)  # a copy while the client works: a copy for each fills memory
        return _apart(message), context  # messages share their records

    def _deliver(self, message: Message) -> Message:
        handed, context = self._hand_over(message)
        try:
            reply = _apart(answer(self._app, handed, context))
        except BaseException as error:
            if is_stop(error):
                raise
            reply = failure(message, error_and_place(error))
        self._sign(reply)
        context.run_config = self._run_config
        return reply

    def _sign(self, reply: Message) -> None:
        flower.sign(reply, next(self._ids))


def _apart(message: Message) -> Message:
    """Return a message with copied records, so that sender and receiver can change theirs.

    Arrays are shared, because a record holds them as bytes.
    """
    if not message.has_content():
        return message
    content = message.content.copy()
    for key, record in message.content.items():
        content[key] = own = record.copy()
        if not isinstance(own, ArrayRecord):
            lists: Any = {name: list(value) for name, value in own.items() if isinstance(value, list)}
            own.update(lists)
    return flower.with_content(message, content)


def answer(app: ClientApp, message: Message, context: Context) -> Message:
    """Return a ClientApp's reply; the app's exceptions propagate."""
    reply = app(message, context)
    if not isinstance(reply, Message) or reply.metadata.reply_to_message_id != message.metadata.message_id:
        raise TypeError("the ClientApp returned something else than a reply to its message")
    return reply
