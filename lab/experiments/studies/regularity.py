"""When regularity pays: systematic participation against random selection, by k and by how unequal the data are."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Study, rounded


class Regularity(setting.Trained, Study):
    """Systematic participation and random selection of 2, 5 and 15 clients a round, at equally many updates."""

    evaluations: int  # in the second half

    def play(self, unit, options):
        """Train along the policy's selections, and return the accuracy of the second half."""
        chosen, seed = self.settings(options), unit["seed"]
        split, _, k = unit["case"].partition(", k = ")
        there = dealt_as(chosen, options, seed, "iid" if options.quick else split)
        policy = setting.policy(unit["policy"], seed, **{"clients-per-round": int(k)})
        history = there.history(policy, chosen["updates"] // int(k), "size")
        marks = set(np.linspace(history.rounds // 2 + 1, history.rounds, self.evaluations).round().astype(int).tolist())
        found = there.tested(history, marks)
        return [rounded(6, accuracy=np.mean(found), spread=np.std(found, ddof=1)) | {"final": found[-1]}]
