"""A participation rule of one's own, by which clients decide, from ``policy=python:MODULE:NAME``.

It has ``participates(ages, round_, uniforms)``, which returns (n,) truth values: which clients of these ages take part
in a round. It may have ``first_age(round_, uniforms)``, the (n,) ages of newcomers, else 0, and ``rates()``, (n,)
participations a round. The simulator calls it with n clients, and a client with one. ``uniforms`` are the clients' own
draws in [0, 1). A decision has to follow from the arguments alone.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.protocol.own_code import FAULTS, brief, load, looking_in, said, unusable
from aoi_fl.science.rule import Clocks, ParticipationRule

_HOW = "it is called with those of clients, per_round and seed that it takes"


def make_object(name: str, folder: str, given: Mapping[str, int]) -> Any:
    """Return what a name of one's own code makes of those of the given arguments that it takes.

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
            raise unusable("policy", name, f"calling it raised {said(error)}", _HOW) from error


class OwnRule(ParticipationRule):
    """A rule of one's own, its answers checked.

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
        ConfigError : the rule fails, or returns something else.
        """
        return self._called("participates", "b", clocks.ages(round_), round_, u)

    def first_age(self, round_: int, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (n,) the ages of clients that join in a round; raises ConfigError as :meth:`participates`."""
        if not hasattr(self._rule, "first_age"):
            return np.zeros(len(u), np.int64)
        return self._called("first_age", "iu", round_, u)

    def long_run_rates(self) -> NDArray[np.float64] | None:
        """Return (n,) participations a round of each client; None where the rule does not say."""
        if not hasattr(self._rule, "rates"):
            return None
        found = np.asarray(self._rule.rates(), np.float64)
        if found.shape != (self.clients,):
            raise unusable("policy", self.name, f"rates returned shape {found.shape}", f"give ({self.clients},)")
        return found

    def check(self) -> None:
        """Try the rule on all clients; raises ConfigError as :meth:`participates`."""
        halves = np.full(self.clients, 0.5)
        self.participates(Clocks(-self.first_age(1, halves)), 1, halves)
        self.long_run_rates()

    def _called(self, method: str, kinds: str, *arguments: Any) -> NDArray[Any]:
        length = len(arguments[-1])
        try:
            found = np.asarray(getattr(self._rule, method)(*arguments))
        except FAULTS as error:
            raise unusable("policy", self.name, f"{method} raised {said(error)}", "mend it") from error
        if found.shape != (length,) or found.dtype.kind not in kinds:
            kind = "truth values" if kinds == "b" else "whole numbers"
            raise unusable("policy", self.name, f"{method} returned {brief(found)}", f"return ({length},) {kind}")
        return found


def is_rule(made: Any) -> bool:
    """Tell whether an object is a participation rule."""
    return not isinstance(made, type) and callable(getattr(made, "participates", None))


def make_rule(name: str, folder: str, clients: int, per_round: int) -> OwnRule:
    """Return the rule that a name of one's own code makes.

    Raises
    ------
    ConfigError : it cannot be used, or is no rule.
    """
    made = make_object(name, folder, {"clients": clients, "per_round": per_round})
    if not is_rule(made):
        raise unusable("policy", name, f"it returned {brief(made)}, which has no participates", _HOW)
    return OwnRule(made, name, clients, per_round)
