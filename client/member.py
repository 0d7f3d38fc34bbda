"""One client's state machine: its age, its reservation, its data's age and its replies."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from flwr.app import Context

from aoi_fl import protocol
from aoi_fl.client import poll_schedule
from aoi_fl.client.compression import Residuals
from aoi_fl.client.deciding import Decider, make_decider
from aoi_fl.client.freshness import Fixed, Source
from aoi_fl.client.gate import rules
from aoi_fl.client.identity import Identity, identity, is_simulated
from aoi_fl.client.promises import Device, Forbidden, Promise, check_gate, has_promised, refused_now, strictest
from aoi_fl.client.state import ClientState, StateFile
from aoi_fl.protocol import Bid, ParticipationReply, ParticipationRequest
from aoi_fl.science import whittle
from aoi_fl.science.age import ClientAge
from aoi_fl.science.errors import ConfigError

MakeSource: TypeAlias = Callable[[Context, ParticipationRequest], Source]


class Member:
    """One client in one round of one run: its state and its replies to a request.

    Only changed state is written. A repeated request gets the same reply.

    Parameters
    ----------
    context, ask : the client's, and the request
    make_source : makes the source of its data
    sent : the time of the request, in seconds since the epoch; None: now
    """

    def __init__(
        self,
        context: Context,
        ask: ParticipationRequest,
        make_source: MakeSource | None = None,
        sent: float | None = None,
    ) -> None:
        self._asked = time.monotonic() - (0.0 if sent is None else poll_schedule.waited(sent))
        self.ask = ask
        self._context = context
        self._make_source = make_source
        self.identity: Identity = identity(context, ask.run, private=ask.private)
        self._simulated = is_simulated(context)
        self._file = StateFile(self.identity.state_dir, self.identity.name)
        self._device = device_of(context, self.identity, bound=ask.private)
        self.state = ClientState(self.identity.seed)
        self.promise: Promise | None = None
        with self._changing(read=True):
            pass

    @contextmanager
    def _changing(self, read: bool = False) -> Iterator[None]:
        """Hold the lock of the client's state, which is read again if another process may have changed it."""
        if self._simulated and not read:
            yield
            return
        with self._device.locked():
            self.state = self._file.load(self.identity.seed)
            self.promise = self._device.load().runs.get(self.ask.run)
            if self._file.corrupt and self.promise is not None:  # nothing is known of what it has done
                self.promise = replace(self.promise, rounds=0)
                self._device.keep(self.ask.run, self.promise)
            if self.ask.token not in (None, self.state.token):
                self.state = ClientState(self.identity.seed, token=self.ask.token)
            yield

    @cached_property
    def _source(self) -> Source:
        """The client's data; found lazily, because most messages do not need them."""
        return Fixed(np.empty(0, np.int64)) if self._make_source is None else self._make_source(self._context, self.ask)

    def _keep(self, state: ClientState, promise: Promise | None) -> None:
        """Write what has changed; the promise first, so that no update leaves without it."""
        if promise is not None and promise != self.promise:
            self._device.keep(self.ask.run, promise)
            self.promise = promise
        if state != self.state:
            self._file.save(state)
            self.state = state

    def _clock(self) -> ClientAge:
        """Return the participation clock; a newcomer's age is a draw from the stationary law.

        A central selector draws no age: the newcomer has missed all rounds before its first one.
        """
        if self.state.age is not None:
            return self.state.age
        if self.ask.wire == protocol.CENTRAL:
            return ClientAge(last=0)
        return self._decider.newcomer(self.ask.round)

    @cached_property
    def _decider(self) -> Decider:
        node, run = self._context.node_config, self._context.run_config
        folder = str(node.get("model-dir") or run.get("model-dir") or ".")
        return make_decider(self.ask, self.state.seed, self.identity.number, folder)

    def _promised(self) -> Promise | None:
        """Return the strictest promise of all requests so far and the owner's rule, or None."""
        ask, owners = self.ask, rules.Rules.read(self._context.node_config).min_separation
        if self.promise is None and owners == 1 and not ask.private:
            return None
        age = self.state.age
        known = self.promise
        if known is None and age is not None:  # the first terms arrive in the middle of the run
            known = Promise(1, None, since=0, last=max(0, age.last))
        clear = bool(ask.clear) or not ask.private
        apart = max(owners, ask.min_separation or 1)
        return strictest(known, Promise(apart, ask.rounds, ask.round - 1, clear=clear, mu=ask.mu, delta=ask.delta))

    def _turn(self, clock: ClientAge) -> int | None:
        """Return the number of the last participation, if the rule counts them."""
        return self._decider.count(clock) if self.state.turn is None else self.state.turn

    def residuals(self) -> Residuals:
        """Return the residuals of compression."""
        return Residuals(self.identity.state_dir, self.identity.name, self._clock())

    def introduction(self) -> dict[str, int | str]:
        """Return the entries of the introduction that follow from the client's state."""
        entries: dict[str, int | str] = {"name": self.identity.name}
        entries["data-age"] = self._source.age(self._data(), self.ask.round)
        if self.identity.partition is not None:
            entries["number"] = self.identity.partition
        if self.state.age is not None and self.state.age.last >= 1:
            entries["last-round"] = self.state.age.last
        with self._changing():
            self._keep(self.state, self._promised())
        return entries

    def may_evaluate(self) -> bool:
        """Return whether the client may evaluate a model; its metrics have no noise."""
        with self._changing():
            promise = self._promised()
            self._keep(self.state, promise)
        return promise is None or promise.clear

    def training(self) -> Any:
        """Return a context that yields whether no other process of this client trains, and keeps it so."""
        return self._device.training()

    def bid(self, payment: float | None, sensitivity: float | None) -> Bid:
        """Compute the client's index of its data (Xu et al. 2024, Algorithm 1, steps 1 and 2)."""
        if payment is None:
            raise ConfigError(
                "payment", None, "configured for this client, which must bid", "Set payment in its node-config."
            )
        index, budget = self.ask.index, self.ask.budget
        if index in protocol.BY_SENSITIVITY and sensitivity is None:
            allowed = f"configured for this client, which must bid for {index!r}"
            raise ConfigError("sensitivity", None, allowed, "Set sensitivity in its node-config.")
        age = self._source.age(self._data(), self.ask.round)
        ages, payments, sensitivities = np.array([age]), np.array([payment]), np.array([sensitivity])
        match index, budget:
            case "maxpack", _:
                worth = whittle.maxpack_index(ages)
            case "abs", _:
                worth = whittle.abs_index(ages, payments, sensitivities)
            case "whittle", float():
                worth = whittle.whittle_index(ages, payments, sensitivities, budget)
            case _:
                allowed = f"a budget for which this client can bid under {index!r}"
                raise ConfigError("budget", budget, allowed, "Run server and client in the same version.")
        return Bid(name=self.identity.name, bid=float(worth[0]), payment=payment, age=age)

    def data_ages(self) -> dict[str, int]:
        """Refresh the data on request; return their age and the age of the data before them."""
        round_, clock = self.ask.round, self._data()
        if self.ask.refresh and clock.last < round_:  # a repeated message finds the data refreshed already
            self._source.refresh(round_)
            clock = clock.took_part(round_)
            with self._changing():
                self._keep(replace(self.state, data=clock), None)
        ages = {"data-age": 0 if self.ask.refresh else self._source.age(clock, round_) + 1}
        if self._source.keeps and clock.before is not None and clock.last <= round_:
            ages["previous-age"] = round_ - clock.before
        return ages

    def _data(self) -> ClientAge:
        return ClientAge(last=-self._source.first_age) if self.state.data is None else self.state.data

    def answer(self, *, trains: bool = False, alone: bool = True) -> ParticipationReply:
        """Decide by age, promise and the owner's rules; a forced client only by the last two.

        If a rule declines, the age goes on to grow, and a reservation for this round is drawn again for a later one. A
        repeated request then gets the same no, but without the rule's name.

        Parameters
        ----------
        trains : whether an update follows a yes; under a promise a round has one only, and a repeated question is free
        alone : whether no other process of this client trains; else it declines under a promise
        """
        with self._changing():
            return self._retire(self._decide(trains, alone))

    def _decide(self, trains: bool, alone: bool) -> ParticipationReply:
        ask, clock = self.ask, self._clock()
        turn = self._turn(clock)
        if ask.wire == protocol.RESERVE and not clock.due(ask.round) and (clock.reserved or 0) < ask.round:
            clock = self._decider.reserve(clock, turn, ask.round)
        match ask.wire:
            case protocol.CENTRAL:
                takes_part = True
            case protocol.RESERVE:
                takes_part = clock.due(ask.round)
            case _:
                takes_part = self._decider.willing(clock, turn, ask.round)
        takes_part = takes_part or ask.forced
        promise = self._promised()
        rule = refused_now(self._context.node_config) if takes_part else None
        again = self._simulated or not trains
        kept = promise is None or (alone and not promise.forbids(ask.round, repeats=again))
        trained = not again and promise is not None and promise.last == ask.round
        if trained:  # the process may have ended before it noted so in its age
            clock, turn = self._after(clock, turn)
        if takes_part and rule is None and not kept:
            rule = rules.SEPARATION
        if rule is not None and ask.wire == protocol.RESERVE and clock.reserved == ask.round:
            clock = self._decider.reserve(clock, turn, ask.round + 1)
        self._keep(replace(self.state, age=clock, turn=turn), promise)
        return ParticipationReply(
            name=self.identity.name,
            takes_part=takes_part and rule is None,
            age=clock.age(ask.round),
            next_round=clock.reserved,
            rule=rule,
            trained=trained or None,
        )

    def _after(self, clock: ClientAge, turn: int | None) -> tuple[ClientAge, int | None]:
        """Return age and count after this round's participation; the same again if they have it already."""
        before, round_, forced = clock, self.ask.round, self.ask.forced
        clock = before.took_part(round_, forced)
        if clock != before:
            turn = self._decider.after(before, turn, round_, forced)
        if self.ask.wire == protocol.RESERVE:
            clock = self._decider.reserve(clock, turn, round_ + 1)
        return clock, turn

    def took_part(self, answer: ParticipationReply) -> ParticipationReply:
        """Reset the age after training; in reserve mode draw the next round and report it."""
        with self._changing():
            before = self._clock()
            clock, turn = self._after(before, self._turn(before))
            promise = self._promised()
            if promise is not None:
                promise = replace(promise, last=max(promise.last, self.ask.round))
            self._keep(replace(self.state, age=clock, turn=turn), promise)
        return self._retire(replace(answer, next_round=clock.reserved), trained=True)

    def _retire(self, answer: ParticipationReply, trained: bool = False) -> ParticipationReply:
        """Sleep if that saves enough polls and the owner allows it; return the answer with the nap."""
        spent = time.monotonic() - self._asked
        following = poll_schedule.foretold(self.ask, answer, self._context.node_config, trained, spent)
        poll_schedule.lay_down(following, self._context.node_id)
        return replace(answer, sleeps=following.nap) if following.asleep else answer


def device_of(context: Context, who: Identity, *, bound: bool) -> Device:
    """Return a client's device.

    Raises
    ------
    Forbidden : the run or the owner binds the client, and the owner has set no folder that keeps its promises.
    """
    node = context.node_config
    if "state-dir" in node:
        return Device(Path(str(node["state-dir"])), who.name, durable=True)
    if not is_simulated(context) and (bound or not node.keys().isdisjoint(rules.KEYS)):
        allowed = "set in node.toml, because the client keeps its promises and its owner's rules there"
        raise Forbidden("state-dir", None, allowed, "Set it to a folder of this client.")
    check_gate(node)
    return Device(who.state_dir, who.name, durable=False)


def bound(context: Context) -> bool:
    """Return whether a promise or the owner's ``min-separation`` binds a client, whatever a message says."""
    node = context.node_config
    if is_simulated(context):
        return False
    return rules.SEPARATION in node or ("state-dir" in node and has_promised(Path(str(node["state-dir"]))))
