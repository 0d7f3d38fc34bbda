"""One virtual SuperNode: its polls, its heartbeats, and a ClientApp that replies at once."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import grpc

from aoi_fl import protocol
from aoi_fl.client.poll_schedule import HEARTBEAT, LONGEST_LOOK, PollSchedule, foretold, waited
from aoi_fl.flower.messages import context
from aoi_fl.lab.benchmarks.echo import client_app
from aoi_fl.lab.benchmarks.fleet.virtual import Node
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from aoi_fl.protocol.packing import unpack

_REFUSED = 5.0  # seconds until a refused node retries; a killed node is refused until its session ends


@dataclass
class Traffic:
    """The calls between nodes and SuperLink.

    Attributes
    ----------
    calls, bytes : numbers by kind
    failed : number of failed calls, with messages that could not be fetched or answered
    sent : by round, the names of clients with an uploaded update
    """

    calls: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    failed: int = 0
    sent: dict[int, set[str]] = field(default_factory=dict)

    def count(self, kind, size):
        """Count an answered call."""
        self.calls[kind] += 1
        self.bytes += size


class StockSchedule(PollSchedule):
    """The polls and heartbeats of Flower's own SuperNode: every three seconds, and every thirty."""

    def wait(self, now, took=0.0):
        """Return the seconds until the next poll."""
        return LONGEST_LOOK

    def answered(self, now, following=None):
        """Note that a message was answered: it changes nothing."""


class VirtualNode(Node):
    """A node that runs until :meth:`stop`.

    Parameters
    ----------
    number : its partition, which determines its name
    channel, key : connection to the SuperLink, and the node's key
    behaviour : "stock", "ours", or "asleep" if its owner allows sleep
    folder : folder of clients' states
    traffic : counter of its calls
    run_configs : configurations of runs that other nodes have read
    seconds : duration of each training
    """

    def __init__(
        self,
        number,
        channel,
        key,
        behaviour,
        folder,
        traffic,
        run_configs,
        seconds=0.0,
    ):
        super().__init__(channel, key, traffic.count)
        self.name = f"client-{number}"
        self.active, self.asked = asyncio.Event(), asyncio.Event()
        self._schedule_kind = StockSchedule if behaviour == "stock" else PollSchedule
        self._config = {"partition-id": number, "state-dir": str(folder), "seed": number}
        self._config["sleep"] = behaviour == "asleep"
        self._traffic, self._run_configs = traffic, run_configs
        self._seconds = seconds
        self._known = set()
        self._task = None
        self._wake, self._lay_down = asyncio.Event(), asyncio.Event()
        self._again = False

    def start(self):
        """Connect and start to work."""
        self._task = asyncio.create_task(self._live())

    def check(self):
        """Raise the error that has ended it, if any."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def stop(self):
        """End at once, without a message to the SuperLink."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.active.clear()

    def reconnect(self):
        """Disconnect and reconnect after the present message."""
        self._again = True
        self.active.clear()
        self._wake.set()

    async def _live(self):
        """Connect, work until an error, and start again, as under a supervisor."""
        while True:
            await self._connect()
            beats = asyncio.create_task(self._beat())
            try:
                await self._work()
            except grpc.aio.AioRpcError:
                self._traffic.failed += 1
            finally:
                beats.cancel()

    async def _work(self):
        """Answer messages until a reconnection is requested."""
        while not self._again:
            begun = time.monotonic()
            letter = await self.look()
            if letter is None:
                await self._pause(self._wake, self._schedule.wait(now := time.monotonic(), now - begun))
            else:
                await self._answer(letter)
        self._again = False
        await self.deactivate()

    async def _connect(self):
        self.active.clear()
        self._schedule = self._schedule_kind(time.monotonic())
        while True:
            try:
                await self.activate(HEARTBEAT)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(_REFUSED)
            else:
                self.active.set()
                return

    async def _beat(self):
        while True:
            interval, wait = self._schedule.heartbeat(time.monotonic())
            try:
                await self.heartbeat(interval)
            except grpc.aio.AioRpcError:
                self._traffic.failed += 1
                wait = _REFUSED
            await self._pause(self._lay_down, wait)

    async def _answer(self, letter):
        run_id = letter.message.metadata.run_id
        try:
            if run_id not in self._known:
                known = run_id in self._run_configs
                config = await self.run_config(run_id, read=not known)
                self._run_configs.setdefault(run_id, config)
                self._known.add(run_id)
            message = await self.receive(letter)
            begun = time.perf_counter()
            about = context(run_id, message.metadata.dst_node_id, self._run_configs[run_id], self._config)
            reply = client_app(message, about)
            answer = unpack(reply.content)
            updates = protocol.ARRAYS in answer
            await asyncio.sleep(self._seconds * updates)
            await self.send(reply, time.perf_counter() - begun)
        except (grpc.aio.AioRpcError, LookupError):
            self._traffic.failed += 1  # the message has expired, or the run has ended
        else:
            self._note(message, answer, updates)

    def _note(self, message, answer, updates):
        kind, ask = message.metadata.message_type, ParticipationRequest.read(unpack(message.content)[protocol.AOI])
        if updates:
            self._traffic.sent.setdefault(ask.round, set()).add(self.name)
        values = answer[protocol.AOI]
        said = ParticipationReply.read(values) if protocol.has_decided(values) else None
        spent = waited(message.metadata.created_at)
        told = foretold(ask, said, self._config, trained=kind == protocol.TRAIN, spent=spent)
        if said is not None:
            self.asked.set()
        self._schedule.answered(time.monotonic(), told)
        if told.asleep:
            self._lay_down.set()

    @staticmethod
    async def _pause(event, seconds):
        waiting = event.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(waiting, seconds)
        event.clear()
