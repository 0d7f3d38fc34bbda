"""The client's half of the round protocol: a ``ClientApp`` that decides when it takes part.

Flower looks up a handler before it runs mods, so a mod cannot answer a query. This subclass answers ``query.*``,
declines by its state machine, keeps the state file, and passes ``train`` and ``evaluate`` to the user's functions.
These functions see the messages that Flower's own strategies send, without our record. Messages of other strategies
pass unchanged.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, cast

import flwr.clientapp
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

from aoi_fl import protocol
from aoi_fl.client import poll_schedule
from aoi_fl.client.compression import Sent, compress_update
from aoi_fl.client.envelope import opened
from aoi_fl.client.member import MakeSource, Member, bound
from aoi_fl.client.promises import Forbidden
from aoi_fl.flower.errors import CLIENT_APP_RAISED
from aoi_fl.flower.messages import with_content
from aoi_fl.protocol import FORMER_CLIENT, Introduction, ParticipationReply, ParticipationRequest, packing
from aoi_fl.protocol.arrays import config_key
from aoi_fl.protocol.own_code import is_stop, surviving
from aoi_fl.science.errors import ConfigError

Introduce: TypeAlias = Callable[[Context, ParticipationRequest], Mapping[str, bool | float | int | str]]
TrainMany: TypeAlias = Callable[[Sequence[Message], Sequence[Context]], Sequence[Message | None]]
AtOnce: TypeAlias = Callable[[Message, Context], int]
S = TypeVar("S", bound=MakeSource)
F = TypeVar("F")

logger = logging.getLogger("flwr")


class ClientApp(flwr.clientapp.ClientApp):
    """Flower's ``ClientApp`` with support of age-aware strategies.

    Examples
    --------
    >>> app = ClientApp()          # instead of flwr.clientapp.ClientApp
    >>> @app.train()
    ... def train(message, context): ...
    """

    def __init__(self, client_fn: object = None, mods: list[Any] | None = None) -> None:
        if client_fn is not None:
            raise ConfigError("client_fn", client_fn, "left out", FORMER_CLIENT)
        super().__init__(mods=mods)

    _introduce: Introduce | None = None
    _make_source: MakeSource | None = None
    _train_many: TrainMany | None = None
    _at_once: AtOnce | None = None

    def introduce(self) -> Callable[[Introduce], Introduce]:
        """Register the handler of the roll call.

        The function receives the context and the request. It returns a mapping with any of ``num-examples``,
        ``payment`` and ``sensitivity``. Without a function ``node_config`` provides them.
        """
        return self._register("_introduce")

    def source(self) -> Callable[[S], S]:
        """Register the function that makes a client's data source for budgeted strategies.

        The function receives the context and the request. The configuration of ``train`` then has ``data-age``.
        """
        return self._register("_make_source")

    def train_many(self, at_once: AtOnce) -> Callable[[TrainMany], TrainMany]:
        """Register the function that trains many clients at once, for an engine with one process.

        The function receives the clients' messages and contexts and returns a reply for each. None leaves a client to
        the function registered with ``train``; only that function runs with Flower's mods and lifespan. ``at_once``
        receives the first message and context, and returns the largest number of clients to train together.
        """
        self._at_once = at_once
        return self._register("_train_many")

    def _register(self, name: str) -> Callable[[F], F]:
        def register(function: F) -> F:
            vars(self)[name] = function
            return function

        return register

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer a query, or train or evaluate; the reply to a packed message is packed."""
        if not packing.is_packed(message):
            return self._respond(message, context)
        reply = self._respond(with_content(message, packing.unpack(message.content)), context)
        if reply.has_content():
            reply.content = packing.pack(reply.content)
        return reply

    def _respond(self, message: Message, context: Context) -> Message:
        try:
            return self._answer(message, context)
        except Forbidden as error:
            return Message(Error(CLIENT_APP_RAISED, str(error)), reply_to=message)

    def _answer(self, message: Message, context: Context) -> Message:
        on_data = protocol.category(message.metadata.message_type) in (protocol.TRAIN, protocol.EVALUATE)
        if not message.has_content() or protocol.AOI not in message.content:
            if on_data and bound(context):
                remedy = "Start the run with a strategy of aoi_fl.strategies."
                raise Forbidden("message", message.metadata.message_type, "of an age-aware strategy", remedy)
            return self._play(message, context)
        ask = _ask(message)
        poll_schedule.lay_down(poll_schedule.foretold(ask, None, context.node_config), context.node_id)
        member = self._member(message, context, ask)
        match message.metadata.message_type:
            case protocol.HELLO:
                about = self._introduction(context, member)
                if ask.wire in protocol.ASKING:  # the client decides at once
                    return _reply(message, about, member.answer())
                return _reply(message, about)
            case protocol.PARTICIPATE:
                return _reply(message, member.answer())
            case protocol.BID:
                about = self._introduction(context, member)
                return _reply(message, member.bid(about.payment, about.sensitivity))
            case kind if protocol.category(kind) == protocol.TRAIN:
                return self._train(message, context, member)
        if on_data and not member.may_evaluate():
            remedy = "Set metrics to clear if they may be seen."
            raise Forbidden("metrics", None, "clear for an evaluation in a private run", remedy)
        with opened(message, context, ask) as handed:
            reply = self._play(handed, context)
        if on_data and ask.ahead and reply.has_content():
            # The message with the model also asks about the next round.
            following = Member(context, replace(ask, round=ask.round + 1))
            reply.content[protocol.AOI] = ConfigRecord(following.answer().write())
        return reply

    def at_once(self, message: Message, context: Context) -> int:
        """Return how many clients :meth:`train_together` may train, starting with this one."""
        kind = message.metadata.message_type
        if self._at_once is None or kind != protocol.TRAIN or protocol.AOI not in message.content:
            return 1
        with surviving(), opened(message, context, _ask(message)) as handed:
            return self._at_once(handed, context)
        return 1  # the client's own reply reports the error

    def train_together(self, messages: Sequence[Message], contexts: Sequence[Context]) -> list[Message | None]:
        """Answer many clients' train messages at once; None for a client that has to train alone.

        A client with an error trains alone, so that its own reply reports it. If the function fails, all train alone.
        """
        replies: list[Message | None] = [None] * len(messages)
        willing: dict[int, tuple[Member, ParticipationReply, Message]] = {}
        with ExitStack() as stack:
            for i, (message, context) in enumerate(zip(messages, contexts, strict=True)):
                with surviving():
                    member = self._member(message, context, _ask(message))
                    answer = member.answer(trains=True, alone=stack.enter_context(member.training()))
                    if answer.takes_part:
                        handed = stack.enter_context(opened(message, context, member.ask))
                        self._note_ages(handed, member)
                        willing[i] = member, answer, handed
                    else:
                        replies[i] = _reply(message, answer)
            if self._train_many is None or len(willing) < 2:
                return replies
            sent = {i: Sent.with_(handed) for i, (_, _, handed) in willing.items()}
            try:
                trained = self._train_many(
                    [handed for _, _, handed in willing.values()], [contexts[i] for i in willing]
                )
            except BaseException as error:
                if is_stop(error):
                    raise
                logger.warning("Training %d clients together failed (%r). They train one by one.", len(willing), error)
                return replies
            for (i, (member, answer, _)), reply in zip(willing.items(), trained, strict=True):
                with suppress(Exception):
                    replies[i] = None if reply is None else _conclude(reply, sent[i], member, answer)
        return replies

    def sits_out(self, message: Message, context: Context) -> Message | None:
        """Return the reply of a client that declines a broadcast model; None for any other message.

        An engine calls it to know in advance which clients train. A repeated message gets the same reply.
        """
        if protocol.category(message.metadata.message_type) != protocol.TRAIN or protocol.AOI not in message.content:
            return None
        with surviving():  # the client's own reply reports the error
            ask = _ask(message)
            if ask.wire == protocol.BROADCAST:
                answer = self._member(message, context, ask).answer()
                return None if answer.takes_part else _reply(message, answer)
        return None

    def _play(self, message: Message, context: Context) -> Message:
        """Return the reply of the user's function."""
        return checked(super().__call__(message, context), message)

    def _member(self, message: Message, context: Context, ask: ParticipationRequest) -> Member:
        return Member(context, ask, self._make_source, message.metadata.created_at)

    def _introduction(self, context: Context, member: Member) -> Introduction:
        try:
            about = context.node_config if self._introduce is None else self._introduce(context, member.ask)
        except ConfigError as error:
            raise error.within(f"client {member.identity.name}") from error
        entries = {k: about[k] for k in ("num-examples", "payment", "sensitivity") if k in about}
        tags = {"tags": str(context.node_config["tags"])} if "tags" in context.node_config else {}
        return Introduction.read({**entries, **tags, **member.introduction(), "packing": packing.FORM})

    def _train(self, message: Message, context: Context, member: Member) -> Message:
        with member.training() as alone:
            answer = member.answer(trains=True, alone=alone)
            if not answer.takes_part:
                return _reply(message, answer)
            with opened(message, context, member.ask) as handed:
                self._note_ages(handed, member)
                sent = Sent.with_(handed)
                reply = self._play(handed, context)
            return _conclude(reply, sent, member, answer)

    def _note_ages(self, message: Message, member: Member) -> None:
        """Refresh the data on request, and write their ages into the configuration."""
        # A refresh records its round even without a source.
        if member.ask.refresh or self._make_source is not None:
            key = config_key(message.content)
            config = cast(ConfigRecord, message.content.get(key, ConfigRecord()))
            message.content[key] = ConfigRecord({**config, **member.data_ages()})


