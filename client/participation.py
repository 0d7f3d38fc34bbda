"""The client half of the round protocol: a ``ClientApp`` that decides for itself when to take part.

Flower looks a handler up before it runs mods, so a mod cannot answer a question. This subclass does: it answers
``query.*``, declines where its state machine says so, keeps the state file, and passes ``train`` and ``evaluate`` to the
functions the user registered. Messages that do not come from an age-aware strategy pass through untouched.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import flwr.clientapp
from flwr.app import ConfigRecord, Context, Message, RecordDict

from aoi import protocol
from aoi.age import ClientAge
from aoi.draws import uniform
from aoi.protocol import Answer, Ask, Introduction
from client.identity import Identity, identity
from client.state import ClientState, StateFile

Introduce = Callable[[Context, Ask], Mapping[str, Any]]


class ClientApp(flwr.clientapp.ClientApp):  # type: ignore[misc]
    """Flower's ``ClientApp``, able to meet an age-aware strategy.

    Examples
    --------
    >>> app = ClientApp()          # in place of flwr.clientapp.ClientApp
    >>> @app.train()
    ... def train(message, context): ...
    """

    _introduce: Introduce | None = None

    def introduce(self) -> Callable[[Introduce], Introduce]:
        """Register what a client says of itself in the roll call: a mapping with any of ``num-examples``,
        ``payment`` and ``weight``. Without it they are looked for in ``node_config``.
        """

        def register(function: Introduce) -> Introduce:
            self._introduce = function
            return function

        return register

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer a question, or train or evaluate if this client takes part."""
        if not message.has_content() or protocol.AOI not in message.content:
            return super().__call__(message, context)
        ask = Ask.read(message.content[protocol.AOI])
        match message.metadata.message_type:
            case protocol.HELLO:
                return _reply(message, self._introduction(context, ask))
            case protocol.PARTICIPATE:
                return _reply(message, Member(context, ask).answer())
            case protocol.TRAIN:
                return self._train(message, context, Member(context, ask))
            case _:
                return super().__call__(message, context)

    def _introduction(self, context: Context, ask: Ask) -> Introduction:
        who = identity(context, ask.run)
        about = context.node_config if self._introduce is None else self._introduce(context, ask)
        known = {k: about[k] for k in ("num-examples", "payment", "weight") if k in about}
        age = StateFile(who.state_dir, who.name).load(who.seed).age
        last = {} if age is None or age.last < 1 else {"last-round": age.last}
        number = {} if who.partition is None else {"number": who.partition}
        return Introduction.read({"name": who.name, **number, **known, **last})

    def _train(self, message: Message, context: Context, member: "Member") -> Message:
        answer = member.answer()
        if not answer.takes_part:
            return _reply(message, answer)
        reply = super().__call__(message, context)
        if reply.has_content():  # the age resets when the update is made, not when the client says yes
            reply.content[protocol.AOI] = ConfigRecord(member.took_part(answer).write())
        return reply


class Member:
    """One client in one round of one run: its state, and what the state machine makes of an ask.

    Nothing is written unless it changed, and a repeated ask gets the same answer (DESIGN, promises 2 and 3).
    """

    def __init__(self, context: Context, ask: Ask) -> None:
        self.ask = ask
        self.who: Identity = identity(context, ask.run)
        self._file = StateFile(self.who.state_dir, self.who.name)
        self.state: ClientState = self._file.load(self.who.seed)

    def _draw(self, purpose: str, round_: int) -> float:
        return uniform(self.state.seed, round_, purpose, self.who.number)

    def _keep(self, **changes: Any) -> None:
        state = replace(self.state, **changes)
        if state != self.state:
            self._file.save(state)
            self.state = state

    def _clock(self) -> ClientAge:
        """Return the participation clock; a newcomer to an age policy starts at an age drawn from its stationary law.

        Under a central selector nothing is drawn: the client has missed the rounds before the one it joins in.
        """
        if self.state.age is not None:
            return self.state.age
        if self.ask.wire == protocol.CENTRAL:
            return ClientAge(last=0)
        return ClientAge.newcomer(self.ask.table, self.ask.round, self._draw("first-age", self.ask.round))

    def answer(self) -> Answer:
        """Decide. Only a forced client does not decide for itself, and the server records it as forced."""
        ask, clock = self.ask, self._clock()
        if ask.wire == protocol.RESERVE and not clock.due(ask.round) and (clock.reserved or 0) < ask.round:
            clock = clock.reserve(ask.table, ask.round, self._draw("reserve", ask.round))
        self._keep(age=clock)
        match ask.wire:
            case protocol.CENTRAL:
                takes_part = True
            case protocol.RESERVE:
                takes_part = clock.due(ask.round)
            case _:
                takes_part = clock.willing(ask.table, ask.round, self._draw("participate", ask.round))
        return Answer(
            name=self.who.name,
            takes_part=takes_part or ask.forced,
            age=clock.age(ask.round),
            next_round=clock.reserved,
        )

    def took_part(self, answer: Answer) -> Answer:
        """Reset the age after the update has been produced, draw the next wait in reserve mode, and say so."""
        clock = self._clock().took_part(self.ask.round)
        if self.ask.wire == protocol.RESERVE:
            following = self.ask.round + 1
            clock = clock.reserve(self.ask.table, following, self._draw("reserve", following))
        self._keep(age=clock)
        return replace(answer, next_round=clock.reserved)


def _reply(message: Message, record: protocol.Record) -> Message:
    return Message(RecordDict({protocol.AOI: ConfigRecord(record.write())}), reply_to=message)
