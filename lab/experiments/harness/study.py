"""Studies: planned comparisons in paired runs, on a page of one picture, one table and three sentences.

A run is a single row. Runs of one seed form a pair. The hypotheses are in files of ``rows/``, so a commit dates
them.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from types import MappingProxyType

import numpy as np

from aoi_fl.lab.experiments.harness.base import Experiment, by_seed, spread
from aoi_fl.lab.experiments.harness.drawing import COLOURS, SIZE, beside, lines
from aoi_fl.lab.experiments.harness.findings import OURS, Claim, Conclusion, Table
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.times import NOT_BY_ALL
from aoi_fl.lab.experiments.harness.verdicts import elsewhere, side

_LINE = 0.34  # inches of the picture for each policy
_MARGIN = 1.5  # inches for titles and axis labels
_WIDE = 24  # characters of a line below an axis


@dataclass(frozen=True)
class Measure:
    """A number of every run; the value is missing where a run never reaches it."""

    column: str
    label: str  # head of the table's column, with the unit
    digits: int = 1  # after the decimal point
    scale: float = 1.0  # factor from the row's unit to the page's
    compared: bool = True  # whether the table shows the difference from the base
    drawn: bool = False  # whether the picture shows it
    margin: float = 0.0  # within which the picture shows two policies as level


@dataclass(frozen=True)
class Contrast:
    """A planned comparison: a measure, or its difference from a base, lies on one side of a bound."""

    case: str
    policy: str
    column: str
    wanted: int  # 1 for above the bound, −1 for below
    base: str  # policy of the same case; runs of equal seed are subtracted; "": none
    bound: float  # in the page's unit


def contrasts(row):
    """Return the comparisons of a hypothesis: ``above`` or ``below`` a bound, or ``within`` a margin.

    Each of the policies in each of the cases and columns; more ``contrasts`` differ from the row in what they have.
    """
    for part in row.get("contrasts", ({},)):
        of = {**row, **part}
        margin = of.get("within")
        bounds = {1: of.get("above"), -1: of.get("below")} if margin is None else {1: -margin, -1: margin}
        places = product(of["cases"], *(np.atleast_1d(of[key]).tolist() for key in ("policy", "column")))
        for place, (wanted, bound) in product(places, bounds.items()):
            if bound is not None:
                yield Contrast(*place, wanted, of["base"], bound)


class Study(Experiment):
    """An experiment of paired runs, one row a run, with hypotheses that are older than the data."""

    cases: Sequence[str]
    policies: Sequence[str]  # the first is the base of the table and the picture
    measures: Mapping[str, Measure]  # by column
    contrasts: Mapping[str, Sequence[Contrast]]  # that decide each claim
    about: str  # the page's sentences on the setting, with the names of settings in braces
    in_all = False
    planned = 10
    committed = ""  # commit that has the hypotheses, older than the data

    def __init__(self, *, measures=MappingProxyType({}), hypotheses=(), **row):
        super().__init__(**row)
        self.measures = {column: Measure(column, **fields) for column, fields in measures.items()}
        self.contrasts, self.claims = {}, {}
        usual = {"source": OURS, "ours": "no seed is complete", "cases": self.cases, "base": self.policies[0]}
        for fields in chain.from_iterable(map(spread, hypotheses)):
            told = usual | fields
            decisive = self.contrasts[told["claim"]] = [*contrasts(told)]
            names = {name for each in decisive for name in (each.policy, each.base) if name}
            units = {"case": {each.case for each in decisive}, "policy": names}
            own = {key: told[key] for key in ("claim", "source", "theirs", "ours", "setting") if key in told}
            self.claims[told["claim"]] = Claim(units=units, **own)

    @property
    def pairs(self):
        """Cases and policies that have runs; by default each case has all policies."""
        return [(case, policy) for case in self.cases for policy in self.policies]

    @property
    def counts(self):
        """The planned seeds, and those of a quick look."""
        return self.planned, 2

    def cells(self, options):
        """Return the cases and policies of a seed's units."""
        return [{"case": case, "policy": policy} for case, policy in self.pairs]

    def conclude(self, rows, settings):
        """Compare each policy with the base, in pairs, and judge the hypotheses."""
        lines = [
            [case, policy, str(len(runs)), *self._cells(rows, case, policy)]
            for case in self.cases
            for policy in self.policies
            if (runs := by_seed(rows, case=case, policy=policy))
        ]
        head = ["case", "policy", "seeds"]
        for measure in self.measures.values():
            head += [measure.label, *(["the same above the base's"] if measure.compared else [])]
        caption = f"Means over seeds with 95 % intervals; the base is {self.policies[0]}, in pairs of equal seed"
        claims = tuple(self._judged(claim, self.contrasts[key], rows) for key, claim in self.claims.items())
        dated = f"Commit {self.committed} has the hypotheses, before the first data." if self.committed else ""
        text = " ".join(filter(None, (self.summary(settings), dated, self._progress(rows))))
        return Conclusion(text, claims, (Table(caption, head, lines),))

    def summary(self, settings):
        """Return the page's sentences on the setting."""
        return self.about.format_map({**vars(self), **settings})

    def plot(self, rows, settings, figure):
        """Draw each policy's difference from the base, with its interval, and each seed as a dot."""
        base, drawn = self.policies[0], [measure for measure in self.measures.values() if measure.drawn]
        there = [
            (case, policy)
            for case, policy in self.pairs
            if policy != base and values(rows, case, policy, drawn[0], base)
        ]
        figure.set_figheight(_MARGIN + _LINE * max(len(there), 2))
        for axes, measure in zip(figure.subplots(1, len(drawn), sharey=True, squeeze=False)[0], drawn, strict=True):
            lines(axes, [policy if len(self.cases) == 1 else f"{case}: {policy}" for case, policy in there])
            if measure.margin:
                axes.axvspan(-measure.margin, measure.margin, color="#E3E3E3")
            for place, (case, policy) in enumerate(there):
                colour = COLOURS[self.policies.index(policy) % len(COLOURS)]
                apart = values(rows, case, policy, measure, base)
                found = interval([d for d in apart if math.isfinite(d)])
                if not found.count:
                    axes.text(0, place, NOT_BY_ALL, va="center", color="#606060")
                    continue
                beside(axes, place, found, apart, colour)
            axes.set_xlabel(f"{textwrap.fill(measure.label, _WIDE)}\nabove {base}", fontsize=SIZE)

    def _cells(self, rows, case, policy):
        cells, base = [], self.policies[0]
        for measure in self.measures.values():
            cells.append(_shown(values(rows, case, policy, measure), measure.digits))
            if measure.compared:
                above = values(rows, case, policy, measure, base)
                cells.append("" if policy == base else _shown(above, measure.digits))
        return cells

    def _judged(self, claim, contrasts, rows):
        """Judge a claim by its contrasts: undecided until all planned seeds are complete."""
        found, shown, decided = [], [], True
        for contrast in contrasts:
            measure = self.measures[contrast.column]
            gains = values(rows, contrast.case, contrast.policy, measure, contrast.base)
            if len(gains) < 2:
                decided = False
                continue
            count = f"; {len(gains)} of {self.planned} planned seeds" if len(gains) < self.planned else ""
            missed = sum(not math.isfinite(v) for v in gains)
            against = contrast.base and f" above {contrast.base}'s"
            where = f" ({contrast.case})" if len(self.cases) > 1 else ""
            shown.append(
                f"{measure.label} of {contrast.policy}{against}: {_shown(gains, measure.digits)}{where}{count}"
            )
            decided &= not missed and not count
            found.append(interval([contrast.wanted * (v - contrast.bound) for v in gains]))
        if not shown:
            return claim
        ours = "; ".join(dict.fromkeys(shown))  # a margin on both sides is two contrasts
        if not decided:
            why = {"undecided": "not all planned runs are complete, or reach the level"}
            return replace(claim, ours=ours, verdict="undecided", reasons=why)
        verdict = side(found, 1)
        return replace(claim, ours=ours, verdict=elsewhere(verdict) if claim.setting else verdict)

    def _progress(self, rows):
        """Return the progress of an unfinished experiment."""
        counts = [len(by_seed(rows, case=case, policy=policy)) for case, policy in self.pairs]
        if min(counts) >= self.planned:
            return ""
        least, most = min(counts), max(counts)
        span = str(least) if least == most else f"{least} to {most}, by case and policy,"
        return f"Unfinished: {span} of {self.planned} planned seeds are complete."


def rounded(digits, **values):
    """Return the values of a run's row, each with so many digits; None stays."""
    return {name: None if value is None else round(float(value), digits) for name, value in values.items()}


def values(rows, case, policy, measure, base=""):
    """Return a policy's measure, minus a base's for the seeds of both if there is one; NaN where a run has no value."""
    runs, others = (
        {seed: _value(run[-1], measure) for seed, run in by_seed(rows, case=case, policy=name).items()}
        for name in (policy, base)
    )
    return [value - others[seed] for seed, value in runs.items() if seed in others] if base else [*runs.values()]


def _value(row, measure):
    value = row.get(measure.column)
    return math.nan if value is None else measure.scale * value


def _shown(values, digits):
    finite = [v for v in values if math.isfinite(v)]
    found = interval(finite)
    missed = "" if len(finite) == len(values) else f" ({len(finite)} of {len(values)} seeds)"
    return f"{found.show(digits)}{missed}"
