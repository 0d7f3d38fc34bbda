"""Remarks, lemmas and asides of the papers that an enumeration or an exact law can check; nothing is trained."""

import operator
from itertools import starmap
from typing import NamedTuple

from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.lab.experiments.harness.verdicts import erratum, every
from aoi_fl.lab.experiments.oracles.lemmas import (
    comparisons,
    curvatures,
    equal_sizes,
    freshness,
    heard,
    noise,
    sampled,
    smoothness,
    smoothness_of_losses,
    starved,
)

_TINY = 1e-9


class Statement(NamedTuple):
    """The test that each row of a statement, with a left and a right side, must pass.

    Attributes
    ----------
    what : name of its rows, or its beginning
    shown : sentence with the numbers of the rows that pass and of all, the largest ratio, and the words on each row
    test : passed by a row: a name of those below; without one, the left sides in all are as many as the right ones
    each : words on a row
    printed : whether a failure is an erratum
    """

    what: str
    shown: str
    test: str = ""
    each: str = ""
    printed: bool = False

    def judged(self, rows, **more):
        """Judge it by the rows of all statements; ``more`` are numbers of its sentence."""
        found = [row for row in rows if row["what"].startswith(self.what)]
        held, count = _passing(found, self.test)
        most = max((row["left"] / row["right"] for row in found if row["right"]), default=0.0)
        each = "; ".join(self.each.format(**row | {"what": row["what"].removeprefix(self.what)}) for row in found)
        verdict = every(held, count)
        ours = self.shown.format(held=held, count=count, most=most, each=each, **more)
        return ours, erratum(verdict) if self.printed else verdict


_TESTS = {
    "equal": lambda left, right: abs(left - right) < _TINY,
    "bounded": lambda left, right: left <= right * (1 + _TINY) + _TINY,
    "less": operator.lt,
    "more": operator.gt,
    "bent": lambda left, right: left > 1e-6 * right,
}


def _passing(found, test):
    """Return how many of the rows pass a test, and how many there are; without one, the sums of both sides."""
    sides = [(row["left"], row["right"]) for row in found]
    if test:
        return sum(starmap(_TESTS[test], sides)), len(sides)
    return sum(left for left, _ in sides), sum(right for _, right in sides)


class Remarks(Experiment):
    """The papers' statements beside their theorems."""

    def __init__(self, *, claims, **row):
        fields, self._statements = {}, {}
        for key, of in claims.items():
            fields[key] = {name: value for name, value in of.items() if name not in Statement.__annotations__}
            if "what" in of:
                self._statements[key] = Statement(**{name: of[name] for name in of.keys() - fields[key].keys()})
        super().__init__(claims=fields, **row)

    def units(self, options):
        instances = [{"part": "instances", "first": first} for first in self.firsts(options)]
        return [{"part": "exact", "first": 1}, *instances]

    def play(self, unit, options):
        """Compute one part: rows of a statement, its left side and its right side."""
        if unit["part"] == "exact":
            exact = [*equal_sizes(), *freshness(), *heard(), *comparisons(), starved()]
            return [*exact, noise(), *smoothness_of_losses()]
        rows = []
        for seed in range(unit["first"], unit["first"] + self.batch):
            rows += [smoothness(seed), *sampled(seed), *curvatures(seed)]
        return rows

    def conclude(self, rows, settings):
        whole, clients = _passing([row for row in rows if row["what"] == "lemma 2, over all clients"], "bounded")
        found = {key: each.judged(rows, whole=whole, clients=clients) for key, each in self._statements.items()}
        return self.concluded(found | {"sorting": _sorting(rows)})


def _sorting(rows):
    times = [row["left"] / row["right"] for row in rows if row["what"] == "sorting"]
    if not times:
        return ()
    ours = f"{min(times):.2f} to {max(times):.2f} N log₂ N comparisons for N = 100 to 100,000"
    return ours, "holds" if max(times) < 2 * min(times) else "refuted"
