"""The headline again: systematic participation against random selection, fresh seeds, two data sets."""

import numpy as np

from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.setting import Trained
from aoi_fl.lab.experiments.harness.study import Study, rounded
from aoi_fl.lab.experiments.harness.times import levels, reached
from aoi_fl.lab.experiments.papers.learning import TARGETS
from aoi_fl.lab.experiments.studies.unequal import POLICIES


class Headline(Trained, Study):
    """Systematic participation with weights by size against random selection, on seeds that no page has used."""

    def play(self, unit, options):
        """Train until the highest level is reached, and return when the levels were."""
        chosen, seed = self.settings(options), unit["seed"]
        data, _, split = unit["case"].partition(", ")
        dataset = "digits" if options.quick else data.lower()
        there = dealt_as({**chosen, "dataset": dataset}, options, seed, split, chosen["num-clients"])
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


def _row(curve, spent, wanted):
    """Return the means over the levels of the first rounds there, and of the data until then; None if one is missed."""
    first = np.array([reached(curve, level)[0] for level in wanted])
    if not np.isfinite(first).all():
        return {"rounds": None, "data": None, "low": None, "high": None, "played": curve.shape[1]}
    data = [reached(curve, level, spent)[0] for level in wanted]
    ends = {"low": int(first[0]), "high": int(first[-1]), "played": curve.shape[1]}
    return rounded(4, rounds=first.mean(), data=np.mean(data)) | ends
