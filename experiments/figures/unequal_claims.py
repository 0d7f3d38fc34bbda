"""What we claim of unequal data ourselves, beside the papers, and the verdicts on it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from aoi_fl.experiments.figures.paper_claims import MNIST_DIRICHLET_EQUAL
from aoi_fl.experiments.figures.unequal_runs import BASE, EQUAL, TARGET, Runs, curves, later
from aoi_fl.experiments.harness.base import OURS, Claim, Verdict
from aoi_fl.experiments.harness.stats import interval, ratio
from aoi_fl.experiments.harness.times import NOT_BY_ALL, reached
from aoi_fl.experiments.harness.verdicts import elsewhere, side

RATES, EVEN, PAPERS = "systematic rates", "systematic size", "markov equal"
CONTROL = "random equal"  # random selection with the weights 1/k of Javani & Wang 2024, who assume equal sizes
CONTROLLED = ("dirichlet 0.6", "dirichlet 0.3")  # the partitions under which the papers compare learning
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
_REASONS: Mapping[str, Mapping[Verdict, str]] = {
    RATES: {
        "holds": "earlier under all four partitions, beyond chance in each",
        "refuted": "its rounds train on more data under every partition",
    },
    EVEN: {"holds weakly": "earlier under three; with Zipf sizes chance may explain it"},
    PAPERS: {"holds": "later under all three, where random has size weights"},
}
_OWN = tuple(
    Claim(
        claimed,
        f"{OURS}, in the setting of their MNIST",
        "–",
        "not played",
        "not run",
        {"policy": {BASE, policy}},
        reasons=_REASONS[policy],
    )
    for claimed, (policy, *_) in _CLAIMED.items()
)
_SAID = MNIST_DIRICHLET_EQUAL
_THEIRS = Claim(
    f"{_SAID.policy} reaches {_SAID.target:.0%} before {_SAID.base}, both with weights 1/k (mnist, {_SAID.partition}, "
    "2nn)",
    _SAID.paper,
    f"{_SAID.theirs}; equal sizes are assumed, and weights are 1/k",
    "not played",
    "not run",
    {"policy": {CONTROL, PAPERS}, "split": {_SAID.partition}},
    "2NN",
    {
        "direction reproduced": "earlier at equal weights, but the 2NN learns faster",
        "undecided": "earlier over the levels; the rounds to 97 % undecided",
    },
)
CLAIMS = (*_OWN, _THEIRS)


def judged(played: Mapping[str, Mapping[str, Runs]]) -> tuple[Claim, ...]:
    """Judge what is claimed, over the partitions of which there are two seeds or more."""
    claims = []
    for claim, (policy, at_equal_data, unequal, wanted) in zip(_OWN, _CLAIMED.values(), strict=True):
        found = {
            split: moved
            for split, of in played.items()
            if not (unequal and split == EQUAL)
            and (moved := later(of[policy], of[BASE], at_equal_data=at_equal_data))
            and np.isfinite(moved.half)
        }
        what = "rounds' data later" if at_equal_data else "rounds later"
        shown = f"{what}: {', '.join(f'{moved.show(1)} ({split})' for split, moved in found.items())}"
        if policy == PAPERS:
            alike = {split: later(of[PAPERS], of.get(CONTROL, {})) for split, of in played.items()}
            shown += "".join(
                f"; {moved.show(1)} ({split}) against random selection with equal weights"
                for split, moved in alike.items()
                if moved
            )
        verdict = side(list(found.values()), wanted)
        claims.append(replace(claim, ours=shown, verdict=verdict) if found else claim)
    return (*claims, _judged_theirs(played.get(_SAID.partition, {})))


def _judged_theirs(of: Mapping[str, Runs]) -> Claim:
    """Judge the paper's claim as the others of learning: by the shift over the levels, and by the rounds to 97 %."""
    moved = later(of.get(PAPERS, {}), of.get(CONTROL, {}))
    if moved is None:
        return _THEIRS
    ours, base = (reached(of_, TARGET) for of_ in curves(of[PAPERS], of[CONTROL]))
    if not np.isfinite([ours, base]).all():
        return replace(
            _THEIRS, ours=f"{moved.show(2)} rounds later; {NOT_BY_ALL}", verdict=elsewhere(side([moved], -1))
        )
    at = interval((ours - base).tolist())
    shown = (
        f"{moved.count} seeds, 94.0% to 96.9%: {moved.show(2)} rounds later; 97%: {at.show(1)} rounds, "
        f"{ratio(ours, base).percent()} against random's {base.mean():.1f}"
    )
    return replace(_THEIRS, ours=shown, verdict=elsewhere(side([moved, at], -1)))
