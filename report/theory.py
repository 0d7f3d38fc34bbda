"""The theory of a run's policy: the law of X, and the variation of a client's load in a window."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.runs import Run
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import check_rates, equal_rates
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.systematic import SystematicPolicy

_RANDOM = ("random", "RandomSelection")
_STEADY = (None, "", "always")  # clocks on which everybody is there
_LONGEST_WAIT = 10**6  # rounds: a client that takes part more rarely has a law too long to be worked out


def law(run: Run) -> IntervalLaw | None:
    """Return what has the law of X that the run should show; None for a policy without such a law.

    Random selection of k out of n is geometric in X with rate k/n (Javani & Wang 2024, eq. 5), for one client the same
    as a table that has k/n at every age. Rates of the clients' own are in the record when the run is over; where
    absence or dropout is learned, tables and strides follow what was learned, and have no law here. Nor has a run in
    which rates have changed, as some clients left or never came, or in which who is chosen may not count: with
    over-selection, or by a clock on which devices come and go.
    """
    policy = run.policy
    clients = policy.get("clients") or run.size
    per_round: Any = policy.get("per_round") or run.config.get("clients-per-round")
    rates, dropout = policy.get("rates", "equal"), float(policy.get("dropout") or 0)
    try:
        if float(run.config.get("over-selection") or 1) > 1 or run.config.get("clock") not in _STEADY:
            return None
        if policy.get("absence", "ignored") != "ignored" or policy.get("adaptive_dropout"):
            return None
        if policy.get("probabilities") and rates != "equal":
            return MarkovPolicy.rated(_checked(rates, per_round), None, dropout).law()
        if policy.get("probabilities"):
            table = tuple(float(p) for p in policy["probabilities"])
            return MarkovPolicy(table, clients, per_round, str(policy.get("kind")), dropout)
        if policy.get("kind") in _RANDOM:
            return MarkovPolicy.uniform(clients, per_round, 0)
        if policy.get("kind") == "systematic":
            jitter = float(policy.get("jitter") or 0)
            each = equal_rates(clients, per_round) if rates == "equal" else _checked(rates, per_round)
            return SystematicPolicy(each, np.zeros(len(each)), jitter).law()
    except (ConfigError, TypeError, ValueError):  # what a ledger says of a policy need not make sense: then no theory
        return None
    return None


def _checked(rates: Any, per_round: float) -> NDArray[np.float64]:
    """Return rates by which k take part in a round, so that they are those of the whole run, and none too rare."""
    found = np.asarray(rates, dtype=np.float64)
    check_rates(found)
    if abs(found.sum() - per_round) > 1e-3 or found.min() * _LONGEST_WAIT < 1:
        raise ConfigError(
            "rates", None, "those of k clients a round, and not too small to be shown", "Correct the rates."
        )
    return found
