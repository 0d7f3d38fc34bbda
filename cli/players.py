"""What a simulation without learning plays, by a policy's name; under a budget, the clients that are paid.

The policies that come with this project are made without waiting for Flower.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from aoi_fl.cli.options import pick
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_own
from aoi_fl.strategies.registry import REGISTRY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aoi_fl.protocol.clients import ClientTable
    from aoi_fl.science.names import PhaseRule
    from aoi_fl.science.selection import Selector
    from aoi_fl.science.simulate import Decentralised

_DEADLINE = 2.0  # seconds, for fedcs without a clock, where the median client takes 1


def make_player(
    policy: str,
    clients: int,
    per_round: int,
    max_age: int,
    exponent: float,
    candidates: int,
    deadline: float | None,
    seed: int,
) -> Decentralised | Selector:
    """Return what decides who takes part.

    Parameters
    ----------
    policy : its name
    clients, per_round : n and k
    max_age, exponent : m of Markov policies, and α of the increasing one
    candidates : d, of the policies that draw some; 0: 2k
    deadline : seconds of a round, for fedcs, where time is simulated
    seed : of its draws

    Raises
    ------
    ConfigError
        There is no such policy, or none of this n, k, m or d, or its strategy leaves the choice to no selector.
    """
    from aoi_fl.science.client_stats import drawn_reports
    from aoi_fl.science.f3ast import F3ast
    from aoi_fl.science.fedcs import FedCS
    from aoi_fl.science.markov import MarkovPolicy, check_sizes
    from aoi_fl.science.oort import OortSelector
    from aoi_fl.science.power_of_choice import PowerOfChoice
    from aoi_fl.science.refl import Refl
    from aoi_fl.science.selection import OldestAgeSelector, ProportionalSelector, RandomSelector

    def choice(asked: bool) -> Selector:
        reports = drawn_reports(clients, seed)
        ask = (lambda round_, who: reports(round_, who).losses) if asked else None
        return PowerOfChoice(per_round, seed, candidates or 2 * per_round, ask=ask)

    check_sizes(clients, per_round, max_age)
    makers = {
        "random": lambda: RandomSelector(per_round, seed),
        "proportional": lambda: ProportionalSelector(per_round, seed),
        "oldest-age": lambda: OldestAgeSelector(per_round, seed),
        "pow-d": lambda: choice(asked=True),
        "rpow-d": lambda: choice(asked=False),
        "oort": lambda: OortSelector(per_round, seed),
        "fedcs": lambda: FedCS(per_round, seed, candidates or 2 * per_round, deadline or _DEADLINE),
        "refl": lambda: Refl(per_round, seed),
        "f3ast": lambda: F3ast(per_round, seed),
        "markov-optimal": lambda: MarkovPolicy.optimal(clients, per_round, max_age),
        "markov-increasing": lambda: MarkovPolicy.increasing(clients, per_round, max_age, exponent),
    }
    if is_own(policy):
        return _own(policy, clients, per_round, seed)
    if policy in REGISTRY and policy not in makers:
        return _selector(policy, per_round, seed)
    return cast("Decentralised | Selector", pick("policy", policy, makers))


def _selector(policy: str, per_round: int, seed: int) -> Selector:
    """Return what a strategy that is made of nothing but k leaves the choice to."""
    from aoi_fl.strategies import RoundOptions
    from aoi_fl.strategies.selection.selector import SelectorPolicy

    strategy = REGISTRY[policy].make({"clients-per-round": per_round}, options=RoundOptions(seed=seed))
    if not isinstance(strategy.policy, SelectorPolicy):
        raise ConfigError(
            "policy", policy, f"a policy with a selector, and {type(strategy).__name__} has none", "Use aoi run."
        )
    return strategy.policy.selector


def _own(policy: str, clients: int, per_round: int, seed: int) -> Decentralised | Selector:
    """Return the selector or rule of one's own, from a module in this folder or installed."""
    from aoi_fl.strategies.policy import Policy
    from aoi_fl.strategies.selection.own import make_own

    made = make_own(policy, ".", clients, per_round, seed)
    if isinstance(made, Policy):
        raise ConfigError(
            "policy",
            policy,
            "a selector, because a whole Policy needs clients that answer",
            "Use aoi run, or a selector.",
        )
    return made


def make_rated(
    policy: str,
    rates: NDArray[np.float64],
    learned: bool,
    phases: PhaseRule,
    jitter: float,
    seed: int,
) -> Decentralised:
    """Return the policy, Markov optimal or systematic, of clients that have rates of their own.

    Parameters
    ----------
    policy : its name
    rates : participations a round of each client, (n,)
    learned : whether clients learn how often they are there, and make up for it
    phases, jitter : of systematic participation
    seed : of its draws

    Raises
    ------
    ConfigError
        A rate is not in (0, 1], or no phases or jitter are like these.
    """
    from aoi_fl.science.markov_rates import RatedMarkovPolicy
    from aoi_fl.science.participation import MarkovRule, SystematicRule
    from aoi_fl.science.systematic import SystematicPolicy

    if policy == "systematic":
        return SystematicRule.learning(rates, seed) if learned else SystematicPolicy.rated(rates, phases, jitter, seed)
    return MarkovRule.learning(rates) if learned else RatedMarkovPolicy(rates)


def required_budget(policy: str, budget: float | None) -> float:
    """Return the budget of a round, or raise ConfigError if there is none or none that is positive."""
    from aoi_fl.science.spending import check_budget

    if budget is None:
        raise ConfigError(
            "--budget", None, f"given for policy {policy!r}", "Set what a round may spend, for instance 40."
        )
    check_budget(budget)
    return budget


def budgeted_clients(
    file: Path | None, clients: int, budget: float, seed: int, strict: bool, total: float
) -> ClientTable:
    """Return the clients of a file, or those of Xu et al. (2024), Section 5.1, and warn of any that is never chosen."""
    from aoi_fl.protocol.clients import check_clients, read_clients_file, section5_instance

    table = read_clients_file(file) if file else section5_instance(clients, seed)
    for warning in check_clients(table.payments, table.sensitivities, budget, table.names, strict, total):
        print(f"aoi: {warning}", file=sys.stderr)
    return table
