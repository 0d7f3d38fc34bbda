"""One client's state on disk around its pure decision (:mod:`aoi_fl.client.step`), and its data's age."""

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
from aoi_fl.client.freshness import Source
from aoi_fl.client.gate import rules
from aoi_fl.client.identity import Identity, identity
from aoi_fl.client.promises import Device, Forbidden, has_promised, refused_now
from aoi_fl.client.state import ClientState, StateFile
from aoi_fl.client.step import ClientMemory, Request, heard, step
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
        self._file = StateFile(self.identity.state_dir, self.identity.name)
        self._device = device_of(context, self.identity, bound=ask.private)
        self.state = ClientMemory(ClientState(self.identity.seed))
        with self._changing(read=True):
            pass

    @contextmanager
    def _changing(self, read: bool = False) -> Iterator[None]:
        """Hold the lock of the client's state, which is read again if another process may have changed it."""
        if self.identity.simulated and not read:
            yield
            return
        with self._device.locked():
            own, promise = self._file.load(self.identity.seed), self._device.load().runs.get(self.ask.run)
            if self._file.corrupt and promise is not None:  # nothing is known of what it has done
                promise = replace(promise, rounds=0)
                self._device.keep(self.ask.run, promise)
            if self.ask.token not in (None, own.token):
                own = ClientState(self.identity.seed, token=self.ask.token)
            self.state = ClientMemory(own, promise)
            yield

    @cached_property
    def _source(self) -> Source:
        """The client's data; found lazily, because most messages do not need them."""
        return Source() if self._make_source is None else self._make_source(self._context, self.ask)

    def _save(self, state: ClientMemory) -> None:
        """Write what has changed; the promise first, so that no update leaves without it."""
        if state.promise is not None and state.promise != self.state.promise:
            self._device.keep(self.ask.run, state.promise)
        if state.own != self.state.own:
            self._file.save(state.own)
        self.state = state

    def _request(self, **more: Any) -> Request:
        node, run = self._context.node_config, self._context.run_config
        folder = str(node.get("model-dir") or run.get("model-dir") or ".")
        apart = rules.Rules.read(node).min_separation
        return Request(self.ask, self.identity.name, self.identity.number, folder, apart, **more)

    def _heard(self) -> None:
        """Keep the strictest promise of all messages."""
        with self._changing():
            self._save(heard(self.state, self._request()))

    def residuals(self) -> Residuals:
        """Return the residuals of compression."""
        age = self.state.own.age or ClientAge(last=0)  # the client has answered this message
        return Residuals(self.identity.state_dir, self.identity.name, age)

    def introduction(self) -> dict[str, int | str]:
        """Return the entries of the introduction that follow from the client's state."""
        entries: dict[str, int | str] = {"name": self.identity.name}
        entries["data-age"] = self._source.age(self._data(), self.ask.round)
        if self.identity.partition is not None:
            entries["number"] = self.identity.partition
        if (age := self.state.own.age) is not None and age.last >= 1:
            entries["last-round"] = age.last
        self._heard()
        return entries

    def may_evaluate(self) -> bool:
        """Return whether the client may evaluate a model; its metrics have no noise."""
        self._heard()
        return self.state.promise is None or self.state.promise.clear

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
        """Refresh the data on request; return their age."""
        round_, clock = self.ask.round, self._data()
        if self.ask.refresh and clock.last < round_:  # a repeated message finds the data refreshed already
            self._source.refresh(round_)
            clock = clock.took_part(round_)
            with self._changing():
                self._save(replace(self.state, own=replace(self.state.own, data=clock)))
        return {"data-age": 0 if self.ask.refresh else self._source.age(clock, round_) + 1}

    def _data(self) -> ClientAge:
        return self.state.own.data or ClientAge(last=-self._source.first_age)

    def answer(self, *, trains: bool = False, alone: bool = True) -> ParticipationReply:
        """Decide about the request by :func:`aoi_fl.client.step.step`, whose request explains the parameters."""
        rule = refused_now(self._context.node_config)
        return self._step(rule=rule, trains=trains and not self.identity.simulated, alone=alone)

    def took_part(self, answer: ParticipationReply) -> ParticipationReply:
        """Reset the age after training; in reserve mode draw the next round and report it."""
        return self._step(answer)

    def _step(self, trained: ParticipationReply | None = None, **more: Any) -> ParticipationReply:
        """Decide and save; sleep if that saves enough polls and the owner allows it, and return the reply."""
        with self._changing():
            state, reply = step(self.state, self._request(**more), trained)
            self._save(state)
        spent = time.monotonic() - self._asked
        following = poll_schedule.foretold(self.ask, reply, self._context.node_config, trained is not None, spent)
        poll_schedule.lay_down(following, self._context.node_id)
        return replace(reply, sleeps=following.nap) if following.asleep else reply


def device_of(context: Context, who: Identity, *, bound: bool) -> Device:
    """Return a client's device.

    Raises
    ------
    Forbidden : the run or the owner binds the client, and the owner has set no folder that keeps its promises.
    """
    node = context.node_config
    if "state-dir" in node:
        return Device(Path(str(node["state-dir"])), who.name, durable=True)
    if (bound and not who.simulated) or not node.keys().isdisjoint(rules.KEYS):
        allowed = "set in node.toml, because the client keeps its promises and its owner's rules there"
        raise Forbidden("state-dir", None, allowed, "Set it to a folder of this client.")
    return Device(who.state_dir, who.name, durable=False)


def bound(context: Context) -> bool:
    """Return whether a promise binds a client, whatever a message says."""
    node = context.node_config
    return "state-dir" in node and has_promised(Path(str(node["state-dir"])))
