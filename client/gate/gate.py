"""The owner's gate: decide about each message before the app starts, and about each reply before it leaves.

The gate knows nothing of Flower; ``client/gatekeeper.py`` brings it the messages of a SuperNode. The ClientApp asks the
same gate before it promises a round.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from aoi_fl import protocol
from aoi_fl.client.gate import limits, rules
from aoi_fl.client.gate.book import GATE, Book, GateState, KnownApp, KnownRun, trained
from aoi_fl.client.gate.limits import Content, Refusal
from aoi_fl.protocol.log import logger

QUERIES = (protocol.HELLO, protocol.PARTICIPATE, protocol.BID)
LEAVES = ("sent", "scaled down")  # the decisions after which content leaves
CLOCK = f"Set the clock: sudo timedatectl set-ntp true. If it is right, remove {GATE}: then hours count from now."
_SET_BACK = 60.0  # seconds by which a clock may be set back without a refusal
_REFRESH = 600.0  # seconds after which the latest time is written


@dataclass(frozen=True)
class Arrival:
    """A message that arrived.

    Attributes
    ----------
    run : Flower's id of the run
    kind : Flower's message type
    group : Flower's group id
    app : the digest of the run's app
    content : the message's records; None: not yet received
    asked : the round in our record; None: no record of ours
    name : the run's name in our record, or ""
    coded : the code of updates that the message asks for
    """

    run: str
    kind: str
    group: str
    app: str
    content: Content | None = None
    asked: int | None = None
    name: str = ""
    coded: str | None = None

    @property
    def is_query(self) -> bool:
        """Whether it is a question of our protocol, by its type alone before the content is there."""
        return self.kind in QUERIES and (self.content is None or self.asked is not None)

    @property
    def is_evaluation(self) -> bool:
        """Whether it asks for an evaluation."""
        return protocol.category(self.kind) == protocol.EVALUATE

    @property
    def round(self) -> int | None:
        """The round in our record, else Flower's group id, else the round of Flower's strategies; None: unknown."""
        if self.asked is not None:
            return self.asked
        if self.group.isascii() and self.group.isdecimal() and len(self.group) < 10:
            return int(self.group)
        configs = () if self.content is None else self.content.configs.values()
        rounds = {config["server-round"] for config in configs if type(config.get("server-round")) is int}
        return rounds.pop() if len(rounds) == 1 and not self.group else None


def set_back(state: GateState, now: float) -> str:
    """Return what is wrong with a clock that has been set back, or ""."""
    if now >= state.latest - _SET_BACK:
        return ""
    return f"the clock is before {datetime.fromtimestamp(state.latest):%Y-%m-%d %H:%M}, which the gate has seen"


class Gate:
    """The gate of one device.

    Parameters
    ----------
    node : the node's configuration
    server : the address of the SuperLink
    book : the gate's files

    Raises
    ------
    ConfigError : a rule is invalid.
    """

    def __init__(self, node: Mapping[str, rules.Value], server: str, book: Book) -> None:
        self.rules, self._server, self._book = rules.Rules.read(node), server, book
        self.binds = not node.keys().isdisjoint(rules.KEYS)

    def admit(self, arrival: Arrival) -> None:
        """Admit a message; call it without the content, and again with it.

        Raises
        ------
        Refusal : the owner's rules forbid it now; the app must not start.
        """
        with self._noting(arrival, "refused"):
            with self._book.locked():
                now = time.time()
                state = known = self._book.load()
                state = replace(state, latest=max(now, state.latest))
                if arrival.app not in state.apps:
                    state = replace(state, apps={**state.apps, arrival.app: KnownApp(now, arrival.run)})
                if arrival.content is not None:
                    run = state.runs.get(arrival.run) or self._first(arrival, state)
                    run = replace(run, name=run.name or arrival.name)
                    state = replace(state, runs={**state.runs, arrival.run: run})
                if replace(state, latest=known.latest) != known or state.latest > known.latest + _REFRESH:
                    self._book.save(state)
            approved = state.apps[arrival.app].approved
            if self.rules.apps is not None and arrival.app not in self.rules.apps and not approved:
                raise Refusal(rules.APPS, f"aoi device approve {arrival.app} lets this app in")
            if arrival.is_query:
                return
            if (back := set_back(state, now)) and (self.rules.hours or self.rules.pause > datetime.min):
                raise Refusal(rules.HOURS if self.rules.hours else rules.PAUSE, back, CLOCK)
            if (rule := self.rules.forbids(datetime.now())) is not None:
                raise Refusal(rule)
            if not arrival.is_evaluation:
                self.may_train(arrival, state, now)
            elif self.rules.evaluate is False:
                raise Refusal(rules.EVALUATE)

    @contextmanager
    def _noting(self, arrival: Arrival, decision: str, size: int = 0) -> Iterator[None]:
        """Write a receipt of a refusal within the block."""
        try:
            yield
        except Refusal as refusal:
            logger.warning("The owner's gate: %s, a message of type %s: %s", decision, arrival.kind, refusal)
            with suppress(Refusal):
                self._note(arrival, decision, refusal.rule, size)
            raise

    def _first(self, arrival: Arrival, state: GateState) -> KnownRun:
        """Return a new run; the client may have taken part in it before and lost its state."""
        known = arrival.name and any(run.name == arrival.name for run in state.runs.values())
        return KnownRun(arrival.name, self._server, arrival.app, 0 if known else max(0, (arrival.round or 1) - 1))

    def may_train(self, arrival: Arrival, state: GateState, now: float) -> None:
        """Raise Refusal if the counts of the state forbid a training."""
        own = self.rules
        if own.max_updates is not None and state.updates >= own.max_updates:
            raise Refusal(rules.UPDATES, f"{state.updates} updates have left this device")
        if own.min_hours and (back := set_back(state, now)):
            raise Refusal(rules.MIN_HOURS, back, CLOCK)
        if own.min_hours and state.last and now < state.last + 3600 * own.min_hours:
            raise Refusal(rules.MIN_HOURS, f"not before {datetime.fromtimestamp(state.last + 3600 * own.min_hours)}")
        if own.min_separation == 1 or arrival.content is None:
            return
        if arrival.round is None:
            raise Refusal(rules.SEPARATION, "the message has no number of a round")
        runs = [run for key, run in state.runs.items() if key == arrival.run or run.name == arrival.name != ""]
        latest = max(max(run.last, run.since) for run in runs)
        if arrival.round < 1 or (latest >= 1 and arrival.round - latest < own.min_separation):
            raise Refusal(rules.SEPARATION, f"round {arrival.round} is too near to round {latest}")

    def release(self, arrival: Arrival, reply: Content, size: int) -> Content:
        """Return what may leave of a reply, after the training and its receipt have been written.

        Raises
        ------
        Refusal : nothing may leave.
        """
        with self._noting(arrival, "held back", size):
            norm, rule, sent = None, None, arrival.content or Content()
            if self.binds:
                reply = limits.trimmed(reply, self.rules.metrics)
                if arrival.is_query or (arrival.is_evaluation and self.rules.evaluate == rules.METRICS_ONLY):
                    reply = Content(metrics={} if arrival.is_query else reply.metrics, own=reply.own)
                if len((reply.own or {}).get("scales", ())) > sum(map(len, reply.arrays.values())):
                    raise Refusal(rules.METRICS, "a record of the protocol has more scales than there are arrays")
                if self.rules.metrics is not None:
                    keys, names = {protocol.ARRAYS, *sent.arrays}, (sent.model or {}).keys()
                    if reply.unread or not all(key in keys and a.keys() <= names for key, a in reply.arrays.items()):
                        raise Refusal(rules.METRICS, reply.unread or "an array is not one of the model, under its key")
                if self.rules.max_norm is not None:
                    reply, norm = limits.clipped(reply, sent, self.rules.max_norm, arrival.coded)
                    if norm > self.rules.max_norm:
                        rule = rules.NORM
            if self.rules.max_bytes is not None and max(size, limits.size_of(reply)) > self.rules.max_bytes:
                raise Refusal(rules.BYTES, f"the reply has {size} bytes, and more with the gate's own headers")
            own = reply.own or {}
            declines, named = own.get("takes-part") is False, own.get("rule") in rules.KEYS
            bare = not (reply.arrays or reply.configs or reply.unread or reply.numbers > limits.FEW)
            trains = not (arrival.is_query or (bare and (arrival.is_evaluation or (declines and not reply.metrics))))
            if declines and not trains and (named or protocol.category(arrival.kind) == protocol.TRAIN):
                self._note(arrival, "declined", own["rule"] if named else None, size)
                if not arrival.is_evaluation:
                    return reply
            if not arrival.is_query:
                decision = "sent" if rule is None else "scaled down"
                self._note(arrival, decision, rule, size, trains=trains, norm=norm, numbers=reply.numbers)
            return reply

    def failed(self, arrival: Arrival) -> None:
        """Note that the app failed."""
        if not arrival.is_query:
            self._note(arrival, "failed", None)

    def _note(
        self, arrival: Arrival, decision: str, rule: str | None, size: int = 0, trains: bool = False, **more: object
    ) -> None:
        """Write a receipt, and the training if it is one; it may have become too early for it."""
        entry = {name: getattr(arrival, name) for name in ("run", "app", "round")} | {"kind": arrival.kind[:40]}
        entry |= {"server": self._server, "decision": decision, "rule": rule, "bytes": size}
        entry |= {"norm": None, "numbers": 0, **more}
        with self._book.locked():
            now = time.time()
            entry |= {"time": now, "since": now, "times": 1}
            state = self._book.flushed(self._book.load(), now)
            told = state.told + int(entry["numbers"])
            if trains or told > limits.FEW:
                self.may_train(arrival, state, now)  # another process of this device may have trained meanwhile
                run = state.runs.get(arrival.run) or self._first(arrival, state)
                state = trained(state, arrival.run, replace(run, app=arrival.app), arrival.round, now)
            else:
                state = replace(state, told=told)
            (self._book.note if decision in LEAVES else self._book.count)(state, entry)
