"""The cost of the papers' start in learning: all ages 0 and a forced client, against the stationary law."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.lab.experiments.harness.findings import Conclusion
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.stats import interval, paired_curves
from aoi_fl.lab.experiments.harness.times import NOT_BY_ALL, levels, shift
from aoi_fl.lab.experiments.harness.verdicts import side
from aoi_fl.science import age, draws
from aoi_fl.science.history import History
from aoi_fl.science.selection import evenly

STARTS = ("random", "stationary", "zero")
_TITLES = {"random": "random selection", "stationary": "Markov, stationary start", "zero": "Markov, all ages 0"}
_TARGET = 0.97  # levels below it were fixed for MNIST IID after a pilot on seeds 1 to 5
_CLIENTS = setting.CLIENTS


def history_of(start, rounds, seed):
    """Return the optimal Markov policy's history; an empty round forces a client, drawn uniformly.

    Its age resets as that of any participant (Javani & Wang 2025, appendix).
    """
    table = setting.markov("markov-optimal").probabilities
    ages = np.zeros(_CLIENTS, dtype=np.int64)
    if start == "stationary":
        ages = age.first_age(table, draws.uniforms(seed, 1, "first-age", _CLIENTS))
    first, chosen = ages, []
    for t in range(1, rounds + 1):
        willing = draws.uniforms(seed, t, "participate", _CLIENTS) < age.hazards(table, ages)
        if not willing.any():
            willing[np.argmin(draws.uniforms(seed, t, "force", _CLIENTS))] = True
        chosen.append(evenly(np.flatnonzero(willing)))
        ages = np.where(willing, 0, ages + 1)
    return History.of(chosen, first)


class StartLearning(Experiment):
    """The start that the papers use, in learning."""

    factors = {"start": STARTS}

    def play(self, unit, options):
        """Train along the selections, and return the curve."""
        task, seed = self.settings(options), unit["seed"]
        rounds = task["rounds"]
        there = dealt_as(task, options, seed, "iid")
        history = (
            setting.play("random", rounds, seed, there.sizes)
            if unit["start"] == "random"
            else history_of(unit["start"], rounds, seed)
        )
        return list(there.curve(history))

    def conclude(self, rows, settings):
        curves = paired_curves(rows, "start", STARTS, "accuracy")
        if len(curves) < len(STARTS) or settings["dataset"] != "mnist":  # other data have other levels
            return Conclusion("", self.judged())
        moved = {s: shift(curves[s], curves["random"], _TARGET) for s in STARTS[1:]}
        between = shift(curves["zero"], curves["stationary"], _TARGET)
        span = levels(_TARGET)
        zero = moved["zero"]
        said = "levels not reached by all" if zero is None else f"{zero.show(1)} rounds later than random"
        lines = [
            [
                _TITLES[s],
                "" if s == "random" else NOT_BY_ALL if (late := moved[s]) is None else f"{late.show(1)} rounds",
                interval(100 * curves[s][:, -1]).show(2, " %"),
            ]
            for s in STARTS
        ]
        apart = "" if between is None else f" The start from age 0 is {between.show(1)} rounds later than the other."
        faster = f"at {span[0]:.1%} to {span[-1]:.1%} {said}", side([] if zero is None else [zero], -1)
        return self.concluded({"faster": faster}, lines, apart=apart, count=len(curves["random"]), **settings)
