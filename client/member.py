"""One client in a round: its state on disk around its pure decision (:mod:`aoi_fl.client.step`), and its data's age."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from flwr.app import Array, ConfigRecord, Context, Message, RecordDict

from aoi_fl import protocol
from aoi_fl.client import poll_schedule
from aoi_fl.client.compression import compress_update
from aoi_fl.client.freshness import Source
from aoi_fl.client.gate import rules
from aoi_fl.client.identity import identity
from aoi_fl.client.promises import Forbidden, device_of, promise_after, refused_now
from aoi_fl.client.state import ClientState, StateFile
from aoi_fl.client.step import ClientMemory, Request, step
from aoi_fl.protocol import Bid, Introduction, ParticipationReply, ParticipationRequest, packing
from aoi_fl.protocol.arrays import add_to_config, model_of
from aoi_fl.science import whittle
from aoi_fl.science.age import ClientAge
from aoi_fl.science.errors import ConfigError

Introduce: TypeAlias = Callable[[Context, ParticipationRequest], Mapping[str, bool | float | int | str]]
MakeSource: TypeAlias = Callable[[Context, ParticipationRequest], Source]


class Member:
    """One client in one round of one run.

    A message to it gets a *response*: it is answered, or it goes to the app's function. The function's reply is
    *completed*. Only changed state is written, and a repeated message gets the same reply.

    Parameters
    ----------
    context, ask : the client's, and the request
    introduce : describes the client; None: its node's configuration does
    make_source : makes the source of its data
    sent : the time of the request, in seconds since the epoch; None: now
    """

    def __init__(
        self,
        context: Context,
        ask: ParticipationRequest,
        introduce: Introduce | None = None,
        make_source: MakeSource | None = None,
        sent: float | None = None,
    ) -> None:
        node, self._context = context.node_config, context
        poll_schedule.lay_down(poll_schedule.foretold(ask, None, node), context.node_id)
        self._asked = time.monotonic() - (0.0 if sent is None else poll_schedule.waited(sent))
        self.ask, self._introduce, self._make_source = ask, introduce, make_source
        self._accepted: tuple[str | None, Mapping[str, Array]] | None = None  # the model to train
        self.identity = identity(context, ask.run, private=ask.private)
        self._file = StateFile(self.identity.state_dir, self.identity.name)
        self._device = device_of(node, self.identity, private=ask.private)
        self.state = ClientMemory(ClientState(self.identity.seed))
        with self._changing(read=True):
            apart = rules.Rules.read(node).min_separation
            promise = promise_after(self.state.promise, self.state.own.age, ask, apart)
            self._save(replace(self.state, promise=promise))

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

    def _save(self, state: ClientMemory) -> None:
        """Write what has changed; the promise first, so that no update leaves without it."""
        if state.promise is not None and state.promise != self.state.promise:
            self._device.keep(self.ask.run, state.promise)
        if state.own != self.state.own:
            self._file.save(state.own)
        self.state = state

    def training_lock(self, message: Message) -> AbstractContextManager[bool]:
        """Return a context that yields whether no other process of this client trains, and keeps it so."""
        trains = protocol.category(message.metadata.message_type) == protocol.TRAIN
        return self._device.training() if trains else nullcontext(True)

    def respond(self, message: Message, *, alone: bool) -> Message | None:
        """Return the reply to an opened message; None: the app's function is to handle the message.

        Parameters
        ----------
        message : a train message receives the age of its data
        alone : what :meth:`training_lock` yields

        Raises
        ------
        Forbidden : in a private run the client may not evaluate the model.
        """
        kind = message.metadata.message_type
        records: list[protocol.Record]
        match kind:
            case protocol.HELLO:
                records = [self.introduction()]
                if self.ask.wire in protocol.ASKING:  # the client decides at once
                    records.append(self.answer())
            case protocol.PARTICIPATE:
                records = [self.answer()]
            case protocol.BID:
                records = [self.bid(self.introduction())]
            case _ if protocol.category(kind) == protocol.TRAIN:
                answer = self.answer(trains=True, alone=alone)
                if answer.takes_part:
                    # A refresh records its round even without a source.
                    if self.ask.refresh or self._make_source is not None:
                        add_to_config(message.content, "data-age", self.data_age())
                    self._accepted = model_of(message.content)
                    return None
                records = [answer]
            case _:
                promise = self.state.promise
                if protocol.category(kind) == protocol.EVALUATE and promise is not None and not promise.clear:
                    remedy = "Set metrics to clear if they may be seen."
                    raise Forbidden("metrics", None, "clear for an evaluation in a private run", remedy)
                return None
        return reply_with(message, *records)

    def complete_reply(self, reply: Message) -> Message:
        """Compress an update on request and reset the age; without an update the age stays.

        The message with a model to evaluate may also ask about the next round.
        """
        if not reply.has_content():
            return reply
        if self._accepted is not None:
            clock = self.state.own.age or ClientAge(last=0)  # the client has answered this message
            code = compress_update(reply, self._accepted, self.ask, self.identity, clock)
            answer = replace(self._step(trained=True), **code)
        elif self.ask.ahead:
            answer = Member(self._context, replace(self.ask, round=self.ask.round + 1)).answer()
        else:
            return reply
        reply.content[protocol.AOI] = ConfigRecord(answer.write())
        return reply

    def introduction(self) -> Introduction:
        """Introduce the client: what the app says of it, and what follows from its state."""
        node = self._context.node_config
        try:
            about = node if self._introduce is None else self._introduce(self._context, self.ask)
        except ConfigError as error:
            raise error.within(f"client {self.identity.name}") from error
        entries: dict[str, Any] = {k: about[k] for k in ("num-examples", "payment", "sensitivity") if k in about}
        if "tags" in node:
            entries["tags"] = str(node["tags"])
        if self.identity.partition is not None:
            entries["number"] = self.identity.partition
        if (age := self.state.own.age) is not None and age.last >= 1:
            entries["last-round"] = age.last
        source, clock = self._data()
        entries |= {"name": self.identity.name, "data-age": source.age(clock, self.ask.round), "packing": packing.FORM}
        return Introduction.read(entries)

    def bid(self, about: Introduction) -> Bid:
        """Compute the client's index of its data (Xu et al. 2024, Algorithm 1, steps 1 and 2)."""
        if about.payment is None:
            raise ConfigError(
                "payment", None, "configured for this client, which must bid", "Set payment in its node-config."
            )
        index, budget = self.ask.index, self.ask.budget
        if index in protocol.BY_SENSITIVITY and about.sensitivity is None:
            allowed = f"configured for this client, which must bid for {index!r}"
            raise ConfigError("sensitivity", None, allowed, "Set sensitivity in its node-config.")
        age = about.data_age or 0
        ages, payments, sensitivities = np.array([age]), np.array([about.payment]), np.array([about.sensitivity])
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
        return Bid(name=about.name, bid=float(worth[0]), payment=about.payment, age=age)

    def data_age(self) -> int:
        """Refresh the data on request; return their age after the decision."""
        round_, (source, clock) = self.ask.round, self._data()
        if not self.ask.refresh:
            return source.age(clock, round_) + 1
        if clock.last < round_:  # a repeated message finds the data refreshed already
            source.refresh(round_)
            with self._changing():
                self._save(replace(self.state, own=replace(self.state.own, data=clock.took_part(round_))))
        return 0

    def _data(self) -> tuple[Source, ClientAge]:
        """Return the source of the data, and their clock."""
        source = Source() if self._make_source is None else self._make_source(self._context, self.ask)
        return source, self.state.own.data or ClientAge(last=-source.first_age)

    def answer(self, *, trains: bool = False, alone: bool = True) -> ParticipationReply:
        """Decide about the request by :func:`aoi_fl.client.step.step`, whose request explains the parameters."""
        rule = refused_now(self._context.node_config)
        return self._step(rule=rule, trains=trains and not self.identity.simulated, alone=alone)

    def _step(self, trained: bool = False, **more: Any) -> ParticipationReply:
        """Decide and save; sleep if that saves enough polls and the owner allows it, and return the reply."""
        context, node = self._context, self._context.node_config
        folder = str(node.get("model-dir") or context.run_config.get("model-dir") or ".")
        request = Request(self.ask, self.identity.name, self.identity.number, folder, trained=trained, **more)
        with self._changing():
            state, reply = step(self.state, request)
            self._save(state)
        spent = time.monotonic() - self._asked
        following = poll_schedule.foretold(self.ask, reply, node, trained, spent)
        poll_schedule.lay_down(following, context.node_id)
        return replace(reply, sleeps=following.nap) if following.asleep else reply


def reply_with(message: Message, *records: protocol.Record) -> Message:
    """Return the reply to a message with our record, of these parts."""
    values = {key: value for record in records for key, value in record.write().items()}
    return Message(RecordDict({protocol.AOI: ConfigRecord(values)}), reply_to=message)
