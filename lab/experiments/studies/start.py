"""The start of a federation: every client at age 0 against ages from the stationary law."""

from itertools import product

import numpy as np
from scipy import stats

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, by_seed
from aoi_fl.lab.experiments.harness.stats import FAMILYWISE, interval
from aoi_fl.lab.experiments.oracles.markov_chain import rounds_to_mix
from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate

_CASES = {
    "optimal, k=15": ("markov-optimal", 15),
    "optimal, k=20": ("markov-optimal", 20),
    "increasing, k=15": ("markov-increasing", 15),
}
_NAMED = {"stationary": "the stationary law", "zero": "age 0"}
_CLIENTS = setting.CLIENTS


def _policy(name):
    kind, per_round = _CASES[name]
    return setting.policy(kind, 0, **{"clients-per-round": per_round})


def _chances(policy, start, rounds):
    """Return the probability that a client takes part in each of rounds 1 … R; |S| is binomial with it."""
    stationary = start == "stationary"
    return np.full(rounds, 1 / policy.interval_mean) if stationary else policy.renewals(rounds)[1:]


class Start(Experiment):
    """The first rounds, which the papers leave out."""

    factors = {"case": tuple(_CASES), "start": tuple(_NAMED)}

    def play(self, unit, options):
        """Return how many clients took part in each round."""
        population = everyone(np.ones(_CLIENTS, dtype=np.int64))
        history = simulate(_policy(unit["case"]), population, 200, unit["seed"], unit["start"])
        return [{"round": t, "clients": int(c)} for t, c in enumerate(np.diff(history.offsets), 1)]

    def conclude(self, rows, settings):
        lines, tests = [], []
        for name, start in product(_CASES, _NAMED):
            policy = _policy(name)
            found, mixing = _table(rows, name, start), rounds_to_mix(policy.hazards)
            chances = _chances(policy, start, found.shape[1])
            expected = ((1 - chances) ** _CLIENTS).sum()
            mixes = "at once" if start == "stationary" else "never" if mixing is None else f"{mixing} rounds"
            empty, most = interval((found == 0).sum(axis=1)), interval(found.max(axis=1))
            lines.append([name, _NAMED[start], empty.show(1), f"{expected:.1f}", most.show(0), mixes])
            trials, sums = _CLIENTS * len(found), found.sum(axis=0)
            tests += [_two_sided(n, trials, min(max(p, 0.0), 1.0)) for n, p in zip(sums, chances, strict=True)]
        worst, limit = min(tests), FAMILYWISE / len(tests)
        agree = "agreement" if worst >= limit else "NO agreement"
        return self.concluded({}, lines, agree=agree, tests=len(tests), error=FAMILYWISE, worst=worst, limit=limit)


def _table(rows, case, start):
    """Return (seeds, rounds) counts."""
    return np.array([[row["clients"] for row in run] for run in by_seed(rows, case=case, start=start).values()])


def _two_sided(count, trials, p):
    """Return a two-sided p-value of a binomial count: twice the smaller tail."""
    tails = stats.binom.cdf(count, trials, p), stats.binom.sf(count - 1, trials, p)
    return min(1.0, 2 * min(tails))
