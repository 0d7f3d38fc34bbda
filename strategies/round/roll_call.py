"""The roll call: the server waits for clients, and at the start of each round new nodes introduce themselves."""

import math
import statistics
import time
from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from flwr.app import ConfigRecord, Message, RecordDict

from aoi_fl import protocol
from aoi_fl.flower.errors import FORMER_APP, NO_HELLO, NODE_UNAVAILABLE
from aoi_fl.flower.grids import registered_names, uploads
from aoi_fl.protocol import (
    LEAST,
    MAX_AGE,
    MAX_EXAMPLES,
    MAX_NAME,
    MOST,
    Introduction,
    ParticipationReply,
    ParticipationRequest,
    is_name,
)
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import ClientRecord, Nodes
from aoi_fl.science.errors import NodesError
from aoi_fl.strategies.round.exchange import ANSWERS_KEPT, Exchange, Waits
from aoi_fl.strategies.round.retry import QUESTION, Backoff
from aoi_fl.strategies.round.shared import Shared
from aoi_fl.strategies.validation import Refused, read_record

_PLAIN_APP = "its ClientApp is Flower's own: `from aoi_fl.client import ClientApp`, or wrap it, `attach(app)`"
_REPEATED_ROLLS = 2  # at most, before the first round, so that a dying client does not delay the others
_REMEMBERED = 5  # calls to the SuperLink
_STRANGER = 5.0  # seconds that a round waits for new nodes, if it has enough clients without them

# The numbers of an introduction, from least to most.
_RANGES = {
    "number": (0, math.inf),
    "num_examples": (1, MAX_EXAMPLES),
    "data_age": (0, MAX_AGE),
    "payment": (LEAST, MOST),
    "sensitivity": (LEAST, MOST),
}

# A node, its introduction, and its decision if the message asked for one.
_Reply: TypeAlias = tuple[int, Introduction, ParticipationReply | None]


