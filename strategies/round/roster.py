"""The clients of a run by number, whatever node ids Flower gives them."""

import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from aoi_fl.config.values import names_of
from aoi_fl.protocol import Introduction, ParticipationReply, default_name, is_name, packing
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import ClientRecord
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import Population
from aoi_fl.science.types import Floats, Ints, Mask
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.round.retry import FAILURE, QUESTION, TRAINING, RetryPolicy
from aoi_fl.strategies.validation import some_of

# The arrays by client number.
_ARRAYS = ("available", "away", "seen", "last", "next_round", "sizes", "payments", "_sensitivities")


class Roster:
    """The clients of a run, in arrays indexed by client number.

    A client keeps its number for the whole run. It gets the number that it announces, if that is free and below the
    number of ``expected`` clients. Otherwise it gets the next free one, in the order of announced numbers and names.

    Attributes
    ----------
    records : each client's declaration, by number
    available : (n,) bool, whether its node is connected now
    away : (n,) bool, whether its node was missing at the last roll call, also before a break
    seen : (n,) int64, the last round with its node in the roll call; 0: none
    last : (n,) int64, the last round in which the server used its work; 0: never
    round : the round of the last roll call
    uncounted : clients whose last training did not count, though they have done it
    busy : clients that still work on an earlier round's model, or have left that work in this round
    next_round : (n,) int64, its reserved round; 0: none
    sizes, payments : (n,) float64, its declared number of examples and payment; NaN: none
    patience : retry policy for clients that do not answer
    packing : nodes that read packed models; none if the run does not pack
    """

    def __init__(self, options: RoundOptions, expected: int = 0, known: Iterable[ClientRecord] = ()) -> None:
        self._options, self._expected = options, expected
        self._only = frozenset(names_of("clients", options.clients))
        self.packing = set[int]()
        self.records: dict[int, ClientRecord] = {}
        self.available = self.away = np.zeros(0, np.bool_)
        self.seen = self.last = self.next_round = np.zeros(0, np.int64)
        self.sizes = self.payments = self._sensitivities = np.zeros(0)
        self.busy: Iterable[int] = ()
        self.uncounted = set[int]()
        self.round = 0
        self._sizeless = set[int]()  # named in a warning, without a declared size
        self.patience = RetryPolicy()
        self._awake_at: dict[int, float] = {}  # monotonic second at which a sleeping client wakes up
        self._node_of: dict[int, int] = {}
        self._number_of_node: dict[int, int] = {}
        self._number_of_name: dict[str, int] = {}
        self._own_names: dict[int, str] = {}  # by node
        known = list(known)
        self._grow(max((record.client + 1 for record in known), default=0))
        for record in known:
            self._add(record)

    def __len__(self) -> int:
        return len(self.available)

    def sizes_of_all(self, *, or_equal: bool = False) -> Ints:
        """Return (n,) data sizes; a client without a declared size counts with the mean, and a warning names it once.

        Parameters
        ----------
        or_equal : whether all clients count the same if none has declared a size

        Raises
        ------
        ConfigError
            No client has declared a size, and sizes are required.
        """
        remedy = "set num-examples in the node configurations, or return it from the function under @app.introduce()"
        undeclared = np.isnan(self.sizes)
        none_declared, new = bool(undeclared.all()), set(np.flatnonzero(undeclared).tolist()) - self._sizeless
        if none_declared and len(self) and not or_equal:
            allowed = "declared by the clients, as the policy goes by data size"
            raise ConfigError("num-examples", None, allowed, f"{remedy[0].upper()}{remedy[1:]}.")
        if new:
            self._sizeless |= new
            names = some_of([self.name(client) for client in sorted(new)])
            taken = (
                "all have the same size" if none_declared else f"the others' mean is used, {np.nanmean(self.sizes):.0f}"
            )
            logger.warning("No num-examples declared by %s: %s. To mend it, %s.", names, taken, remedy)
        return self._with_mean_sizes()

    def number(self, node: int) -> int | None:
        """Return the number of a node's client; None before its introduction."""
        return self._number_of_node.get(node)

    def unknown(self, nodes: set[int]) -> set[int]:
        """Return the nodes that have not introduced themselves."""
        return nodes.difference(self._number_of_node)

    def node(self, client: int) -> int:
        """Return Flower's id of the client's present node."""
        return self._node_of[client]

    def name(self, client: int) -> str:
        """Return the client's name, or its number before its introduction."""
        return self.records[client].name if client in self.records else f"client {client}"

    def own_name(self, client: int) -> str:
        """Return the client's own name, which may differ from its registered one."""
        return self._own_names.get(self._node_of.get(client, 0), self.name(client))

    def here(self) -> Mask:
        """Return (n,) the connected clients that do not rest; all connected ones if all rest."""
        here = self.available_but(self.patience.resting(QUESTION, TRAINING))
        return here if here.any() else self.available_but(())

    def note_decision(self, client: int, answer: ParticipationReply | None, round_duration: float | None) -> None:
        """Note the round that a client has reserved, and the end of its sleep.

        Parameters
        ----------
        client, answer : the client and its decision; None: it announced none
        round_duration : seconds of a round as clients know them, which bound the sleep; None: no client may sleep
        """
        self.next_round[client] = 0 if answer is None or answer.next_round is None else answer.next_round
        self._awake_at.pop(client, None)
        if answer is not None and answer.sleeps and round_duration:
            longest = (self.next_round[client] - self.round) * round_duration
            self._awake_at[client] = time.monotonic() + min(answer.sleeps, longest)

    def asleep(self) -> Mask:
        """Return (n,) the clients that look for no message now; a client with this round reserved looks for one."""
        return (self.awake_in() > 0) & (self.next_round > self.round)

    def awake_in(self) -> Floats:
        """Return (n,) seconds until each client looks for messages again; 0: it does so now."""
        seconds, now = np.zeros(len(self)), time.monotonic()
        for client, until in self._awake_at.items():
            seconds[client] = max(0.0, until - now)
        return seconds

    def available_but(self, clients: Iterable[int]) -> Mask:
        """Return (n,) the connected clients that are not busy, without these."""
        others = self.available.copy()
        others[list(self.busy)] = False
        others[list(clients)] = False
        return others

    def strangers(self, clients: Iterable[int]) -> set[int]:
        """Return those of the clients that may be a silent one under a new name.

        They joined after the first round, and the server has never used their work. Until a client that is such a
        newcomer too, or has left, was silent, there are none.
        """
        if all(self.available[client] and not self._is_new(client) for client in self.patience.doubtful()):
            return set()
        return set(filter(self._is_new, clients))

    def _is_new(self, client: int) -> bool:
        record = self.records.get(client)
        return record is not None and 1 < record.since > self.last[client]

    @property
    def others_answer(self) -> bool:
        """Whether a connected client answers, so that a round need not wait for silent ones."""
        return bool(self.available_but(self.patience.silent(QUESTION, TRAINING)).any())

    def population(self, needs: int = 1) -> Population:
        """Return the clients as a selector sees them at the start of a round.

        Clients whose updates could not be used count as absent while ``needs`` others are available.
        """
        here = self.here()
        fit = here.copy()
        fit[self.patience.resting(FAILURE)] = False
        return Population(
            ages=self.round - 1 - self.last,
            sizes=self._with_mean_sizes(),
            available=fit if fit.sum() >= needs else here,
            payments=self.payments,
            sensitivities=self._sensitivities,
            connected=self.available.copy(),
        )

    def _with_mean_sizes(self) -> Ints:
        undeclared = np.isnan(self.sizes)
        usual = 1.0 if undeclared.all() else max(1.0, float(np.nanmean(self.sizes).round()))
        return np.where(undeclared, usual, self.sizes).astype(np.int64)

    def allows(self, intro: Introduction) -> bool:
        """Return whether a client may join, by its name or one of its tags."""
        tags = {f"tag:{tag.strip()}" for tag in (intro.tags or "").split(",")}
        return not self._only or intro.name in self._only or not self._only.isdisjoint(tags)

    def named(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of those of the clients that have introduced themselves."""
        return [self._number_of_name[name] for name in names if name in self._number_of_name]

    def register(self, node: int, intro: Introduction, name: str) -> Introduction:
        """Return an introduction under the name that the node's key is registered with, or under its own.

        The ``names`` of the data replace those that follow from a client's number.
        """
        self._own_names[node] = intro.name
        number, names = intro.number, self._options.names
        if not name and number is not None and number < len(names) and intro.name == default_name(number):
            name = names[number]
        return replace(intro, name=name) if is_name(name) else intro

    def admit(self, replies: Iterable[tuple[int, Introduction]], nodes: set[int], round_: int) -> list[ClientRecord]:
        """Admit nodes by their introductions, except a node with the name of a connected client.

        Parameters
        ----------
        replies : nodes and their introductions
        nodes : connected nodes
        round_ : the round

        Returns
        -------
        The new clients.
        """
        fresh, self.round = [], round_
        for node, intro in replies:
            number = self._number_of_name.get(intro.name)
            if number is None:
                record = ClientRecord(
                    client=self._free_number(intro.number),
                    name=intro.name,
                    since=round_,
                    examples=intro.num_examples,
                    payment=intro.payment,
                    sensitivity=intro.sensitivity,
                    data_age=intro.data_age,
                )
                number = record.client
                self._add(record)
                fresh.append(record)
            elif (old := self._node_of.get(number)) == node or old in nodes:
                continue  # asked again before its first answer arrived, or the name of another
            elif old is not None:  # started anew; after a resume a client may rest as before
                del self._number_of_node[old]
                self.packing.discard(old)
                self.patience.returned(number)
            last = int(self.last[number])
            # A client counts a late update in the round of its model, the server up to `late_rounds` later.
            unknown = intro.last_round is None or intro.last_round < last - self._options.late_rounds
            if unknown and last >= max(1, self.records[number].since):
                logger.warning(
                    "Client %s took part in round %d and no longer knows it: its state was lost or deleted.",
                    intro.name,
                    last,
                )
            if self.records[number].examples is None and intro.num_examples is not None:  # a ledger may hide it
                self.records[number] = replace(self.records[number], examples=intro.num_examples)
                self.sizes[number] = intro.num_examples
            if self._options.packing == packing.AUTO and intro.packing == packing.FORM:
                self.packing.add(node)
            self._number_of_node[node] = number
            self._node_of[number] = node
        self.available = np.zeros(len(self), np.bool_)
        self.available[[number for node, number in self._number_of_node.items() if node in nodes]] = True
        for number in np.flatnonzero(self.available & self.away).tolist():  # reconnected
            self.patience.returned(number)
        self.away = ~self.available
        self.seen[self.available] = round_
        return fresh

    def _grow(self, length: int) -> None:
        """Make all arrays at least so long."""
        if (more := length - len(self)) > 0:
            for name in _ARRAYS:
                array = getattr(self, name)
                unknown = np.nan if array.dtype.kind == "f" else 0
                setattr(self, name, np.append(array, np.full(more, unknown, array.dtype)))

    def _add(self, record: ClientRecord) -> None:
        number = record.client
        self._grow(number + 1)
        self.records[number] = record
        self._number_of_name[record.name] = number
        self.last[number] = record.since - 1  # a newcomer has missed no round
        # None becomes NaN.
        self.sizes[number], self.payments[number] = record.examples, record.payment
        self._sensitivities[number] = record.sensitivity

    def _free_number(self, wish: int | None) -> int:
        if wish is not None and wish < self._expected and wish not in self.records:
            return wish
        number = len(self.records)
        while number in self.records:
            number += 1
        return number
