"""Clients that are lost with probability d: the papers' table, the table made for d, and the one that estimates d."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, pick
from aoi_fl.lab.experiments.harness.stats import agreement, interval
from aoi_fl.science import age, draws
from aoi_fl.science.dropout import DropoutEstimate
from aoi_fl.science.history import History
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import evenly, everyone
from aoi_fl.science.simulate import simulate

_LOST = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_TABLES = {"plain": "the papers' table", "aware": "the table made for d", "adaptive": "the table for d as estimated"}
_MEASURES = ("mean", "variance")
_SHOWN = 0.3  # the d of the page's table
_WARM_UP = 100  # rounds before counting; the estimate starts at d = 0
_LONGEST = 100  # no wait is longer, but with a probability below 1e-20


def policy(table, dropout):
    """Return the policy thinned by d; an adaptive run should end at the table made for d."""
    sizes = setting.CLIENTS, setting.PER_ROUND, setting.MAX_AGE
    if table == "plain":
        return MarkovPolicy(MarkovPolicy.optimal(*sizes).probabilities, *sizes[:2], "optimal", dropout)
    return MarkovPolicy.optimal(*sizes, dropout)


class Dropout(Experiment):
    """Willing clients that are lost, which the papers leave out."""

    factors = {"table": tuple(_TABLES), "dropout": _LOST}

    def play(self, unit, options):
        """Return mean and variance of the waits, and how many clients counted in a round."""
        rounds = _WARM_UP + self.settings(options)["rounds"] + _LONGEST
        if unit["table"] == "adaptive":
            history, estimates = _adaptive(unit["dropout"], rounds, unit["seed"])
            told = np.mean(estimates[_WARM_UP:])
        else:
            population = everyone(np.ones(setting.CLIENTS, dtype=np.int64))
            history = simulate(policy(unit["table"], unit["dropout"]), population, rounds, unit["seed"])
            told = unit["dropout"]
        waits = _waits(history)
        counted = np.diff(history.offsets)[_WARM_UP:].mean()
        return [{"mean": waits.mean(), "variance": waits.var(), "counted": counted, "estimate": told}]

    def conclude(self, rows, settings):
        def shown(table, column, digits=3):
            return interval(pick(rows, column, table=table, dropout=_SHOWN)).show(digits)

        met = agreement(
            [
                (pick(rows, column, table=table, dropout=d), getattr(policy(table, d), f"interval_{column}"))
                for table in ("plain", "aware")
                for d in _LOST
                for column in _MEASURES
            ]
        )
        lines = []
        for table, title in _TABLES.items():
            exact = policy(table, _SHOWN)
            mean, variance = f"{exact.interval_mean:.3f}", f"{exact.interval_variance:.3f}"
            measured = [shown(table, "mean"), mean, shown(table, "variance"), variance, shown(table, "counted", 2)]
            lines.append([title, *measured])
        return self.concluded({}, lines, met=met, estimate=shown("adaptive", "estimate"))


def _adaptive(dropout, rounds, seed):
    """Simulate a server that counts the lost clients and reissues the table in each round."""
    clients, table = setting.CLIENTS, policy("aware", 0.0)
    ages = first = age.first_age(table.probabilities, draws.uniforms(seed, 1, "first-age", clients))
    estimate, told = DropoutEstimate(float(setting.PER_ROUND)), []
    chosen = []
    for t in range(1, rounds + 1):
        told.append(estimate.value)
        probabilities = table.with_dropout(estimate.value).probabilities
        willing = draws.uniforms(seed, t, "participate", clients) < age.hazards(probabilities, ages)
        counted = willing & (draws.uniforms(seed, t, "dropout", clients) >= dropout)
        chosen.append(evenly(np.flatnonzero(counted)))
        ages = np.where(counted, 0, ages + 1)
        estimate = estimate.after(int(willing.sum()), int((willing & ~counted).sum()))
    return History.of(chosen, first), told


def _waits(history):
    """Return the waits that begin between the warm-up and the last 100 rounds, within which all of them end.

    All waits within a history would be too short in the mean.
    """
    members, when, _ = history.by_client
    same = members[1:] == members[:-1]
    begun = (when[:-1] > _WARM_UP) & (when[:-1] <= history.rounds - _LONGEST)
    return np.diff(when)[same & begun]
