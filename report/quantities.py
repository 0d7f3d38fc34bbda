"""The quantities of a run: the columns of tables, and the rows of a page's numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np

from aoi_fl.report.measure import ACCURACY, JUDGES, LOSSES, LedgerMeasure, judge, more, three, worst_tenth
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Setting
from aoi_fl.science.ageing import AGEING
from aoi_fl.science.names import Ageing
from aoi_fl.server.observe import duration

Table = tuple[list[str], list[list[Any]]]


@dataclass(frozen=True)
class Quantity:
    """A number of a run.

    Attributes
    ----------
    column : its name in tables, or ""
    title : its name on pages, or ""
    source : its value for a run, or None: a function, an attribute with points between names, or "sum of COLUMN",
        "mean of …", "least of …", "most of …" over the rounds that have a value in a column of ``rounds``
    show : the value as text
    """

    column: str
    title: str
    source: str | Callable[[RecordedRun], float | None]
    show: Callable[[float], str] = three

    def value(self, run: RecordedRun) -> float | None:
        """Return its value for a run, or None."""
        if not isinstance(self.source, str):
            return self.source(run)
        reduce, _, column = self.source.partition(" of ")
        if column:
            values = run.column(column)
            known = values[np.isfinite(values)]
            return float(_REDUCE[reduce](known)) if known.size else None
        found: Any = None if run.empty else run
        for name in self.source.split("."):
            found = None if found is None else getattr(found, name)
        return cast(float | None, found)

    def mean(self, setting: Setting) -> str:
        """Return the mean over a setting's seeds as text; "" without a value."""
        mean = setting.mean(self.value)
        return "" if mean is None else self.show(mean)

    def cell(self, setting: Setting) -> str:
        """Return the mean over a setting's seeds, with the least and the most where they differ; "" without a value."""
        shown = list(dict.fromkeys(map(self.show, sorted(setting.values(self.value)))))
        if len(shown) < 2:
            return "".join(shown)
        return f"{self.mean(setting)} ({shown[0]} to {shown[-1]})"


def key_numbers(settings: Sequence[Setting]) -> Table:
    """Return a page's numbers, a column for each setting, without rows that no run has."""
    columns = [name for one in settings for run in one.runs for name in (run.rounds or [{}])[-1]]
    rows = [[q.title, *map(q.cell, settings)] for q in quantities(more(columns)) if q.title]
    tenth = f"{settings[0].measure.name} of the worst tenth of clients"
    rows.append([tenth, *map(_worst, settings)])
    states = ["status", *(setting.status for setting in settings)]
    return ["", *(setting.label for setting in settings)], [states, *(row for row in rows if any(row[1:]))]


def _worst(setting: Setting) -> str:
    return setting.measure.listed(dict(islice(worst_tenth(setting.runs).items(), _NAMED)))


def quantities(further: Sequence[LedgerMeasure]) -> list[Quantity]:
    """Return all quantities in reading order; ``further`` are measures of an app's own."""
    return [
        Quantity("", "rounds recorded", lambda run: len(run.rounds)),
        Quantity("", "always the most common class", _yardstick, ACCURACY.show),
        *(each for one in (*JUDGES, *LOSSES, *further) for each in _of_measure(one)),
        *_QUANTITIES,
    ]


def by_title(title: str) -> Quantity:
    """Return the quantity of a title."""
    return next(each for each in _QUANTITIES if each.title == title)


def _of_measure(one: LedgerMeasure) -> list[Quantity]:
    best, reduce = f"best {one.name}" if one in JUDGES else "", "least" if one.least else "most"
    return [
        Quantity(one.column, f"{one.name} at the end", one.end, one.show),
        Quantity(f"best_{one.column.removeprefix('test_')}", best, f"{reduce} of {one.column}", one.show),
        Quantity("", best and f"round of the {best}", one.best_round),
    ]


def _ageing(run: RecordedRun) -> float | None:
    """Return the cost that WICS minimises if it is not linear; the linear cost is P2."""
    ageing = str(run.policy.get("ageing"))
    return _last(run.objective(cast(Ageing, ageing))) if ageing in AGEING else None


def _last(values: Any) -> float | None:
    return None if values is None else float(values[-1])