class RollCall:
    """Waits for clients and asks unknown nodes for their names; refuses a node with the name of a connected client.

    Parameters
    ----------
    run : the run, whose roster is kept up to date

    Attributes
    ----------
    gone : dead nodes of the last roll call; Flower lists them for a minute
    outside : nodes of clients that the run does not name
    nodes : nodes of the last roll call
    """

    def __init__(self, run: Shared) -> None:
        self._run, self._roster, self._options = run, run.roster, run.options
        self.gone = set[int]()
        self.outside = set[int]()
        self.nodes = Nodes(0)
        self._mute = Backoff()  # nodes that have not introduced themselves
        self._unheard = 0  # roll calls of late with a new node that did not answer: each halves the wait for the next
        self._late: list[Exchange] = []  # roll calls with missing answers
        self._complaints: dict[int, str] = {}
        self._latencies: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def latency(self) -> float | None:
        """Median seconds of the last calls that asked for no reply; None without a SuperLink."""
        return statistics.median(self._latencies) if self._latencies else None

    def await_clients(self) -> None:
        """Wait for the clients that the run needs; a resumed run continues with fewer.

        Raises
        ------
        NodesError
            A new run has too few clients.
        """
        found, needs = self._connected(self._run.needs), self._run.needs
        if found < needs and self._run.first == 1:
            raise NodesError(
                f"{found} clients are connected after {self._options.join_timeout:g} s (join-timeout), the run "
                f"needs {needs}. In simulation, start it with\n  flwr run . --federation-config "
                f"'num-supernodes={needs} client-resources-num-cpus=1'\nand in a deployment start more "
                "clients, or ask for fewer (num-clients, clients-per-round, min-clients)."
            )

    def begin_round(self, ask: ParticipationRequest) -> tuple[list[ClientRecord], float]:
        """Call the roll of a round; return the new clients, and the seconds of waiting after the first call.

        If a node is dead before the first round, the server waits for another and calls the roll again.

        Raises
        ------
        NodesError
            No connected node can join a new run, or none answers.
        """
        self._connected(1)  # without clients, rounds must not rush by empty
        fresh = self.call(ask)
        begun = time.monotonic()
        if ask.round == self._run.first:
            others = self._roster.available.any() or self.gone or self._mute.silent
            if self._run.first == 1 and self._complaints and not others:
                why = next(iter(self._complaints.values()))
                raise NodesError(f"{len(self._turned_away)} node(s) are connected, and none can join: {why}")
            needs = self._run.needs
            for _ in range(_REPEATED_ROLLS):
                if not (self.gone or self.outside) or self._roster.available.sum() >= needs:
                    break
                self.await_clients()
                fresh += self.call(ask)
            found = int(self._roster.available.sum())
            if ask.round == 1 and not found:
                raise NodesError(
                    f"{self.nodes.connected} clients are connected, and none has answered for "
                    f"{self._options.join_timeout + self._options.ask_timeout:g} s (join-timeout and ask-timeout). A "
                    "simulation's Ray may be slow or dead: start the run again, raise join-timeout, or play it without "
                    "Ray by aoi play. Clients of a deployment name their reasons in their logs."
                )
            if found < needs:
                logger.warning("Round %d begins with %d of %d clients.", ask.round, found, needs)
        return fresh, time.monotonic() - begun

    @property
    def _turned_away(self) -> set[int]:
        """The connected nodes without a valid introduction, or of clients that the run does not name."""
        return self._complaints.keys() | self.outside | self._mute.silent

    def _connected(self, wanted: int) -> int:
        """Wait until ``wanted`` clients are connected or the join deadline has passed; return how many are.

        Refused nodes do not count.
        """
        deadline, turned_away = time.monotonic() + self._options.join_timeout, self._turned_away
        waits = Waits()
        while (found := len(self._nodes() - turned_away)) < wanted and time.monotonic() < deadline:
            waits.pause(deadline)
        return found

    def _nodes(self) -> set[int]:
        grid = self._run.grid
        nodes = set(grid.get_node_ids())
        if uploads(grid):
            begun = time.perf_counter()
            list(grid.pull_messages([]))  # to list nodes takes longer with each node
            self._latencies.append(time.perf_counter() - begun)
        return nodes

    def call(self, ask: ParticipationRequest) -> list[ClientRecord]:
        """Read late answers, note the connected nodes, and ask new nodes to introduce themselves; return new clients.

        The server asks a node without an answer again after 1, 2, 4, … rounds. It does not wait for it again; a late
        answer counts in the next roll call. ``ask`` has run and round, or this round's whole question; then decisions
        arrive with the introductions.
        """
        grid, clock = self._run.grid, self._run.clock
        self._mute.round, self._mute.now = ask.round, clock.now() if clock.simulated is None else math.nan
        decided = self._roster.patience.listen(ask.round, self._mute.now)
        decided = {client: late for client, late in decided.items() if late.name == self._roster.own_name(client)}
        nodes = set(grid.get_node_ids())
        replies = [found for exchange in self._late for found in self._introductions(exchange, exchange.ready())]
        self._late = [exchange for exchange in self._late if exchange.open and exchange.missing & nodes]
        heard = {node for node, *_ in replies}
        self.outside &= nodes
        unknown = self._roster.unknown(nodes) - heard - self.outside
        strangers = sorted(unknown - self._mute.resting())
        self.gone = set()
        if strangers:
            replies += self._hello(strangers, ask, len(nodes) - len(unknown))
            nodes &= set(grid.get_node_ids())  # some may have left meanwhile
        names = registered_names(grid) if replies else {}
        replies = [
            (node, self._roster.register(node, intro, names.get(node, "")), answer) for node, intro, answer in replies
        ]
        self.outside |= {node for node, intro, _ in replies if not self._roster.allows(intro)}
        replies = [reply for reply in replies if reply[0] not in self.outside]
        replies.sort(key=lambda reply: (reply[1].number is None, reply[1].number or 0, reply[1].name))
        fresh = self._roster.admit([(node, intro) for node, intro, _ in replies], nodes, ask.round)
        for node, intro, answer in replies:
            client = self._roster.number(node)
            if client is None:
                self._complain(node, f"node {node} claims the name {intro.name!r} of another connected node")
                continue
            self._complaints.pop(node, None)
            if answer is not None and node in heard:
                decided[client] = answer
            elif answer is not None:
                self._run.inbox[client] = ask, answer
        for client, late in decided.items():
            if late.next_round is not None and late.next_round >= ask.round:  # it may sleep until then
                self._run.note_decision(client, late)
                self._roster.patience.by_kind[QUESTION].answer(client)
        refused = [self._complaints[node] for node in sorted(nodes & self._complaints.keys())]
        self.nodes = Nodes(len(nodes - self.outside), tuple(refused))
        return fresh

    def _hello(self, nodes: list[int], ask: ParticipationRequest, present: int) -> list[_Reply]:
        content = RecordDict({protocol.AOI: ConfigRecord(ask.write())})
        enough, start_up = 0, 0.0
        if ask.round == self._run.first:
            # Clients start up for the first question; in Flower's simulation that takes Ray's start, up to a minute.
            enough, start_up = self._run.needs, self._options.join_timeout

        def worth(missing: set[int]) -> float | None:
            if missing <= self._mute.silent:
                return 0.0
            return _STRANGER / 2**self._unheard if present + len(nodes) - len(missing) >= enough else None

        exchange = Exchange(
            self._run.grid,
            {node: Message(content, node, protocol.HELLO, group_id=str(ask.round)) for node in nodes},
            self._options.ask_timeout + start_up,
            sequential=False,
            keep=ANSWERS_KEPT,
            settled=worth,
        )
        found = self._introductions(exchange, exchange)
        self._unheard = self._unheard + 1 if exchange.missing - self._mute.silent else self._unheard // 2
        for node in exchange.missing:
            if node not in self._mute.silent:
                logger.warning("node %d has not answered the roll call", node)
            self._mute.note(node)
        if exchange.missing:
            self._late.append(exchange)
        return found

    def _introductions(self, exchange: Exchange, replies: Iterable[Message]) -> list[_Reply]:
        """Return the valid introductions."""
        found: list[_Reply] = []
        for reply in replies:
            node = exchange.client_of(reply)
            if reply.has_error() and reply.error.code == NODE_UNAVAILABLE:
                self.gone.add(node)
                logger.warning("node %d is gone", node)
                continue
            self._mute.forget(node)
            try:
                intro = _checked(read_record(reply, Introduction))
                asked = protocol.has_decided(reply.content[protocol.AOI])
                found.append((node, intro, read_record(reply, ParticipationReply) if asked else None))
            except Refused as reason:
                plain = any(words in str(reason) for words in (NO_HELLO, FORMER_APP))
                why = _PLAIN_APP if plain else str(reason).removeprefix("error: ConfigError: ")
                self._complain(node, f"node {node} cannot join: {why}")
        return found

    def _complain(self, node: int, text: str) -> None:
        if self._complaints.get(node) != text:
            self._complaints[node] = text
            logger.warning("%s", text)


def _checked(intro: Introduction) -> Introduction:
    if not is_name(intro.name):
        raise Refused(f"its name has {len(intro.name)} characters, allowed are 1 to {MAX_NAME}, all of them printable")
    for name, (least, most) in _RANGES.items():
        value = getattr(intro, name)
        if value is not None and not least <= value <= most:
            raise Refused(f"{name.replace('_', '-')} is {value}, allowed are {least:.15g} to {most:.15g}")
    return intro
