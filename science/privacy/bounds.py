"""Bounds on a client's participations: at least b rounds apart, so at most K = ⌈T/b⌉ of them in T rounds.

Privacy with correlated noise rests on these two numbers. They hold for every client with certainty.

A Markov client takes part at the ages with p > 0 only, so b is the first such age plus 1. A systematic client of rate r
takes part every ⌊1/r⌋ or ⌈1/r⌉ rounds; jitter shortens the gap by the longest delay. The k oldest of n clients do not
recur within ⌊n/k⌋ rounds. Other selectors guarantee nothing: b = 1.

A lost round, a forced client and a client that has lost its state break these bounds. So both ends of a real run
enforce the b of the policy's law.

References
----------
C. A. Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization, NeurIPS: participation with minimum
separation.
"""

import numpy as np

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.participation import SystematicRule
from aoi_fl.science.rates import exact
from aoi_fl.science.selection import OldestAgeSelector, Selector
from aoi_fl.science.simulate import Decentralised
from aoi_fl.science.systematic import SystematicPolicy


def min_separation(policy: Decentralised | Selector | None, clients: int = 1) -> int:
    """Return b ≥ 1 of a policy in which no client fails and none is forced: two participations are b rounds apart.

    ``clients`` is n, needed for a selector. None is a policy without any guarantee.

    >>> min_separation(MarkovPolicy.optimal(100, 15, 10))
    6
    """
    match policy:
        case MarkovPolicy(presence=None):
            soonest = 0 if policy.rates is None else int(policy.rates.argmax())
            return next(age for age, p in enumerate(policy.table(soonest)) if p > 0) + 1
        case SystematicRule():  # its rates change as it learns
            return 1
        case SystematicPolicy():
            return min(_least_gap(rate, policy.jitter) for rate in np.unique(policy.rates).tolist())
        case OldestAgeSelector():
            return max(clients // policy.per_round, 1)
    return 1


def _least_gap(rate: float, jitter: float) -> int:
    """Return the least X of a rate over all phases: a stride's length less its longest delay.

    A stride that begins e of a ticks into its round lasts ⌈(b−e)/a⌉ rounds, and its participation is put off by up to
    ⌈(P−e)/a⌉. Both are steps in e, so that the least difference lies at a step.
    """
    fraction = exact(rate)
    a, b = fraction.numerator, fraction.denominator
    delay = min(jitter * b, b - a)
    steps = {0, a - 1} | {(int(edge) + near) % a for edge in (b, delay, np.ceil(delay)) for near in (-1, 0, 1)}
    return min(-((e - b) // a) - max(int(np.ceil((delay - e) / a)), 0) for e in steps)
