"""Phases u_i in [0, 1) of systematic participation.

*Random* phases are each client's own draw; a round's number of clients is then about binomial. *Spread* phases come
from the roll call: n clients of one rate r get (i+v)/n. As ⌊x⌋ + ⌊x+1/n⌋ + … + ⌊x+(n−1)/n⌋ = ⌊nx⌋ (Hermite's
identity), they bring as many clients to a round as one client of rate n·r. So equal rates k/n give exactly k clients a
round. Each group of one rate brings ⌊·⌋ or ⌈·⌉ of its mean, groups of one rate are spread in turn, and two groups with
rates that add up to 1 alternate. For rates that are all different, random phases are as good as any.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import get_args

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.errors import check_choice
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.rates import exact
from aoi_fl.science.types import Floats

PHASE = "phase"  # the purpose under which a client draws its phase, or its place within a tick, in round 0

_MARGIN = 1e-6  # of a tick, so that a phase in floating point stays within its own


def make_phases(rule: PhaseRule, rates: Floats, seed: int) -> Floats:
    """Return (n,) phases by a rule, ``spread`` or ``random``.

    Raises ConfigError for another rule.
    """
    check_choice("phases", rule, get_args(PhaseRule))
    return draws.uniforms(seed, 0, PHASE, len(rates)) if rule == "random" else spread_phases(rates, seed)


def spread_phases(rates: Floats, seed: int) -> Floats:
    """Return (n,) phases for which the number of clients a round varies little; see the module's text.

    Clients are shuffled by the seed first, so that neighbours in number do not train together. A client's place within
    its tick is its own draw, which only jitter makes matter.
    """
    rng = draws.generator(seed, 0, "order")
    order = rng.permutation(len(rates))
    distinct, which, counts = np.unique(rates[order], return_inverse=True, return_counts=True)
    fractions = [exact(rate) for rate in distinct.tolist()]
    starts = _starts([f * count % 1 for f, count in zip(fractions, counts.tolist(), strict=True)], rng)
    ticks = np.array([f.denominator for f in fractions], dtype=np.int64)[which]
    rank = np.empty(len(rates), dtype=np.int64)  # of a client within its group
    rank[np.argsort(which, kind="stable")] = np.arange(len(rates)) - np.repeat(np.cumsum(counts) - counts, counts)
    within = np.clip(draws.uniforms(seed, 0, PHASE, len(rates)), _MARGIN, 1 - _MARGIN)[order]
    phases = np.empty(len(rates))
    phases[order] = (np.floor((rank + starts[which]) / counts[which] * ticks) + within) / ticks
    return phases


def _starts(rates: Sequence[Fraction], rng: np.random.Generator) -> Floats:
    """Return (g,) phases of groups that move at these rates: spread among equals, at random among the others.

    Of two groups with rates that add up to 1, each moves when the other does not.
    """
    groups: dict[Fraction, list[int]] = {}
    for i, rate in enumerate(rates):
        groups.setdefault(rate, []).append(i)
    if len(groups) == len(rates):
        alone = np.clip(rng.random(len(rates)), _MARGIN, 1 - _MARGIN).tolist()
        paired = [groups.get(1 - rate, [i])[0] for i, rate in enumerate(rates)]
        return np.array([alone[i] if i <= other else 1 - alone[other] for i, other in enumerate(paired)])
    starts = np.empty(len(rates))
    above = _starts([rate * len(members) % 1 for rate, members in groups.items()], rng)
    for members, start in zip(groups.values(), above.tolist(), strict=True):
        starts[members] = (np.arange(len(members)) + start) / len(members)
    return starts


def newcomer_phase(phases: Floats) -> float:
    """Return the middle of the largest gap between phases, on the circle.

    >>> newcomer_phase(np.array([0.0, 0.25, 0.75])), round(newcomer_phase(np.array([0.9, 0.1])), 12)
    (0.5, 0.5)
    """
    if not len(phases):
        return 0.0
    ascending = np.sort(phases)
    gaps = np.diff(ascending, append=ascending[0] + 1)
    widest = int(np.argmax(gaps))
    return float((ascending[widest] + gaps[widest] / 2) % 1)
