"""A local grid in simulated time: a trace gives each client's availability and speed.

The roll call precedes the clock: every client has introduced itself when the run begins. From then on the grid lists
the available clients, as Flower's SuperLink lists nodes by their heartbeats. Where no client is available, time passes
until the next one is.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from flwr.app import Message
from flwr.clientapp import ClientApp

from aoi_fl import protocol
from aoi_fl.flower.messages import RunValue
from aoi_fl.lab.simulated_time.devices import DeviceTrace, Fates
from aoi_fl.lab.simulated_time.virtual_clock import VirtualClock
from aoi_fl.protocol import Introduction, coding
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import Foresight
from aoi_fl.science.types import Floats
from aoi_fl.server.engine.local import LocalGrid

_EVALUATION = 1 / 3  # of the work of training on as many examples: the backward pass is the rest


class ClockedGrid(LocalGrid):
    """A grid of nodes in this process that reply when their devices would.

    Parameters
    ----------
    client_app, run_config, nodes : as in :class:`aoi_fl.server.engine.local.LocalGrid`; ``run_config`` also
        sets the local epochs or steps, the batch size and the compression of updates
    trace : the devices, one for each node
    settle : as in LocalGrid

    Attributes
    ----------
    clock : the simulated time, which strategies use

    Raises
    ------
    ConfigError : no device is ever available.
    """

    def __init__(
        self,
        client_app: ClientApp,
        run_config: Mapping[str, RunValue],
        nodes: int,
        trace: DeviceTrace,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(client_app, run_config, nodes, settle)
        if not len(trace.availability.begins):
            raise ConfigError(
                "clock", None, "a trace in which devices are available", "Choose another trace with the run key clock."
            )
        self.clock = VirtualClock()
        self._trace = trace
        self._devices: DeviceTrace | None = None  # until the roll call is complete
        self._number = {node: number for number, node in enumerate(self._contexts)}
        self._enrolling = True
        self._examples = np.full(nodes, np.nan)
        self._epochs, self._steps, self._batch = (
            _positive(run_config, key) for key in ("local-epochs", "local-steps", "batch-size")
        )
        self._until = _positive(run_config, "until") or np.inf
        compression = str(run_config.get("compression", coding.NONE))
        self._coded = coding.code_type(compression, np.dtype(np.float32)).itemsize / 4  # bytes up for each byte down

    def get_node_ids(self) -> Iterable[int]:
        """Return the available nodes; before the run begins, all nodes."""
        everyone = list(self._contexts)
        if self._enrolling:
            return everyone
        here = self.clock.await_anybody(self._trace.availability, self._until)
        return [everyone[number] for number in np.flatnonzero(here)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept messages and compute when each is answered; drop the training of earlier rounds."""
        messages = list(messages)
        rounds = {message.metadata.group_id for message in messages}
        trainings = [i for i, m in self._waiting.items() if _trains(m) and i not in self._held]
        over = [i for i in trainings if self._waiting[i].metadata.group_id not in rounds]
        for message_id in (*self.clock.forget_expired(), *over):
            self._waiting.pop(message_id, None)
            self._early.pop(message_id, None)
        ids = list(super().push_messages(messages))
        self._enrolling = False
        sent = [self._waiting[i] for i in ids]
        for kind in dict.fromkeys(message.metadata.message_type for message in sent):
            self._depart(kind, [m for m in sent if m.metadata.message_type == kind])
        for lost in filter(lambda i: np.isinf(self.clock.arrives(i)), ids):
            del self._waiting[lost]
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Run the clients that have replied by now and return their replies."""
        answered_ids = [i for i in message_ids if i in self._waiting and self._has_come(i)]
        if not answered_ids:  # callers poll for single messages, many times
            return []
        replies = list(super().pull_messages(answered_ids))
        for reply in replies:
            if _greets(reply) and reply.has_content():
                self._note(reply)
        if any(map(_greets, replies)) and self._devices is None and not any(map(_greets, self._waiting.values())):
            self._begin()
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return the replies that arrive before the timeout, if there is one."""
        ids = list(self.push_messages(messages))
        coming = [i for i in ids if i in self._waiting]
        end = np.inf if timeout is None else self.clock.now() + timeout
        if awaited := coming if timeout is None else ids:
            self.clock.wait(awaited, len(awaited), 0.0, end)
        return self.pull_messages(coming)

    def _has_come(self, message_id: str) -> bool:
        return self.clock.has_come(message_id)

    def _depart(self, kind: str, messages: list[Message]) -> None:
        """Send messages of one kind, and tell the clock what becomes of them."""
        now = self.clock.now()
        if kind == protocol.HELLO:  # before the clock starts, or again after a break: answered at once
            at_once = np.full(len(messages), now)
            self.clock.depart(messages, Fates(at_once, at_once))
            return
        devices = self._devices or self._begin()
        clients = np.array([self._number[message.metadata.dst_node_id] for message in messages])
        if protocol.category(kind) == protocol.QUERY:
            self.clock.depart(messages, devices.fates(clients, now, devices.seconds(clients, 0.0)))
            return
        sizes = {id(message.content): _bytes(message) for message in messages}  # most messages share one content
        down = np.array([sizes[id(message.content)] for message in messages], dtype=np.float64)
        examples = self._examples[clients]
        if not _trains(messages[0]):
            seconds = devices.seconds(clients, _EVALUATION * examples, down)
        else:
            seconds = devices.seconds(clients, self._work(examples), down, down * self._coded)
            short = devices.seconds(clients, 0.0, down)
            reached = np.isfinite(devices.fates(clients, now, short).arrives)
            declines = [bool(hears) and self._sits_out(m) for m, hears in zip(messages, reached, strict=True)]
            seconds = np.where(declines, short, seconds)
            self.clock.model = float(down.max())
            self.clock.foresight = self._foreseen(devices)
        self.clock.depart(messages, devices.fates(clients, now, seconds))

    def _begin(self) -> DeviceTrace:
        """Make the devices, once the clients have reported their numbers of examples."""
        sizes = self._examples[np.isfinite(self._examples)]
        sizes = sizes if len(sizes) else np.ones(1)
        self._examples = np.where(np.isfinite(self._examples), self._examples, sizes.mean())
        self._devices = devices = self._trace.devices(float(self._work(sizes).mean()))
        self.clock.foresight = self._foreseen(devices)
        return devices

    def _foreseen(self, devices: DeviceTrace) -> Foresight:
        """Return the availability and speed of all devices, by the size of the last sent model."""
        coded, everyone = self.clock.model * self._coded, np.arange(len(self._examples))
        seconds = devices.seconds(everyone, self._work(self._examples), self.clock.model, coded)
        return Foresight(devices.availability.until, seconds, coded / devices.upload)

    def _work(self, examples: Floats) -> Floats:
        """Return the examples that clients process in one training, repeats included."""
        if not self._steps:
            return examples * (self._epochs or 1.0)
        if not self._batch:
            return np.full(len(examples), self._steps)
        passes, batches = np.divmod(self._steps, np.ceil(examples / self._batch))
        processed: Floats = passes * examples + np.minimum(batches * self._batch, examples)
        return processed

    def _note(self, reply: Message) -> None:
        """Note a client's number of examples, if its reply has one."""
        with contextlib.suppress(KeyError, ValueError):  # the server checks the reply
            record = reply.content.config_records[protocol.AOI]
            examples = Introduction.read(dict(record)).num_examples
            if examples is not None and examples > 0:
                self._examples[self._number[reply.metadata.src_node_id]] = examples


def _positive(run_config: Mapping[str, RunValue], key: str) -> float:
    """Return a positive number of any app's configuration, or 0 if the key has none."""
    value = run_config.get(key, 0)
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def _greets(message: Message) -> bool:
    return message.metadata.message_type == protocol.HELLO


def _trains(message: Message) -> bool:
    return protocol.category(message.metadata.message_type) == protocol.TRAIN


def _bytes(message: Message) -> int:
    return sum(len(array.data) for record in message.content.array_records.values() for array in record.values())
