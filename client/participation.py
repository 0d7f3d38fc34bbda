"""The client's half of the round protocol: a ``ClientApp`` that decides when it takes part.

Flower looks up a handler before it runs mods, so a mod cannot answer a query. This subclass answers ``query.*``,
declines by its state machine, keeps the state file, and passes ``train`` and ``evaluate`` to the user's functions.
These functions see the messages that Flower's own strategies send, without our record. Messages of other strategies
pass unchanged.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeAlias, TypeVar

import flwr.clientapp
from flwr.app import Context, Error, Message

from aoi_fl import protocol
from aoi_fl.client.envelope import opened
from aoi_fl.client.member import Introduce, MakeSource, Member, reply_with
from aoi_fl.client.promises import Forbidden, is_bound
from aoi_fl.flower.errors import CLIENT_APP_RAISED
from aoi_fl.protocol import FORMER_CLIENT, packing
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.own_code import is_stop, surviving
from aoi_fl.science.errors import ConfigError

TrainMany: TypeAlias = Callable[[Sequence[Message], Sequence[Context]], Sequence[Message | None]]
AtOnce: TypeAlias = Callable[[Message, Context], int]
S = TypeVar("S", bound=MakeSource)
F = TypeVar("F")


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

    _app: flwr.clientapp.ClientApp | None = None  # the plain app that this one wraps
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
        try:
            with opened(message, context) as (ask, handed):
                if ask is None:
                    kind = message.metadata.message_type
                    if protocol.category(kind) in (protocol.TRAIN, protocol.EVALUATE) and is_bound(context.node_config):
                        remedy = "Start the run with a strategy of aoi_fl.strategies."
                        raise Forbidden("message", kind, "of an age-aware strategy", remedy)
                    reply = self._play(handed, context)
                else:
                    member = self._member(handed, context, ask)
                    with member.training_lock(handed) as alone:
                        response = member.respond(handed, alone=alone)
                        reply = member.complete_reply(self._play(handed, context)) if response is None else response
        except Forbidden as error:
            reply = Message(Error(CLIENT_APP_RAISED, str(error)), reply_to=message)
        if packing.is_packed(message) and reply.has_content():
            reply.content = packing.pack(reply.content)
        return reply

    def at_once(self, message: Message, context: Context) -> int:
        """Return how many clients :meth:`train_together` may train, starting with this one."""
        if self._at_once is None or message.metadata.message_type != protocol.TRAIN:
            return 1
        with surviving(), opened(message, context) as (ask, handed):
            return 1 if ask is None else self._at_once(handed, context)
        return 1  # the client's own reply reports the error

    def train_together(self, messages: Sequence[Message], contexts: Sequence[Context]) -> list[Message | None]:
        """Answer many clients' train messages at once; None for a client that has to train alone.

        A client with an error trains alone, so that its own reply reports it. If the function fails, all train alone.
        """
        replies: list[Message | None] = [None] * len(messages)
        willing: dict[int, tuple[Member, Message]] = {}
        with ExitStack() as stack:
            for i, (message, context) in enumerate(zip(messages, contexts, strict=True)):
                with surviving():
                    ask, handed = stack.enter_context(opened(message, context))
                    if ask is not None:
                        member = self._member(handed, context, ask)
                        replies[i] = member.respond(handed, alone=stack.enter_context(member.training_lock(handed)))
                        if replies[i] is None:
                            willing[i] = member, handed
            if self._train_many is None or len(willing) < 2:
                return replies
            try:
                trained = self._train_many([handed for _, handed in willing.values()], [contexts[i] for i in willing])
            except BaseException as error:
                if is_stop(error):
                    raise
                logger.warning("Training %d clients together failed (%r). They train one by one.", len(willing), error)
                return replies
            for (i, (member, _)), reply in zip(willing.items(), trained, strict=True):
                with suppress(Exception):
                    replies[i] = None if reply is None else member.complete_reply(reply)
        return replies

    def sits_out(self, message: Message, context: Context) -> Message | None:
        """Return the reply of a client that declines a broadcast model; None for any other message.

        An engine calls it to know in advance which clients train. A repeated message gets the same reply.
        """
        if protocol.category(message.metadata.message_type) != protocol.TRAIN:
            return None
        # The client's own reply reports an error.
        with surviving(), opened(message, context) as (ask, handed):
            if ask is not None and ask.wire == protocol.BROADCAST:
                answer = self._member(handed, context, ask).answer()
                return None if answer.takes_part else reply_with(handed, answer)
        return None

    def _member(self, message: Message, context: Context, ask: protocol.ParticipationRequest) -> Member:
        return Member(context, ask, self._introduce, self._make_source, message.metadata.created_at)

    def _play(self, message: Message, context: Context) -> Message:
        """Return the reply of the user's function; raise ConfigError if it is no message."""
        reply: object = super().__call__(message, context) if self._app is None else self._app(message, context)
        if isinstance(reply, Message):
            return reply
        kind = f"what the function for {message.metadata.message_type} returned"
        remedy = FORMER_CLIENT if isinstance(reply, tuple) else "Return Message(RecordDict({...}), reply_to=message)."
        raise ConfigError(kind, f"a {type(reply).__name__}", "a Message", remedy)


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
    if isinstance(app, ClientApp):
        return app
    ours = ClientApp()
    # A function registered with this app is registered with the plain app.
    vars(ours).update(_app=app, train=app.train, evaluate=app.evaluate, query=app.query, lifespan=app.lifespan)
    return ours
