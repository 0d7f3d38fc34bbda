"""Who is there: clients by number, found through a roll call, whatever Flower calls their nodes today."""

import logging
from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.flower.errors import NODE_UNAVAILABLE
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import Population
from aoi_fl.strategies.exchange import ANSWERS_KEPT, Exchange
from aoi_fl.strategies.guard import MAX_EXAMPLES, Refused, read_record, some_of
from aoi_fl.strategies.records import ClientRecord
from aoi_fl.strategies.silence import Silence
from aoi_fl.wire import protocol
from aoi_fl.wire.protocol import Ask, Introduction

logger = logging.getLogger("flwr")


class Roster:
    """The clients of a run, in arrays indexed by client number.

    A client keeps its number for the whole run: the one that it announces, where that is free and below the number of
    clients ``expected``, else the next free one, in the order of announced numbers and names.
    A node that claims the name of a client whose own node is still connected is turned away.

    Attributes
    ----------
    records : what each client said of itself, by number
    available : (n,) bool, whose node is connected now
    last : (n,) int64, the round in which the server last used the client's work (0: never)
    next_round : (n,) int64, the round it has reserved (0: none known)
    payments : (n,) float64, what it declared (NaN: nothing)
    gone : nodes that were asked in the last roll call and found to be dead; Flower lists them for a minute
    silence : clients that left the last question unanswered
    unanswered : questions that some client may still answer
    """

    def __init__(self, known: Iterable[ClientRecord] = (), expected: int = 0) -> None:
        self._expected = expected
        self.records: dict[int, ClientRecord] = {}
        self.available = np.zeros(0, np.bool_)
        self.last = np.zeros(0, np.int64)
        self.next_round = np.zeros(0, np.int64)
        self._sizes = np.zeros(0)
        self._sizeless: set[int] = set()  # of whom it has been said that they have declared no size
        self.payments = np.zeros(0)
        self.gone: set[int] = set()
        self.silence = Silence()
        self.unanswered: list[Exchange] = []
        self._mute_nodes = Silence()  # strange nodes that have not said who they are
        self._late: list[Exchange] = []  # roll calls that some node may still answer
        self._sensitivities = np.zeros(0)
        self._node_of: dict[int, int] = {}
        self._number_of_node: dict[int, int] = {}
        self._number_of_name: dict[str, int] = {}
        self._complaints: dict[int, str] = {}
        self._add(list(known))

    def __len__(self) -> int:
        return len(self.available)

    @property
    def turned_away(self) -> set[int]:
        """Return the nodes that were asked, and are not gone, but gave no answer that counts."""
        return set(self._complaints)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Return (n,) the numbers of examples declared in the roll call; NaN for who declared none."""
        return self._sizes

    def sizes_of_all(self, user: str, *, or_equal: bool = False) -> NDArray[np.int64]:
        """Return (n,) data sizes for what goes by size; who has declared none counts as one of mean size, named once.

        Parameters
        ----------
        user : what goes by size, for messages
        or_equal : count everybody the same where nobody has declared a size

        Raises
        ------
        ConfigError
            Nobody has, and to go by size means nothing.
        """
        remedy = "set num-examples in the node configurations, or return it from the function under @app.introduce()"
        undeclared = np.isnan(self._sizes)
        nobody, new = bool(undeclared.all()), set(np.flatnonzero(undeclared).tolist()) - self._sizeless
        if nobody and len(self) and not or_equal:
            raise ConfigError(f"{user} goes by data size, but no client has declared its number of examples: {remedy}.")
        if new:
            self._sizeless |= new
            who = some_of([self.called(client) for client in sorted(new)])
            taken = (
                "all count the same" if nobody else f"the mean of the others' is taken, {np.nanmean(self._sizes):.0f}"
            )
            logger.warning("No num-examples declared by %s: for %s %s. To mend it, %s.", who, user, taken, remedy)
        return self._with_mean_sizes()

    def number(self, node: int) -> int | None:
        """Return the number of the client that a node is; None if it has not said."""
        return self._number_of_node.get(node)

    def node(self, client: int) -> int:
        """Return Flower's id of the node that this client is now."""
        return self._node_of[client]

    def name(self, client: int) -> str:
        """Return the client's name."""
        return self.records[client].name

    def called(self, client: int) -> str:
        """Return the name of a client, or its number while it has not said who it is."""
        return self.name(client) if client in self.records else f"client {client}"

    def population(self, round_: int) -> Population:
        """Return the clients as a selector sees them at the start of a round."""
        return Population(
            ages=round_ - 1 - self.last,
            sizes=self._with_mean_sizes(),
            available=self.available,
            payments=self.payments,
            sensitivities=self._sensitivities,
        )

    def _with_mean_sizes(self) -> NDArray[np.int64]:
        undeclared = np.isnan(self._sizes)
        usual = 1.0 if undeclared.all() else max(1.0, float(np.nanmean(self._sizes).round()))
        return np.where(undeclared, usual, self._sizes).astype(np.int64)

    def call_roll(
        self, grid: Grid, ask: Ask, timeout: float, settled: Callable[[int], float | None] = lambda known: None
    ) -> list[ClientRecord]:
        """Note who is connected, ask nodes not met before who they are, and return the clients that are new.

        A node that does not answer is asked again after one round, then after two, four, …, and not waited for again:
        what it says meanwhile is heard in the next roll call.

        Parameters
        ----------
        grid, ask : whom to ask, and the run and round
        timeout : seconds until the deadline
        settled : told how many clients are known to be there, says how many seconds the others are worth; None: until
            the deadline
        """
        nodes = set(grid.get_node_ids())
        self._mute_nodes.forget(set(self._mute_nodes) - nodes)
        replies = [found for exchange in self._late for found in self._introductions(exchange, exchange.ready())]
        self._late = [exchange for exchange in self._late if exchange.open and exchange.missing & nodes]
        heard = {node for node, _ in replies}
        strangers = sorted(nodes - self._number_of_node.keys() - heard - self._mute_nodes.resting(ask.round))
        there = {node for node in nodes if node in self._number_of_node} | heard

        def worth(missing: set[int]) -> float | None:
            if missing <= set(self._mute_nodes):
                return 0.0
            return settled(len(there) + len(strangers) - len(missing))

        self.gone = set()
        if strangers:
            replies += self._hello(grid, strangers, ask, timeout, worth)
            nodes &= set(grid.get_node_ids())  # some may have left meanwhile
        fresh = self._admit(sorted(replies, key=_order), nodes, ask.round)
        self.available = np.zeros(len(self), np.bool_)
        here = [number for node, number in self._number_of_node.items() if node in nodes]
        self.available[here] = True
        return fresh

    def _hello(
        self, grid: Grid, nodes: list[int], ask: Ask, timeout: float, worth: Callable[[set[int]], float | None]
    ) -> list[tuple[int, Introduction]]:
        content = ConfigRecord(ask.write())
        exchange = Exchange(
            grid,
            {
                node: Message(RecordDict({protocol.AOI: content}), node, protocol.HELLO, group_id=str(ask.round))
                for node in nodes
            },
            timeout,
            one_by_one=False,
            keep=ANSWERS_KEPT,
            settled=worth,
        )
        found = self._introductions(exchange, exchange)
        for node in exchange.missing:
            self._mute_nodes.note(node, ask.round)
            self._complain(node, f"node {node} has not answered the roll call")
        if exchange.missing:
            self._late.append(exchange)
        return found

    def _introductions(self, exchange: Exchange, replies: Iterable[Message]) -> list[tuple[int, Introduction]]:
        found: list[tuple[int, Introduction]] = []
        for reply in replies:
            node = exchange.client_of(reply)
            if node is None:
                continue
            if reply.has_error() and reply.error.code == NODE_UNAVAILABLE:
                self.gone.add(node)
                logger.warning("node %d is gone", node)
                continue
            self._mute_nodes.forget({node})
            try:
                found.append((node, _checked(read_record(reply, Introduction))))
            except Refused as reason:
                self._complain(node, f"node {node} cannot join: {reason}")
        return found

    def _admit(self, replies: list[tuple[int, Introduction]], nodes: set[int], round_: int) -> list[ClientRecord]:
        fresh = []
        for node, who in replies:
            number = self._number_of_name.get(who.name)
            if number is None:
                record = ClientRecord(
                    client=self._free_number(who.number),
                    name=who.name,
                    since=round_,
                    examples=who.num_examples,
                    payment=who.payment,
                    sensitivity=who.sensitivity,
                    data_age=who.data_age,
                )
                number = record.client
                self.records[number] = record
                self._number_of_name[record.name] = number
                fresh.append(record)
            elif (old := self._node_of.get(number)) == node:
                continue  # it was asked again before its first answer came
            elif old in nodes:
                self._complain(node, f"node {node} claims the name {who.name!r}, whose own node is connected")
                continue
            elif old is not None:  # it has started anew; one that a resumed run meets again may rest as before
                del self._number_of_node[old]
                self.silence.forget({number})
            self._number_of_node[node] = number
            self._node_of[number] = node
            self._complaints.pop(node, None)
        self._add(fresh)
        return fresh

    def _add(self, records: list[ClientRecord]) -> None:
        grow = max((r.client + 1 for r in records), default=0) - len(self)
        if grow > 0:
            self.available = np.append(self.available, np.zeros(grow, np.bool_))
            self.last = np.append(self.last, np.zeros(grow, np.int64))
            self.next_round = np.append(self.next_round, np.zeros(grow, np.int64))
            self._sizes = np.append(self._sizes, np.full(grow, np.nan))
            self.payments = np.append(self.payments, np.full(grow, np.nan))
            self._sensitivities = np.append(self._sensitivities, np.full(grow, np.nan))
        for record in records:
            number = record.client
            self.records[number] = record
            self._number_of_name[record.name] = number
            self.last[number] = record.since - 1  # a newcomer has missed nothing before it came
            self._sizes[number] = np.nan if record.examples is None else record.examples
            self.payments[number] = np.nan if record.payment is None else record.payment
            self._sensitivities[number] = np.nan if record.sensitivity is None else record.sensitivity

    def _free_number(self, wish: int | None) -> int:
        if wish is not None and wish < self._expected and wish not in self.records:
            return wish
        number = len(self.records)
        while number in self.records:
            number += 1
        return number

    def _complain(self, node: int, text: str) -> None:
        if self._complaints.get(node) != text:
            self._complaints[node] = text
            logger.warning("%s", text)


def _order(reply: tuple[int, Introduction]) -> tuple[bool, int, str]:
    who = reply[1]
    return who.number is None, who.number or 0, who.name


def _checked(who: Introduction) -> Introduction:
    if not 0 < len(who.name) <= 100 or not who.name.isprintable():
        raise Refused(f"its name has {len(who.name)} characters, allowed are 1 to 100, all of them printable")
    if who.number is not None and who.number < 0:
        raise Refused(f"its number is {who.number}, it must be 0 or more")
    if who.num_examples is not None and not 0 < who.num_examples <= MAX_EXAMPLES:
        raise Refused(f"num-examples is {who.num_examples}, allowed are 1 to {MAX_EXAMPLES}")
    if who.data_age is not None and not 0 <= who.data_age < 2**31:
        raise Refused(f"data-age is {who.data_age}, it must be 0 or more")
    for key, value in (("payment", who.payment), ("sensitivity", who.sensitivity)):
        if value is not None and value <= 0:
            raise Refused(f"{key} is {value}, it must be positive")
    return who
