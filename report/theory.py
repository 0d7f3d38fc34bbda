"""The theory of a run's policy: the distribution of X, and of a client's load in a window."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aoi_fl.config.policies import Keys
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import check_rates, equal_rates
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.science.types import Floats

RANDOM = ("random", "RandomSelection")
_STEADY = (None, "", "always")  # clocks with all clients available
_LONGEST_WAIT = 10**6  # rounds: the distribution of a rarer client would be too long


def law(policy: Mapping[str, Any], config: Keys, size: int) -> IntervalLaw | None:
    """Return the theoretical distribution of X of a run of n clients; None for a policy without one.

    Random selection of k out of n is geometric in X with rate k/n (Javani & Wang 2024, eq. 5), for one client the same
    as a table with k/n at every age. Clients' own rates are recorded at the end of the run.

    There is no theory if availability or dropout is learned, if rates have changed because clients left or did not
    join, or if a selected client may not count: with over-selection, or with devices that are not always available.

    Examples
    --------
    >>> turns = {"kind": "systematic", "jitter": 0.0, "clients": 4, "per_round": 2, "rates": [0.5, 0.5, 0.25, 0.75]}
    >>> table, drawn = turns | {"probabilities": [0.0, 1.0]}, {"kind": "RandomSelection", "per_round": 2}
    >>> law(drawn, {}, 4).interval_pmf()[:4].tolist()  # geometric: half of the clients are drawn
    [0.5, 0.25, 0.125, 0.0625]
    >>> steady = {"clock": "always", "over-selection": 1.0}, {"clock": ""}
    >>> all(law(policy, config, 4) for policy in (turns, table, drawn) for config in steady)
    True
    >>> uncounted = {"clock": "always", "over-selection": 1.3}, {"clock": "generated"}
    >>> [law(policy, config, 4) for policy in (turns, table, drawn) for config in uncounted]
    [None, None, None, None, None, None]
    >>> learned = {"absence": "learned"}, {"adaptive_dropout": True}, {"rates": "size"}
    >>> [law(policy | more, {}, 4) for policy in (turns, table) for more in learned]
    [None, None, None, None, None, None]
    >>> changed, rare = [0.5, 0.5, 0.25, 0.75, 0.5, 0.5], [1.0, 1 - 1e-9, 1e-9, 1e-15]  # two have left
    >>> [law(policy | {"rates": rates}, {}, 4) for policy in (turns, table) for rates in (changed, rare)]
    [None, None, None, None]
    """
    clients = policy.get("clients") or size
    per_round: Any = policy.get("per_round") or config.get("clients-per-round")
    rates, dropout = policy.get("rates", "equal"), float(policy.get("dropout") or 0)
    try:
        if float(config.get("over-selection") or 1) > 1 or config.get("clock") not in _STEADY:
            return None
        if policy.get("absence", "ignored") != "ignored" or policy.get("adaptive_dropout"):
            return None
        if policy.get("probabilities") and rates != "equal":
            return MarkovPolicy.rated(_checked(rates, per_round), dropout).law()
        if policy.get("probabilities"):
            table = tuple(float(p) for p in policy["probabilities"])
            return MarkovPolicy(table, clients, per_round, str(policy.get("kind")), dropout)
        if policy.get("kind") in RANDOM:
            return MarkovPolicy.uniform(clients, per_round, 0)
        if policy.get("kind") == "systematic":
            jitter = float(policy.get("jitter") or 0)
            each = equal_rates(clients, per_round) if rates == "equal" else _checked(rates, per_round)
            return SystematicPolicy(each, np.zeros(len(each)), jitter).law()
    except (ConfigError, TypeError, ValueError):  # a ledger may have invalid parameters
        return None
    return None


def _checked(rates: Any, per_round: float) -> Floats:
    """Return rates that sum to k, and so apply to the whole run, with none too small."""
    values = np.asarray(rates, dtype=np.float64)
    check_rates(values)
    if abs(values.sum() - per_round) > 1e-3 or values.min() * _LONGEST_WAIT < 1:
        raise ConfigError("rates", None, "rates that sum to k, and are not too small to be shown", "Correct the rates.")
    return values
