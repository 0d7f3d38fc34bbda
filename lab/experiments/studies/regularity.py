"""When regularity pays: systematic participation against random selection, by k and by how unequal the data are."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Measure, Study, expect, within
from aoi_fl.lab.experiments.studies.unequal import split_of

_CLIENTS, _UPDATES = setting.CLIENTS, 900
_PER_ROUND = (2, 5, 15)
_SPLITS = ("Dirichlet 0.1", "Dirichlet 0.3", "IID")
_CASES = {f"{split}, k = {k}": (split, k) for split in _SPLITS for k in _PER_ROUND}
_RANDOM, _SYSTEMATIC = "random", "systematic"
_EVALUATIONS = 12  # in the second half
_ALIKE = 0.3  # points within which two policies count as level


_PAYS = "Systematic participation has a higher mean accuracy than random selection under {}, whatever k"
_UNEQUAL = {split: [f"{split}, k = {k}" for k in _PER_ROUND] for split in _SPLITS[:2]}


class Regularity(Study):
    """Systematic participation and random selection of 2, 5 and 15 clients a round, at equally many updates."""

    name = "regularity"
    title = "When regularity pays: by clients a round, and by skew of the labels"
    source = "Not in the papers; MNIST at a constant learning rate"
    minutes = 35
    data = ("mnist",)
    cases = tuple(_CASES)
    policies = (_RANDOM, _SYSTEMATIC)
    measures = (
        Measure("accuracy", "mean accuracy of the second half, %", 2, 100.0, drawn=True),
        Measure("spread", "its standard deviation over rounds, points", 2, 100.0, drawn=True),
        Measure("final", "final accuracy, %", 2, 100.0),
    )
    hypotheses = (
        *(expect(_PAYS.format(split), cases, _SYSTEMATIC, "accuracy", 1, _RANDOM) for split, cases in _UNEQUAL.items()),
        within(
            f"Under IID the two are level within {_ALIKE} points, whatever k",
            [f"IID, k = {k}" for k in _PER_ROUND],
            _SYSTEMATIC,
            "accuracy",
            _RANDOM,
            _ALIKE,
        ),
    )
    planned, first = 10, 301
    committed = "1c07ced3"

    def settings(self, options):
        return {
            "dataset": self.datasets(options)[0],
            "model": "2nn",
            "num-clients": _CLIENTS,
            "updates": 90 if options.quick else _UPDATES,
            "weights": "size",
            **setting.constant_rate(options),
        }

    def play(self, unit, options):
        """Train along the policy's selections, and return the accuracy of the second half."""
        chosen, seed = self.settings(options), unit["seed"]
        split, k = _CASES[unit["case"]]
        there = dealt_as(chosen, options, seed, _CLIENTS, **split_of("IID" if options.quick else split))
        policy = setting.policy(unit["policy"], seed, **{"clients-per-round": k})
        history = there.history(policy, chosen["updates"] // k, "size")
        marks = set(np.linspace(history.rounds // 2 + 1, history.rounds, _EVALUATIONS).round().astype(int).tolist())
        found = there.tested(history, marks)
        return [
            {
                "accuracy": round(float(np.mean(found)), 6),
                "spread": round(float(np.std(found, ddof=1)), 6),
                "final": found[-1],
            }
        ]

    def summary(self, rows, settings):
        return (
            f"{settings['num-clients']} clients train for one local epoch at a constant rate until "
            f"{settings['updates']} updates are in, so both policies train equally many updates, whatever k. "
            f"The accuracy is the mean of {_EVALUATIONS} evaluations of the second half, and its standard deviation "
            "is over the same evaluations. "
            "Weights are by size under both."
        )
