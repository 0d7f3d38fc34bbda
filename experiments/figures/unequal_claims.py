"""What we claim of unequal data ourselves, beside the papers, and the verdicts on it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from aoi_fl.experiments.figures.unequal_runs import BASE, EQUAL, Runs, later
from aoi_fl.experiments.harness.base import Claim
from aoi_fl.experiments.harness.verdicts import side

RATES, EVEN, PAPERS = "systematic rates", "systematic size", "markov equal"
_WHATEVER = "learns in fewer rounds than random selection, under each of the four partitions"
# What is claimed; of which policy, whether at equal data, whether where data are unequal alone, and on which side of 0.
_CLAIMED: Mapping[str, tuple[str, bool, bool, int]] = {
    f"Systematic participation at rates by size, with unbiased weights, {_WHATEVER}": (RATES, False, False, -1),
    "Systematic participation at rates by size learns from less data than random selection, where data are unequal": (
        RATES, True, True, -1,
    ),
    f"Systematic participation at one rate for all, with weights by size, {_WHATEVER}": (EVEN, False, False, -1),
    "With equal weights, the papers', Markov optimal needs more rounds than random selection, where data are unequal": (
        PAPERS, False, True, 1,
    ),
}  # fmt: skip
CLAIMS = tuple(
    Claim(claimed, "Ours, in the setting of their MNIST", "–", "not played", "not run", {"policy": {BASE, policy}})
    for claimed, (policy, *_) in _CLAIMED.items()
)


def judged(played: Mapping[str, Mapping[str, Runs]]) -> tuple[Claim, ...]:
    """Judge what is claimed, over the partitions of which there are two seeds or more."""
    claims = []
    for claim, (policy, at_equal_data, unequal, wanted) in zip(CLAIMS, _CLAIMED.values(), strict=True):
        found = {
            split: moved
            for split, of in played.items()
            if not (unequal and split == EQUAL)
            and (moved := later(of[policy], of[BASE], at_equal_data=at_equal_data))
            and np.isfinite(moved.half)
        }
        what = "rounds' data later" if at_equal_data else "rounds later"
        shown = f"{what}: {', '.join(f'{moved.show(1)} ({split})' for split, moved in found.items())}"
        verdict = side(list(found.values()), wanted)
        claims.append(replace(claim, ours=shown, verdict=verdict) if found else claim)
    return tuple(claims)
