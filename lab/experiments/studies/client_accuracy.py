"""Fairness in accuracy: the spread over clients of the model's accuracy on their own examples."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Study, rounded

_LOWEST = 0.1  # of the clients


class ClientAccuracy(setting.Trained, Study):
    """Random selection and Markov optimal on unequal data, at the paper's weights and at equal ones."""

    evaluations: int  # after the last rounds

    def play(self, unit, options):
        """Train along the policy's selections, and return how accuracy spreads over the clients."""
        chosen, seed = self.settings(options), unit["seed"]
        there = dealt_as(chosen, options, seed, chosen["partition"])
        policy, weights = unit["policy"].removesuffix(" weights").split(", ")
        history = there.history(setting.policy(policy, seed), chosen["num-server-rounds"], weights)
        found = [
            [there.task.evaluate(model, part)[1] for part in there.parts]
            for t, model in there.rounds(history)
            if t > history.rounds - self.evaluations
        ]
        accuracy = np.sort(np.mean(found, axis=0))
        lowest = accuracy[: round(_LOWEST * len(accuracy))]
        return [rounded(6, spread=accuracy.std(), lowest=lowest.mean(), mean=accuracy.mean())]
