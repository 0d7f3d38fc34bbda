"""Unequal data: which policy, with which weights, is no later than random selection, and at what load."""

from collections.abc import Sequence

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import seeds
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.studies.unequal_page import CONTROL, CONTROLLED, concluded
from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.rates import pooled_variance, size_rates
from aoi_fl.science.rule import is_decentralised
from aoi_fl.science.selection import ProportionalSelector, RandomSelector
from aoi_fl.science.systematic import SystematicPolicy

_FIRST_SEED = 6  # a pilot, after which the levels of accuracy were chosen, had seeds 1 to 5
_PER_ROUND = setting.PER_ROUND
_SEEDS = 10
_JITTER = 0.2


_SPLITS = ("dirichlet 0.3", "dirichlet 0.6", "zipf", "iid")


def _markov(sizes, seed):
    return setting.markov("markov-optimal")


def _rates(sizes):
    return size_rates(sizes, _PER_ROUND)[0]


def _jittered(jitter):
    return lambda sizes, seed: SystematicPolicy.equal(len(sizes), _PER_ROUND, "spread", jitter, seed)


# Each policy, made from the clients' sizes and the seed, with its weights; None: those that are the policy's own.
POLICIES = {
    "random": (lambda sizes, seed: RandomSelector(_PER_ROUND, seed), None),
    "markov size": (_markov, "size"),
    "systematic size": (_jittered(0.0), "size"),
    "systematic rates": (lambda sizes, seed: SystematicPolicy.rated(_rates(sizes), "spread", 0.0, seed), "unbiased"),
    "markov equal": (_markov, "equal"),
    "markov rates": (lambda sizes, seed: MarkovPolicy.rated(_rates(sizes)), "unbiased"),
    "proportional": (lambda sizes, seed: ProportionalSelector(_PER_ROUND, seed), None),
    "systematic jitter": (_jittered(_JITTER), "size"),
    "markov unbiased": (_markov, "unbiased"),
    CONTROL: (lambda sizes, seed: RandomSelector(_PER_ROUND, seed), "equal"),
}


class Unequal(setting.Trained):
    """Options beside the papers': weights by size, rates of one's own, systematic participation."""

    head: Sequence[str]  # of a table for each partition

    def units(self, options):
        return [
            {"seed": s, "split": split, "policy": p}
            for split in _SPLITS
            for s in seeds(options, _SEEDS, 2, _FIRST_SEED)
            for p in POLICIES
            if p != CONTROL or split in CONTROLLED
        ]

    def play(self, unit, options):
        """Train along the policy's selections, and return the curve, what each round trained on, and the load."""
        chosen, seed = self.settings(options), unit["seed"]
        there = dealt_as(chosen, options, seed, unit["split"])
        make, weighting = POLICIES[unit["policy"]]
        policy = make(there.sizes, seed)
        history = there.history(policy, chosen["num-server-rounds"], weighting)
        load = measure(history)
        about = {
            "met": load.met,
            "waits": sum(load.interval_counts.values()),
            "wait_mean": load.interval_mean,
            "wait_variance": load.interval_variance,
            "variance": round(law_variance(policy, there.sizes), 3),
            "largest": round(float(there.sizes.max() / there.sizes.sum()), 4),
        }
        rows = []
        for row in there.curve(history):
            trained = there.sizes[history.selection(row["round"]).clients].sum()
            data = float(trained / there.sizes.mean() / _PER_ROUND)  # 1 for k average clients
            rows.append({**row, "data": round(data, 4), **about})
        return rows

    def conclude(self, rows, settings):
        return concluded(self, rows, settings, tuple(POLICIES), _SPLITS)


def law_variance(policy, sizes):
    """Return Var[X] of all clients' intervals together, in rounds², by the policy's law."""
    if is_decentralised(policy):
        return policy.law().interval_variance
    drawn_ = isinstance(policy, ProportionalSelector)
    rates = 1 - (1 - sizes / sizes.sum()) ** _PER_ROUND if drawn_ else np.full(len(sizes), _PER_ROUND / len(sizes))
    return pooled_variance(rates, (1 - rates) / rates**2)  # by a coin of its own in every round
