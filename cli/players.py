"""What a simulation without learning plays, by a policy's name, other than those that are bound by a budget.

The policies that come with this project are made without waiting for Flower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aoi_fl.cli.options import pick
from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies.registry import REGISTRY

if TYPE_CHECKING:
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
    from aoi_fl.science.f3ast import F3ast
    from aoi_fl.science.fedcs import FedCS
    from aoi_fl.science.markov import MarkovPolicy, check_sizes
    from aoi_fl.science.oort import OortSelector
    from aoi_fl.science.power_of_choice import PowerOfChoice
    from aoi_fl.science.refl import Refl
    from aoi_fl.science.seen import drawn_reports
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
    if policy in REGISTRY and policy not in makers:
        return _selector(policy, per_round, seed)
    return cast("Decentralised | Selector", pick("policy", policy, makers))


def _selector(policy: str, per_round: int, seed: int) -> Selector:
    """Return what a strategy that is made of nothing but k leaves the choice to."""
    from aoi_fl.strategies import RoundOptions
    from aoi_fl.strategies.selection.central import CentralSelection

    strategy = REGISTRY[policy].make({"clients-per-round": per_round}, options=RoundOptions(seed=seed))
    if not isinstance(strategy, CentralSelection):
        raise ConfigError(
            f"policy {policy!r} is a {type(strategy).__name__}, which leaves the choice to no selector: play it with "
            "aoi run, or say in cli/players.py what decides."
        )
    return strategy.selector
