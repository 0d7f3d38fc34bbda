"""A grid whose clients train and evaluate in workers, and answer queries in this process."""

import time
from collections.abc import Callable, Iterable, Mapping

from flwr.app import Message
from flwr.clientapp import ClientApp

from aoi_fl import protocol
from aoi_fl.flower.messages import RunValue, failure
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.engine.worker_pool import Outcome, Workers


class WorkerGrid(LocalGrid):
    """A grid of nodes that answer queries in this process, and train and evaluate in workers.

    Parameters
    ----------
    client_app, run_config, nodes, settle : as in :class:`aoi_fl.server.engine.local.LocalGrid`
    workers : the processes that run ``client_app``
    """

    def __init__(
        self,
        client_app: ClientApp,
        run_config: Mapping[str, RunValue],
        nodes: int,
        settle: Callable[[], None],
        workers: Workers,
    ) -> None:
        super().__init__(client_app, run_config, nodes, settle)
        self._workers = workers
        self._sent: dict[str, tuple[Message, float]] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept messages and return their ids; all but queries go to the workers at once."""
        for late in [i for i, (_, expires) in self._sent.items() if expires <= time.monotonic()]:
            del self._sent[late]
            self._workers.forget(late)
        ids = list(super().push_messages(messages))
        self._settle()  # a worker reads what this process wrote
        for message_id in ids:
            message = self._waiting[message_id]
            if protocol.category(message.metadata.message_type) != protocol.QUERY:
                del self._waiting[message_id]
                expires = time.monotonic() + message.metadata.ttl
                self._sent[message_id] = (message, expires)
                self._workers.submit(message, self._contexts[message.metadata.dst_node_id], expires)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have arrived."""
        ids = list(message_ids)
        replies = list(super().pull_messages(i for i in ids if i in self._waiting)) if self._waiting else []
        now = time.monotonic()  # a client whose message has expired is late
        if sent := {i: self._sent[i][1] for i in ids if i in self._sent and self._sent[i][1] > now}:
            until = min(sent.values())
            replies += [self._accept(i, outcome) for i, outcome in self._workers.take(sent, until).items()]
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return all replies, or those that arrived before the timeout."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        pending = set(self.push_messages(messages))
        replies: list[Message] = []
        while pending := pending & (self._sent.keys() | self._waiting.keys()):
            replies += self.pull_messages(pending)
            if time.monotonic() >= end:
                break
        return replies

    def _accept(self, message_id: str, outcome: Outcome) -> Message:
        message, _ = self._sent.pop(message_id)
        if isinstance(outcome, str):
            reply = failure(message, outcome)
        else:
            reply, self._contexts[message.metadata.dst_node_id].state = outcome
        self._sign(reply)
        return reply
