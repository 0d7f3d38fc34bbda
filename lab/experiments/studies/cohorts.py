"""Fixed cohorts: the price of clients that always train together."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Study, rounded
from aoi_fl.lab.experiments.studies.unequal import POLICIES
from aoi_fl.science.load import pairs_met
from aoi_fl.science.rates import equal_rates
from aoi_fl.science.systematic import SystematicPolicy

_SORTED = "sorted by label"
_SPREAD = {"random": "random", "spread": "systematic size", "spread, jitter 0.2": "systematic jitter"}  # in POLICIES


def sorted_phases(labels):
    """Return (n,) phases in the order of the clients' most frequent ``labels``, so that a cohort has few labels."""
    most = [int(np.bincount(own).argmax()) for own in labels]
    share = [float((own == label).mean()) for own, label in zip(labels, most, strict=True)]
    order = sorted(range(len(labels)), key=lambda i: (most[i], -share[i]))
    phases = np.empty(len(labels))
    phases[order] = (np.arange(len(labels)) + 0.5) / len(labels)
    return phases


def _policy(name, there, seed):
    if name != _SORTED:
        return POLICIES[_SPREAD[name]][0](there.sizes, seed)
    labels = [part.y.numpy() for part in there.parts]
    return SystematicPolicy(equal_rates(len(labels), setting.PER_ROUND), sorted_phases(labels), 0.0, seed)


class Cohorts(setting.Trained, Study):
    """Systematic participation with cohorts of 1, 5 and 15 clients, spread, jittered and sorted by label."""

    policies = (*_SPREAD, _SORTED)

    def play(self, unit, options):
        """Train along the policy's selections, and return the second half's accuracy."""
        chosen, seed, n = self.settings(options), unit["seed"], int(unit["case"].split(",")[0].removeprefix("n "))
        there = dealt_as(chosen, options, seed, chosen["partition"], n)
        history = there.history(_policy(unit["policy"], there, seed), chosen["num-server-rounds"], "size")
        found = there.tested(history, range(history.rounds // 2 + 1, history.rounds + 1))
        met = pairs_met(history, (history.rounds,))[history.rounds]
        ends = {"worst": min(found), "final": found[-1]}
        return [rounded(6, accuracy=np.mean(found)) | ends | rounded(4, met=met)]

    def summary(self, settings):
        return super().summary({**settings, "half": settings["num-server-rounds"] // 2 + 1})
