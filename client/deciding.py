"""How a client decides whether it takes part: by a table, by a stride, or by a rule of its owner's own code.

A decider is a function of the terms that came with a message, and of the client's seed and number. What the client
remembers is its :class:`aoi_fl.science.age.ClientAge`, and the number of its last participation where that is counted.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science.age import ClientAge
from aoi_fl.science.draws import uniform
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.phases import PHASE
from aoi_fl.science.strides import ClientStride

_LONGEST = 10_000  # rounds in which a rule of one's own has to take part once


class Decider(Protocol):
    """Decides for one client; ``turn`` is the number of its last participation, None where it is not counted."""

    def newcomer(self, round_: int) -> ClientAge:
        """Return the clock of a client that joins in a round."""

    def turn(self, clock: ClientAge) -> int | None:
        """Return the number of the last participation of a client that has not counted yet."""

    def willing(self, clock: ClientAge, turn: int | None, round_: int) -> bool:
        """Decide for a round; a repeated round gets the same answer."""

    def reserve(self, clock: ClientAge, turn: int | None, round_: int) -> ClientAge:
        """Draw the round to take part in next, ``round_`` or later."""

    def after(self, turn: int | None, round_: int, forced: bool) -> int | None:
        """Return the number of the participation in a round."""


class ByTable:
    """Decides by the probability for its age."""

    def __init__(self, ask: ParticipationRequest, seed: int, number: int) -> None:
        self._table, self._seed, self._number = ask.table, seed, number

    def newcomer(self, round_: int) -> ClientAge:
        """Return the clock of a client whose age follows the stationary law."""
        return ClientAge.newcomer(self._table, round_, self._draw("first-age", round_))

    def turn(self, clock: ClientAge) -> int | None:
        """Return None: participations are not counted."""
        return None

    def willing(self, clock: ClientAge, turn: int | None, round_: int) -> bool:
        """Flip the coin of the client's age."""
        return clock.willing(self._table, round_, self._draw("participate", round_))

    def reserve(self, clock: ClientAge, turn: int | None, round_: int) -> ClientAge:
        """Draw the whole wait at once."""
        return clock.reserve(self._table, round_, self._draw("reserve", round_))

    def after(self, turn: int | None, round_: int, forced: bool) -> int | None:
        """Return what was known."""
        return turn

    def _draw(self, purpose: str, round_: int) -> float:
        return uniform(self._seed, round_, purpose, self._number)


class ByStride:
    """Decides by rate and phase; a phase that it was not given is its own draw."""

    def __init__(self, ask: ParticipationRequest, seed: int, number: int) -> None:
        phase = uniform(seed, 0, PHASE, number) if ask.phase is None else ask.phase
        self._stride = _stride(ask.rate or 0.0, phase, ask.jitter or 0.0, seed, number, ask.shift or 0.0)

    def newcomer(self, round_: int) -> ClientAge:
        """Return the clock of a client that has always been there."""
        return ClientAge(last=self._stride.last_round(round_))

    def turn(self, clock: ClientAge) -> int | None:
        """Return the number of the last participation that was due."""
        return self._stride.count(clock.last)

    def willing(self, clock: ClientAge, turn: int | None, round_: int) -> bool:
        """Take part if a participation is due that was not taken yet."""
        if turn is None or (clock.last == round_ and not clock.forced):  # this repeats the round
            return True
        return self._stride.count(round_) > turn

    def reserve(self, clock: ClientAge, turn: int | None, round_: int) -> ClientAge:
        """Reserve the round of the next participation."""
        return replace(clock, reserved=max(round_, self._stride.round_of((turn or 0) + 1)))

    def after(self, turn: int | None, round_: int, forced: bool) -> int | None:
        """Count a participation; a forced one makes up for none."""
        return None if turn is None else max(self._stride.count(round_), turn if forced else turn + 1)


_stride = lru_cache(maxsize=4096)(ClientStride)  # a process that holds many clients comes back to each of them


class ByOwnRule:
    """Decides by a rule of one's own code, which the client loads itself.

    A round is reserved by the draws that the client would make round by round.

    Raises
    ------
    ConfigError
        The code cannot be used, or is another than the server's.
    """

    def __init__(self, ask: ParticipationRequest, seed: int, number: int, folder: str) -> None:
        self._seed, self._number = seed, number
        self._rule = _own_rule(ask.rule or "", ask.rule_source or "", folder, ask.clients or 1, ask.per_round or 1)

    def newcomer(self, round_: int) -> ClientAge:
        """Return the clock of a client with the rule's first age."""
        first = self._rule.first_age(round_, np.array([self._draw("first-age", round_)]))
        return ClientAge(last=round_ - 1 - int(first[0]))

    def turn(self, clock: ClientAge) -> int | None:
        """Return None: participations are not counted."""
        return None

    def willing(self, clock: ClientAge, turn: int | None, round_: int) -> bool:
        """Ask the rule."""
        return self._takes_part(clock.age(round_), round_)

    def reserve(self, clock: ClientAge, turn: int | None, round_: int) -> ClientAge:
        """Reserve the first round in which the rule takes part."""
        age = clock.age(round_)
        for later in range(_LONGEST):
            if self._takes_part(age + later, round_ + later):
                return replace(clock, reserved=round_ + later)
        raise ConfigError(
            "policy",
            None,
            f"a rule that takes part in one of {_LONGEST} rounds from {round_} on",
            "Raise its probabilities, or choose another coordination than reserve.",
        )

    def after(self, turn: int | None, round_: int, forced: bool) -> int | None:
        """Return what was known."""
        return turn

    def _takes_part(self, age: int, round_: int) -> bool:
        u = np.array([self._draw("participate", round_)])
        return bool(self._rule.participates(np.array([age], np.int64), round_, u)[0])

    def _draw(self, purpose: str, round_: int) -> float:
        return uniform(self._seed, round_, purpose, self._number)


@lru_cache(maxsize=8)
def _own_rule(name: str, source: str, folder: str, clients: int, per_round: int) -> Any:
    from aoi_fl.protocol.own_code import source_digest
    from aoi_fl.protocol.own_rule import make_rule

    if (here := source_digest("policy", name, folder)) != source:
        raise ConfigError(
            "policy",
            name,
            f"the server's, digest {source[:12]}…; the module here has {here[:12]}…",
            "Copy the server's file.",
        )
    return make_rule(name, folder, clients, per_round)


def make_decider(ask: ParticipationRequest, seed: int, number: int, folder: str) -> Decider:
    """Return what decides by the terms of a message.

    Parameters
    ----------
    ask : the terms
    seed, number : of the client's draws
    folder : where a rule of one's own is looked for first
    """
    if ask.rule is not None:
        return ByOwnRule(ask, seed, number, folder)
    return ByTable(ask, seed, number) if ask.rate is None else ByStride(ask, seed, number)
