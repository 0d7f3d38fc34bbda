"""Fixed cohorts: the price of clients that always train together."""

import math

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Measure, Study, expect
from aoi_fl.science.load import pairs_met
from aoi_fl.science.rates import equal_rates
from aoi_fl.science.selection import RandomSelector
from aoi_fl.science.systematic import SystematicPolicy

_PER_ROUND = setting.PER_ROUND
_CLIENTS = (101, 100, 105)  # gcd(n, 15) is 1, 5 and 15
_CASES = {f"n {n}, gcd {math.gcd(n, _PER_ROUND)}": n for n in _CLIENTS}
_ALPHA = 0.3
_JITTER = 0.2
_RANDOM, _SPREAD, _JITTERED, _SORTED = "random", "spread", "spread, jitter 0.2", "sorted by label"


def sorted_phases(labels):
    """Return (n,) phases in the order of the clients' most frequent ``labels``, so that a cohort has few labels."""
    most = [int(np.bincount(own).argmax()) for own in labels]
    share = [float((own == label).mean()) for own, label in zip(labels, most, strict=True)]
    order = sorted(range(len(labels)), key=lambda i: (most[i], -share[i]))
    phases = np.empty(len(labels))
    phases[order] = (np.arange(len(labels)) + 0.5) / len(labels)
    return phases


def _sorted(there, seed):
    labels = [part.y.numpy() for part in there.parts]
    return SystematicPolicy(equal_rates(len(labels), _PER_ROUND), sorted_phases(labels), 0.0, seed)


_MAKE = {
    _RANDOM: lambda there, seed: RandomSelector(_PER_ROUND, seed),
    _SPREAD: lambda there, seed: SystematicPolicy.equal(len(there.sizes), _PER_ROUND, "spread", 0.0, seed),
    _JITTERED: lambda there, seed: SystematicPolicy.equal(len(there.sizes), _PER_ROUND, "spread", _JITTER, seed),
    _SORTED: _sorted,
}


class Cohorts(Study):
    """Systematic participation with cohorts of 1, 5 and 15 clients, spread, jittered and sorted by label."""

    name = "cohorts"
    title = "Fixed cohorts: phases spread, jittered, or sorted by label"
    source = "Not in the papers; MNIST, Dirichlet 0.3"
    minutes = 40
    data = ("mnist",)
    cases = tuple(_CASES)
    policies = tuple(_MAKE)
    measures = (
        Measure("accuracy", "mean accuracy of the second half, %", 2, 100.0, drawn=True),
        Measure("worst", "lowest accuracy of the second half, %", 1, 100.0, drawn=True),
        Measure("met", "pairs of clients that trained together, %", 0, 100.0, compared=False),
    )
    hypotheses = (
        expect("Phases sorted by label cost accuracy, whatever gcd(n, k)", cases, _SORTED, "accuracy", -1, _SPREAD),
        expect(
            "Fixed cohorts of 15 clients cost less than 0.5 points, where phases are spread",
            cases[2:],
            _SPREAD,
            "accuracy",
            1,
            _RANDOM,
            -0.5,
        ),
        expect(
            "Jitter adds accuracy to spread phases in cohorts of 15",
            cases[2:],
            _JITTERED,
            "accuracy",
            1,
            _SPREAD,
        ),
    )
    planned, first = 10, 36
    committed = "358efba5"

    def settings(self, options):
        keys = {"clients-per-round": _PER_ROUND, "partition": f"dirichlet:{_ALPHA}", "weights": "size"}
        return setting.learning(self, options, (30, 4), **keys)

    def play(self, unit, options):
        """Train along the policy's selections, and return the second half's accuracy."""
        chosen, seed, n = self.settings(options), unit["seed"], _CASES[unit["case"]]
        there = dealt_as(chosen, options, seed, n, kind="dirichlet", alpha=_ALPHA)
        history = there.history(_MAKE[unit["policy"]](there, seed), chosen["num-server-rounds"], "size")
        found = there.tested(history, range(history.rounds // 2 + 1, history.rounds + 1))
        return [
            {
                "accuracy": round(float(np.mean(found)), 6),
                "worst": min(found),
                "final": found[-1],
                "met": round(float(pairs_met(history, (history.rounds,))[history.rounds]), 4),
            }
        ]

    def summary(self, rows, settings):
        return (
            f"At equal rates and without jitter, clients with neighbouring phases train together; with gcd(n, k) = 15 "
            "they form cohorts of 15 that never change. "
            f"Phases sorted by label put clients of the same most frequent label next to each other, which is the "
            "worst order, and spread phases are shuffled. "
            f"Accuracies are of rounds {settings['num-server-rounds'] // 2 + 1} to {settings['num-server-rounds']}, "
            f"{settings['clients-per-round']} clients a round, weights by size."
        )
