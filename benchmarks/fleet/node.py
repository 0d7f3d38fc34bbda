"""One virtual SuperNode: its loop of looks, its heartbeats, and a ClientApp that answers at once."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message

from aoi_fl import protocol
from aoi_fl.client.poll_schedule import HEARTBEAT, foretold
from aoi_fl.flower.messages import context
from aoi_fl.flower.virtual import Letter, Node
from aoi_fl.protocol import ParticipationReply, ParticipationRequest
from benchmarks.echo import client_app
from benchmarks.fleet.behaviour import Behaviour

_REFUSED = 5.0  # seconds until a node that was refused, as one that died is until its session ends, tries again


@dataclass
class Traffic:
    """What nodes and SuperLink have said to each other.

    Attributes
    ----------
    calls, bytes : by kind
    refused : attempts to connect that were
    failed : calls that were, messages that could not be fetched or answered among them
    sent : by round, the names of those whose update has been uploaded
    """

    calls: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    refused: int = 0
    failed: int = 0
    sent: dict[int, set[str]] = field(default_factory=dict)

    def count(self, kind: str, size: int) -> None:
        """Count an answered call."""
        self.calls[kind] += 1
        self.bytes += size


class VirtualNode:
    """A node that lives until it is told to stop.

    Parameters
    ----------
    number : its partition, from which its name follows
    channel, key : to the SuperLink, and its own
    behaviour : makes what says when it looks
    sleep : whether its owner lets it sleep
    folder : where states of clients would lie
    traffic : counted here
    run_configs : of runs that other nodes have read already
    stalls : whether it announces its updates, and never uploads them
    lingers : set when its training of the first round is done; None: at once
    """

    def __init__(
        self,
        number: int,
        channel: grpc.aio.Channel,
        key: ec.EllipticCurvePrivateKey,
        behaviour: Callable[[Random], Behaviour],
        sleep: bool,
        folder: Path,
        traffic: Traffic,
        run_configs: dict[int, dict[str, Any]],
        stalls: bool = False,
        lingers: asyncio.Event | None = None,
    ) -> None:
        self.name = f"client-{number}"
        self.active, self.asked = asyncio.Event(), asyncio.Event()
        self._node = Node(channel, key, traffic.count)
        self._random = Random(number)
        self._make_behaviour, self._behaviour = behaviour, behaviour(self._random)
        self._config = {"partition-id": number, "state-dir": str(folder), "seed": number, "sleep": sleep}
        self._traffic, self._run_configs, self._stalls = traffic, run_configs, stalls
        self._lingers = lingers
        self._known: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake, self._lay_down = asyncio.Event(), asyncio.Event()
        self._again = False

    def start(self) -> None:
        """Connect and work, from now on."""
        self._task = asyncio.create_task(self._live())

    def check(self) -> None:
        """Raise what has ended it, if anything has."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def stop(self) -> None:
        """End without a word, wherever it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.active.clear()

    def reconnect(self) -> None:
        """Leave and come back, as soon as the message at hand is answered."""
        self._again = True
        self.active.clear()
        self._wake.set()

    async def _live(self) -> None:
        """Connect, work until something breaks, and begin anew, as under a supervisor."""
        while True:
            await self._connect()
            beats = asyncio.create_task(self._beat())
            try:
                await self._work()
            except grpc.aio.AioRpcError:
                self._traffic.failed += 1
            finally:
                beats.cancel()

    async def _work(self) -> None:
        """Answer messages until this node is to leave and come back."""
        while not self._again:
            begun = time.monotonic()
            letter = await self._node.look()
            if letter is None:
                await self._pause(self._wake, self._behaviour.wait(time.monotonic() - begun))
            else:
                await self._answer(letter)
        self._again = False
        await self._node.deactivate()

    async def _connect(self) -> None:
        self.active.clear()
        self._behaviour = self._make_behaviour(self._random)
        while True:
            try:
                await self._node.activate(HEARTBEAT)
            except grpc.aio.AioRpcError:
                self._traffic.refused += 1
                await asyncio.sleep(_REFUSED)
            else:
                self.active.set()
                return

    async def _beat(self) -> None:
        while True:
            interval, wait = self._behaviour.heartbeat()
            try:
                await self._node.heartbeat(interval)
            except grpc.aio.AioRpcError:
                self._traffic.failed += 1
                wait = _REFUSED
            await self._pause(self._lay_down, wait)

    async def _answer(self, letter: Letter) -> None:
        run_id = letter.message.metadata.run_id
        try:
            if run_id not in self._known:
                known = run_id in self._run_configs
                config = await self._node.run_config(run_id, read=not known)
                self._run_configs.setdefault(run_id, config)
                self._known.add(run_id)
            message = await self._node.receive(letter)
            begun = time.perf_counter()
            about = context(run_id, message.metadata.dst_node_id, self._run_configs[run_id], self._config)
            reply = client_app(message, about)
            first = protocol.ARRAYS in reply.content and message.metadata.group_id == "1"
            if first and self._lingers is not None:
                await self._lingers.wait()
            upload = not (self._stalls and protocol.ARRAYS in reply.content)
            await self._node.send(reply, time.perf_counter() - begun, upload)
        except (grpc.aio.AioRpcError, LookupError):
            self._traffic.failed += 1  # the message has expired, or the run is over
        else:
            self._note(message, reply, upload)

    def _note(self, message: Message, reply: Message, uploaded: bool) -> None:
        if uploaded and protocol.ARRAYS in reply.content:
            round_ = int(message.content[protocol.AOI]["round"])
            self._traffic.sent.setdefault(round_, set()).add(self.name)
        kind, ask = message.metadata.message_type, ParticipationRequest.read(message.content[protocol.AOI])
        values = reply.content[protocol.AOI]
        said = ParticipationReply.read(values) if protocol.has_decided(values) else None
        told = foretold(ask, said, self._config, trained=kind == protocol.TRAIN)
        if said is not None:
            self.asked.set()
        self._behaviour.answered(told)
        if told.asleep:
            self._lay_down.set()

    @staticmethod
    async def _pause(event: asyncio.Event, seconds: float) -> None:
        waiting: Awaitable[bool] = event.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(waiting, seconds)
        event.clear()
