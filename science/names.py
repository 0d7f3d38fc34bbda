"""The names of a run's rules, without NumPy."""

from typing import Literal, TypeAlias

Index: TypeAlias = Literal["whittle", "abs", "maxpack", "random"]  # of a budgeted choice
Ageing: TypeAlias = Literal["linear", "quadratic", "root"]  # what an age costs
RateRule: TypeAlias = Literal["equal", "size", "given"]  # each client's share of the rounds
PhaseRule: TypeAlias = Literal["spread", "random"]  # of systematic clients
Weighting: TypeAlias = Literal["equal", "size", "unbiased"]  # aggregation weights
Coordination: TypeAlias = Literal["poll", "broadcast", "reserve"]  # how a client's decision travels
Start: TypeAlias = Literal["stationary", "zero"]  # first ages of Markov clients


USUAL_MAX_AGE, OLDEST = 10, 10_000
"""The usual, and the largest, age m of a Markov table."""


def usual_max_age(clients: int, per_round: int) -> int:
    """Return the age m of a Markov table for ``auto``: ⌊n/k⌋, which the least Var[X] needs, but at least 10.

    >>> usual_max_age(100, 15), usual_max_age(100, 5)
    (10, 20)
    """
    return min(max(USUAL_MAX_AGE, clients // max(per_round, 1)), OLDEST)


OWN_PREFIX = "python:"  # of the name of code of one's own


def is_own(name: str) -> bool:
    """Return whether a value names your own code."""
    return name.startswith(OWN_PREFIX)


def is_well_formed(name: str) -> bool:
    """Return whether the name of your own code, ``python:MODULE:NAME``, has all its parts.

    >>> is_well_formed("python:mine.deeper:make"), is_well_formed("python:mine")
    (True, False)
    """
    module, _, found = name.removeprefix(OWN_PREFIX).partition(":")
    return is_own(name) and all(part.isidentifier() for part in (*module.split("."), found))