def _yardstick(run: RecordedRun) -> float | None:
    return run.about.get("yardstick") if judge(run.rounds) == ACCURACY else None


def _staleness(reduce: Callable[..., Any], run: RecordedRun) -> float | None:
    """Return what the staleness of a run's used updates comes to; None with a barrier."""
    known = [part["rounds_late"] for part in run.participations if part["outcome"] == "trained"]
    return float(reduce(known)) if known and np.isfinite(run.column("at_work")).any() else None


def _percent(share: float) -> str:
    return f"{three(100 * share)} %"


def _hours(seconds: float) -> str:
    return three(seconds / 3600)


_REDUCE: dict[str, Callable[[Any], Any]] = {"sum": np.sum, "mean": np.mean, "least": np.min, "most": np.max}
_NAMED = 10  # clients of the worst tenth that a page names
_QUANTITIES = [
    Quantity("", "rounds whose test loss is not a number", lambda run: run.diverged or None),
    Quantity("participations_least", "rounds a client took part in, least", "measured.participation.min"),
    Quantity("participations_most", "rounds a client took part in, most", "measured.participation.max"),
    Quantity("participations_mean", "rounds a client took part in, mean", "measured.participation.mean"),
    Quantity("jain", "Jain’s fairness index", "measured.participation.jain"),
    Quantity("mean_of_x", "mean of X", "measured.interval_mean"),
    Quantity("variance_of_x", "variance of X", "measured.interval_variance"),
    Quantity("mean_of_x_in_theory", "mean of X in theory, of a long run", "law.interval_mean"),
    Quantity("variance_of_x_in_theory", "variance of X in theory, of a long run", "law.interval_variance"),
    Quantity("mean_age", "mean age", "measured.mean_age"),
    Quantity("largest_age", "largest age", "measured.peak_age"),
    Quantity("", "clients a round, mean", "measured.round_mean"),
    # Under a budget clients whose data were not refreshed have weights, too.
    Quantity("", "Σ Var[ω]", lambda run: None if run.empty or run.budgeted else run.measured.weight_variance),
    # Where all clients train, selected pairs are not those that train together.
    Quantity(
        "",
        "pairs of clients that have trained together",
        lambda run: None if run.empty or run.policy.get("trains") == "all" else run.measured.met,
        _percent,
    ),
    Quantity("empty_rounds", "rounds without participants", "measured.empty_rounds"),
    Quantity("", "forced rounds", "sum of forced"),
    Quantity("", "clients at work, mean", "mean of at_work"),
    Quantity("", "staleness of an update in models, mean", partial(_staleness, np.mean)),
    Quantity("", "staleness of an update in models, largest", partial(_staleness, np.max)),
    Quantity("dropped_replies", "dropped replies", lambda run: len(run.dropped)),
    Quantity("", "P2", lambda run: _last(run.objective())),
    Quantity("", "lowest bound of P2", lambda run: _last(run.floor())),
    Quantity("", "ageing cost, weighted like P2", _ageing),
    Quantity("spent", "", "sum of spent"),
    Quantity("", "payments a round, mean", "mean of spent"),
    Quantity("", "payments a round, most", "most of spent"),
    Quantity("", "budget a round", lambda run: run.policy.get("budget")),
    Quantity("", "ε spent, without amplification", "most of epsilon", "{:.5g}".format),
    Quantity("", "δ", lambda run: run.config.get("delta") if np.isfinite(run.column("epsilon")).any() else None),
    Quantity("seconds", "", "sum of seconds"),
    Quantity("", "seconds a round, mean", "mean of seconds"),
    Quantity("messages", "", lambda run: sum(int(each["messages"] or 0) for each in run.rounds)),
    Quantity("simulated_seconds", "simulated time", "most of clock", duration),
    Quantity("", "simulated seconds a round, mean", "in_time.seconds_a_round"),
    Quantity("", "device-hours of work", "in_time.worked", _hours),
    Quantity("", "wasted device-hours", "in_time.wasted", _hours),
    Quantity("", "wasted work", "in_time.wasted_share", _percent),
    Quantity("", "clients never reached", "in_time.never"),
]