def checked(reply: object, message: Message) -> Message:
    """Return the result of a user's function if it is a message, else raise ConfigError."""
    if not isinstance(reply, Message):
        kind = f"what the function for {message.metadata.message_type} returned"
        remedy = FORMER_CLIENT if isinstance(reply, tuple) else "Return Message(RecordDict({...}), reply_to=message)."
        raise ConfigError(kind, f"a {type(reply).__name__}", "a Message", remedy)
    return reply


def _ask(message: Message) -> ParticipationRequest:
    return ParticipationRequest.read(message.content[protocol.AOI])


def _reply(message: Message, *records: protocol.Record) -> Message:
    values = {key: value for record in records for key, value in record.write().items()}
    return Message(RecordDict({protocol.AOI: ConfigRecord(values)}), reply_to=message)


def _conclude(reply: Message, sent: Sent, member: Member, answer: ParticipationReply) -> Message:
    """Compress an update on request and reset the age; without an update the age stays."""
    if reply.has_content():
        answer = compress_update(reply, sent, member.ask, member.residuals(), answer)
        reply.content[protocol.AOI] = ConfigRecord(member.took_part(answer).write())
    return reply


def attach(app: flwr.clientapp.ClientApp) -> ClientApp:
    """Return an app that supports age-aware strategies and calls ``app`` to train and evaluate.

    Functions registered with either app are used, with mods and lifespan. Use the returned app; ``app`` itself does not
    change.

    Raises
    ------
    ConfigError : ``app`` is no ``ClientApp``, or has Flower's former interface.

    Examples
    --------
    >>> app = attach(flwr.clientapp.ClientApp())
    >>> @app.train()
    ... def train(message, context): ...
    """
    if not isinstance(app, flwr.clientapp.ClientApp):
        raise ConfigError(
            "app", app, "a ClientApp", "Give attach the ClientApp itself, not the function that makes it."
        )
    if getattr(app, "_call", None) is not None:  # Flower sets it for a client_fn
        raise ConfigError("app", "a ClientApp with a client_fn", "one of Flower's present interface", FORMER_CLIENT)
    return app if isinstance(app, ClientApp) else _Attached(app)


class _Attached(ClientApp):
    """An age-aware app that wraps a plain app."""

    def __init__(self, app: flwr.clientapp.ClientApp) -> None:
        super().__init__()
        self._app = app
        # A function registered with this app is registered with the plain app.
        vars(self).update(train=app.train, evaluate=app.evaluate, query=app.query, lifespan=app.lifespan)

    def _play(self, message: Message, context: Context) -> Message:
        return checked(self._app(message, context), message)
