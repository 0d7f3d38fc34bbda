"""The user's own participation rule, from ``policy=python:MODULE:NAME``.

``participates(ages, round_, uniforms)`` returns (n,) truth values: which clients of these ages take part in a round.
Two methods are optional: ``first_age(round_, uniforms)`` returns the (n,) ages of newcomers, by default 0, and
``rates()`` returns (n,) participations per round. The simulator calls the rule with n clients, a client with one.
``uniforms`` are the clients' own draws in [0, 1). Decisions must depend on the arguments only.
A :class:`aoi_fl.science.rule.ParticipationRule`, as in a policy's row, is also valid.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.protocol.own_code import FAULTS, brief, error_line, load, looking_in, unusable
from aoi_fl.science.rule import Clocks, ParticipationRule

_HOW = "it is called with its parameters among clients, per_round and seed"


def make_object(name: str, folder: str, given: Mapping[str, int]) -> Any:
    """Call a function of the user's own code with the given arguments that it accepts.

    Raises
    ------
    ConfigError : the module or the name in it cannot be used, or calling it fails.
    """
    with looking_in(folder):
        maker = load("policy", name, folder)
        try:
            parameters = inspect.signature(maker).parameters.values()
            anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
            wanted = {one.name for one in parameters}
            return maker(**{key: value for key, value in given.items() if anything or key in wanted})
        except FAULTS as error:
            raise unusable("policy", name, f"calling it raised {error_line(error)}", _HOW) from error


class OwnRule(ParticipationRule):
    """A user's own rule with checks of its results.

    Parameters
    ----------
    rule : the user's object
    name : the run key's value, for errors
    clients, per_round : n and k
    """

    def __init__(self, rule: Any, name: str, clients: int, per_round: int) -> None:
        self._rule, self.name, self.per_round, self._clients = rule, name, per_round, clients

    @property
    def clients(self) -> int:
        """Return n."""
        return self._clients

    def participates(self, clocks: Clocks, round_: int, u: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return (n,) which clients take part in a round.

        Raises
        ------
        ConfigError : the rule raises, or returns another shape or type.
        """
        seen = clocks if isinstance(self._rule, ParticipationRule) else clocks.ages(round_)
        return self._called("participates", "b", seen, round_, u)

    def first_age(self, round_: int, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (n,) the ages of clients that join in a round; raise as :meth:`participates`."""
        if not hasattr(self._rule, "first_age"):
            return np.zeros(len(u), np.int64)
        return self._called("first_age", "iu", round_, u)

    def long_run_rates(self) -> NDArray[np.float64] | None:
        """Return (n,) participations per round of each client; None if the rule does not have them."""
        if isinstance(self._rule, ParticipationRule):
            return self._rule.long_run_rates()
        if not hasattr(self._rule, "rates"):
            return None
        rates = np.asarray(self._rule.rates(), np.float64)
        if rates.shape != (self.clients,):
            raise unusable("policy", self.name, f"rates returned shape {rates.shape}", f"give ({self.clients},)")
        return rates

    def check(self) -> None:
        """Call the rule once for all clients; raise as :meth:`participates`."""
        halves = np.full(self.clients, 0.5)
        self.participates(Clocks(-self.first_age(1, halves)), 1, halves)
        self.long_run_rates()

    def _called(self, method: str, kinds: str, *arguments: Any) -> NDArray[Any]:
        length = len(arguments[-1])
        try:
            values = np.asarray(getattr(self._rule, method)(*arguments))
        except FAULTS as error:
            raise unusable("policy", self.name, f"{method} raised {error_line(error)}", "correct it") from error
        if values.shape != (length,) or values.dtype.kind not in kinds:
            kind = "truth values" if kinds == "b" else "whole numbers"
            raise unusable("policy", self.name, f"{method} returned {brief(values)}", f"return ({length},) {kind}")
        return values


def is_rule(made: Any) -> bool:
    """Return whether an object is a participation rule."""
    return not isinstance(made, type) and callable(getattr(made, "participates", None))


def make_rule(name: str, folder: str, clients: int, per_round: int) -> OwnRule:
    """Make the rule from the user's own code.

    Raises
    ------
    ConfigError : the code cannot be used, or returns no rule.
    """
    made = make_object(name, folder, {"clients": clients, "per_round": per_round})
    if not is_rule(made):
        raise unusable("policy", name, f"it returned {brief(made)}, which has no participates", _HOW)
    return OwnRule(made, name, clients, per_round)
