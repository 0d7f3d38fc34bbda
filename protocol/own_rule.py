"""The user's own participation rule, from ``policy=python:MODULE:NAME``.

``participates(ages, round_, uniforms)`` returns (n,) truth values: which clients of these ages take part in a round.
Two methods are optional: ``first_age(round_, uniforms)`` returns the (n,) ages of newcomers, by default 0, and
``rates()`` returns (n,) participations per round. The simulator calls the rule with n clients, a client with one.
``uniforms`` are the clients' own draws in [0, 1). Decisions must depend on the arguments only.
A :class:`aoi_fl.science.rule.ParticipationRule`, as in a policy's row, is also valid.
"""

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from aoi_fl.protocol import MAX_AGE
from aoi_fl.protocol.own_code import brief, load, looking_in, naming, unusable
from aoi_fl.science.draws import uniform
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.rule import Clocks, ParticipationRule
from aoi_fl.science.selection import sound_values
from aoi_fl.science.types import AnyArray, Floats, Ints, Mask

_ALONE = 16  # clients that are also asked alone
_LONGEST = 10_000  # rounds in which a rule must take part once
_HOW = "it is called with its parameters among clients, per_round and seed"


def make_object(name: str, folder: str, given: Mapping[str, int], source: str | None = None) -> Any:
    """Call a function of the user's own code with the given arguments that it accepts.

    Raises
    ------
    ConfigError : the module or the name in it cannot be used, has another digest than ``source``, or calling it fails.
    """
    with looking_in(folder) as place:
        maker = load("policy", name, place, source)
        with naming("policy", name, "calling it raised", _HOW):
            parameters = inspect.signature(maker).parameters.values()
            anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
            wanted = {one.name for one in parameters}
            return maker(**{key: value for key, value in given.items() if anything or key in wanted})


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

    def participates(self, clocks: Clocks, round_: int, u: Floats) -> Mask:
        """Return (n,) which clients take part in a round.

        Raises
        ------
        ConfigError : the rule raises, or returns another shape or type.
        """
        seen = clocks if isinstance(self._rule, ParticipationRule) else clocks.ages(round_)
        return self._called("participates", "b", seen, round_, u)

    def first_age(self, round_: int, u: Floats) -> Ints:
        """Return (n,) the ages of clients that join in a round; raise as :meth:`participates`."""
        if not hasattr(self._rule, "first_age"):
            return np.zeros(len(u), np.int64)
        return self._called("first_age", "iu", round_, u, most=MAX_AGE).astype(np.int64)

    def long_run_rates(self) -> Floats | None:
        """Return (n,) participations per round of each client; None if the rule does not have them."""
        method = "long_run_rates" if isinstance(self._rule, ParticipationRule) else "rates"
        if not hasattr(self._rule, method):
            return None
        with naming("policy", self.name, f"{method} raised"):
            rates = getattr(self._rule, method)()
        if rates is None and method == "long_run_rates":
            return None
        return sound_values(f"{method} of {self.name}", rates, self.clients, most=1 + 1e-9).astype(np.float64)

    def check(self) -> None:
        """Call the rule for all clients, and for some alone, as the simulator and the clients do.

        Raises
        ------
        ConfigError : as :meth:`participates`, or its answers depend on other clients or on earlier questions.
        """
        n, some = self.clients, min(self.clients, _ALONE)
        draws = np.random.default_rng(1)
        for round_ in (1, 2, _ALONE):
            u = draws.random(n)
            ages = self.first_age(round_, u)
            for seen in (ages, draws.integers(0, 2 + 2 * n // max(self.per_round, 1), n)):
                clocks = Clocks(round_ - 1 - seen)
                together = self.participates(clocks, round_, u)[:some]
                alone = [
                    bool(self.participates(Clocks(clocks.last[i : i + 1]), round_, u[i : i + 1])[0])
                    for i in range(some)
                ]
                if alone != together.tolist():
                    what = f"of {some} clients {together.sum()} take part together, and {sum(alone)} asked one by one"
                    remedy = "let participates depend on its arguments alone, and on no other client"
                    raise unusable("policy", self.name, what, remedy)
        self.long_run_rates()

    def _called(self, method: str, kinds: str, *arguments: Any, most: float = 1) -> AnyArray:
        with naming("policy", self.name, f"{method} raised"):
            given = getattr(self._rule, method)(*arguments)
            given = given if isinstance(given, np.ma.MaskedArray) else np.asarray(given)
            return sound_values(f"{method} of {self.name}", given, len(arguments[-1]), kinds=kinds, most=most)


def is_rule(made: Any) -> bool:
    """Return whether an object is a participation rule."""
    return not isinstance(made, type) and callable(getattr(made, "participates", None))


class _OneClient(OwnRule):
    """A user's own rule for one client; a reservation uses the same draws as round by round."""

    def __init__(self, rule: Any, name: str, clients: int, per_round: int, seed: int, number: int) -> None:
        super().__init__(rule, name, clients, per_round)
        self._seed, self._number = seed, number

    def next_round(self, clocks: Clocks, round_: int, u: Floats) -> Ints:
        """Return the first round in which the client takes part."""
        for later in range(round_, round_ + _LONGEST):
            coin = np.array([uniform(self._seed, later, "participate", self._number)])
            if self.participates(clocks, later, coin)[0]:
                return np.array([later])
        allowed = f"a rule that takes part in one of {_LONGEST} rounds from {round_} on"
        remedy = "Raise its probabilities, or choose another coordination than reserve."
        raise ConfigError("policy", None, allowed, remedy)


def rule_of_client(
    name: str, folder: str, source: str, clients: int, per_round: int, seed: int, number: int
) -> ParticipationRule:
    """Return the user's own rule for one client, whose draws have this seed and counter.

    Raises
    ------
    ConfigError : the code cannot be used, differs from the server's of the digest ``source``, or returns no rule.
    """
    made = _made(name, folder, source, clients, per_round)
    return _OneClient(made, name, clients, per_round, seed, number)


@lru_cache(maxsize=8)
def _made(name: str, folder: str, source: str, clients: int, per_round: int) -> Any:
    made = make_object(name, folder, {"clients": clients, "per_round": per_round}, source)
    if not is_rule(made):
        raise unusable("policy", name, f"it returned {brief(made)}, which has no participates", _HOW)
    return made
