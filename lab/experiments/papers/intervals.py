"""How many rounds pass between two selections of a client: histograms against the exact law."""

from itertools import pairwise

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import by_seed, pick
from aoi_fl.lab.experiments.harness.stats import agreement, difference, interval
from aoi_fl.lab.experiments.harness.verdicts import joint, side
from aoi_fl.science.load import interval_counts

_OPTIMAL = "markov-optimal"
_ORDER = (_OPTIMAL, "markov-increasing", "random", "proportional")  # by the paper, from the least spread
_CLAIMED_PEAK = 6  # rounds; of rounds missed it is the same peak, a round earlier
_LEAST = 25.0  # waits expected over all seeds, below which lengths are put together: the t-test needs that many


def expected_counts(policy, rounds):
    """Return how many intervals of 1 … R−1 rounds a run of R rounds has on average, exactly.

    An interval of x rounds can begin in rounds 1 … R−x, so there are Σ_i r_i P(X_i = x)(R−x) of them. Under random and
    proportional selection a client's rounds are independent, taken part in with probability k/n or 1−(1−q_i)^k.
    """
    x = np.arange(1, rounds)
    if policy == "proportional":
        shares = setting.sizes() / setting.sizes().sum()
        rates = 1 - (1 - shares) ** setting.PER_ROUND
        found = (rates[:, None] ** 2 * (1 - rates[:, None]) ** (x - 1)).sum(axis=0)
    else:
        law = setting.law(policy)
        pmf = law.interval_pmf()[: rounds - 1]
        found = setting.CLIENTS / law.interval_mean * np.pad(pmf, (0, rounds - 1 - len(pmf)))
    return found * (rounds - x)


class Intervals(setting.PolicyFigure):
    """Journal, Fig. 3."""

    def measured(self, history):
        """Return how often each interval occurred."""
        return [{"interval": x, "count": count} for x, count in interval_counts(history).items()]

    def conclude(self, rows, settings):
        rounds = settings["rounds"]
        points, lines, deviation, spreads, x = [], [], {}, {}, np.arange(1, rounds)
        laws = {policy: (_table(rows, policy, rounds), expected_counts(policy, rounds)) for policy in self.policies}
        for policy, (found, exact) in laws.items():
            points += _pooled(found, exact)
            spreads[policy] = [_deviation(x, row) for row in found]
            deviation[policy] = interval(spreads[policy])
            mean = interval([row @ x / row.sum() for row in found])
            lines.append(
                [
                    policy,
                    mean.show(3),
                    f"{exact @ x / exact.sum():.3f}",
                    deviation[policy].show(3),
                    f"{_deviation(x, exact):.3f}",
                ],
            )
        met = agreement(points)
        found, exact = laws[_OPTIMAL]
        peaks = [np.argmax(row) + 1 for row in found]
        peak = max(set(peaks), key=peaks.count)
        top = interval([row[peak - 1] / row.sum() for row in found])
        wider = [difference(spreads[b], spreads[a]) for a, b in pairwise(_ORDER)]
        claims = {
            "order": (
                "standard deviations "
                + ", ".join(f"{p} {deviation[p].show(2)}" for p in _ORDER)
                + f"; histograms and exact law {met}",
                met.verdict(joint([side(wider, 1), "holds" if met.holds else "refuted"])),
            ),
            "peak": (
                f"peak at {peak} rounds ({peak - 1} missed), {top.show(3)} of all intervals (theory "
                f"{exact[peak - 1] / exact.sum():.3f}); standard deviation {deviation[_OPTIMAL].show(2)}",
                met.verdict(
                    "undecided"
                    if len(set(peaks)) > 1
                    else "holds"
                    if _CLAIMED_PEAK in (peak, peak - 1) and deviation[_OPTIMAL].high < 1
                    else "refuted"
                ),
            ),
        }
        return self.concluded(claims, lines, met=met, rounds=rounds)


def _table(rows, policy, rounds):
    """Return (seeds, R−1) counts of the intervals 1 … R−1."""
    runs = by_seed(rows, policy=policy).values()
    return np.array([np.bincount(pick(run, "interval"), pick(run, "count"), rounds)[1:] for run in runs])


def _pooled(found, exact):
    """Return a point for each length that is common enough, and one for all others."""
    common = exact * len(found) >= _LEAST
    points = [(found[:, j], exact[j]) for j in np.flatnonzero(common)]
    rest = exact[~common].sum()
    if rest * len(found) >= _LEAST:
        points.append((found[:, ~common].sum(axis=1), rest))
    return points


def _deviation(x, counts):
    mean = counts @ x / counts.sum()
    return np.sqrt(counts @ (x - mean) ** 2 / counts.sum())
