"""The headline again: systematic participation against random selection, fresh seeds, two data sets."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Measure, Study, expect
from aoi_fl.lab.experiments.harness.times import levels, reached
from aoi_fl.lab.experiments.papers.learning import TARGETS
from aoi_fl.lab.experiments.studies.unequal import POLICIES, split_of

_BASE, _OURS = "random", "systematic size"
_SPLITS = ("Dirichlet 0.3", "IID")
_SETS = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist"}


def _claim(case, column, what):
    text = f"Systematic participation reaches the levels {what} than random selection ({case})"
    return expect(text, (case,), _OURS, column, -1, _BASE)


class Headline(Study):
    """Systematic participation with weights by size against random selection, on seeds that no page has used."""

    name = "headline"
    title = "The headline again: systematic against random, fresh seeds"
    source = "Not in the papers; the setting of their MNIST"
    minutes = 70
    data = tuple(_SETS.values())
    cases = tuple(f"{data}, {split}" for split in _SPLITS for data in _SETS)
    policies = (_BASE, _OURS)
    measures = (
        Measure("rounds", "rounds to the levels", drawn=True),
        Measure("data", "the same in rounds of 15 average clients' data", drawn=True),
        Measure("low", "rounds to the lowest level", compared=False),
        Measure("high", "rounds to the highest level", compared=False),
    )
    hypotheses = (
        *(_claim(case, "rounds", "in fewer rounds") for case in cases),
        _claim(cases[0], "data", "after less data"),
    )
    planned, first = 20, 16
    committed = "358efba5"

    def settings(self, options):
        keys = {"num-clients": setting.CLIENTS, "clients-per-round": setting.PER_ROUND, "ends": "at the highest level"}
        return setting.learning(self, options, (120, 4), **keys)

    def play(self, unit, options):
        """Train until the highest level is reached, and return when the levels were."""
        chosen, seed = self.settings(options), unit["seed"]
        data, _, split = unit["case"].partition(", ")
        dataset = "digits" if options.quick else _SETS[data]
        there = dealt_as({**chosen, "dataset": dataset}, options, seed, chosen["num-clients"], **split_of(split))
        make, weighting = POLICIES[unit["policy"]]
        history = there.history(make(there.sizes, seed), chosen["num-server-rounds"], weighting)
        wanted = levels(TARGETS[dataset])
        unit_of_data = there.sizes.mean() * chosen["clients-per-round"]
        curve = []
        spent = []
        for t, model in there.rounds(history):
            curve.append(there.task.evaluate_test(model)[1])
            trained = float(there.sizes[history.selection(t).clients].sum() / unit_of_data)
            spent.append(trained + (spent[-1] if spent else 0.0))
            if curve[-1] >= wanted[-1]:
                break
        return [_row(np.array([curve]), np.array([spent]), wanted)]

    def summary(self, rows, settings):
        return (
            f"{settings['num-clients']} clients, {settings['clients-per-round']} a round, the model "
            f"{settings['model']}; the two runs of a pair share first model, partition and order of batches. "
            "A number is the mean over the levels of test accuracy that the first pages use: 94.0 to 96.9 % on MNIST "
            "and 82.0 to 84.9 % on Fashion-MNIST. A run ends at the highest level, or after "
            f"{settings['num-server-rounds']} rounds."
        )


def _row(curve, spent, wanted):
    """Return the means over the levels of the first rounds there, and of the data until then; None if one is missed."""
    first = np.array([reached(curve, level)[0] for level in wanted])
    if not np.isfinite(first).all():
        return {"rounds": None, "data": None, "low": None, "high": None, "played": curve.shape[1]}
    data = [float(reached(curve, level, spent)[0]) for level in wanted]
    return {
        "rounds": round(float(first.mean()), 4),
        "data": round(float(np.mean(data)), 4),
        "low": int(first[0]),
        "high": int(first[-1]),
        "played": curve.shape[1],
    }
