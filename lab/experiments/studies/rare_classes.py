"""Availability by label: the accuracy of each policy on the classes of rarely available clients."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Study, rounded
from aoi_fl.lab.rivals.f3ast import F3ast
from aoi_fl.lab.rivals.oort import OortSelector
from aoi_fl.learning.examples import Examples
from aoi_fl.science import draws
from aoi_fl.science.load import participation
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.participation import SystematicRule
from aoi_fl.science.rates import equal_rates
from aoi_fl.science.selection import OldestAgeSelector, RandomSelector

_CLIENTS, _PER_ROUND, _CLASSES = 100, 10, 10
_LOW, _HIGH = 0.05, 0.9  # availability of the rarest and of the most frequent class
_RARE = 3  # classes
_EVALUATIONS = 6  # in the last quarter of the rounds


def players(clients, per_round, seed):
    """Return the policies that learn from what happens, with their weights; None: the policy's own."""
    rates = equal_rates(clients, per_round)
    return {
        "random": (RandomSelector(per_round, seed), "size"),
        "oldest-age": (OldestAgeSelector(per_round, seed), "size"),
        "systematic, learned": (SystematicRule.learning(rates, seed), "size"),
        "markov, learned": (MarkovPolicy.learning(rates), "size"),
        "f3ast": (F3ast(per_round, seed), None),
        "oort": (OortSelector(per_round, seed), "size"),
    }


def availability_by_class(seed):
    """Return (10,) the availability of each class's clients: 0.05 to 0.9 in equal steps, in an order drawn by seed."""
    order = draws.generator(seed, 0, "rare-classes").permutation(_CLASSES)
    found = np.empty(_CLASSES)
    found[order] = np.linspace(_LOW, _HIGH, _CLASSES)
    return found


def availability_of(labels, by_class):
    """Return (n,) the availability of clients: that of the most frequent label of their examples."""
    return by_class[[int(np.bincount(own, minlength=_CLASSES).argmax()) for own in labels]]


class RareClasses(setting.Trained, Study):
    """Six policies on clients that are available in 5 to 90 % of the rounds, by their most frequent label."""

    def play(self, unit, options):
        """Train along the policy's selections, and return the accuracies of the last quarter of the rounds."""
        chosen, seed = self.settings(options), unit["seed"]
        there = dealt_as(chosen, options, seed, chosen["partition"])
        by_class = availability_by_class(seed)
        shares = availability_of([part.y.numpy() for part in there.parts], by_class)
        rounds = chosen["num-server-rounds"]
        rare, others = _tests(there, np.argsort(by_class)[:_RARE])
        policy, weighting = players(_CLIENTS, _PER_ROUND, seed)[unit["policy"]]
        (on_rare, on_others), history = there.late(
            policy,
            rounds,
            weighting,
            lambda arrays: [there.task.evaluate(arrays, part)[1] for part in (rare, others)],
            _EVALUATIONS,
            lambda round_: draws.uniforms(seed, round_, "rare-classes-availability", _CLIENTS) < shares,
        )
        accuracy = (len(rare) * on_rare + len(others) * on_others) / (len(rare) + len(others))
        load = rounded(4, jain=participation(history).jain) | rounded(3, updates=len(history.members) / rounds)
        return [rounded(5, rare=on_rare, others=on_others, accuracy=accuracy) | load]


def _tests(there, rare):
    """Return the test examples of the rare classes, and the others."""
    import torch

    x, y = torch.from_numpy(there.task.data.test_x), torch.from_numpy(there.task.data.test_y)
    which = torch.from_numpy(np.isin(there.task.data.test_y, rare))
    return Examples(x[which], y[which]), Examples(x[~which], y[~which])
