"""The quantities of a run: the columns of tables, and the rows of a page's numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from aoi_fl.report import budget
from aoi_fl.report.in_time import InTime
from aoi_fl.report.measure import ACCURACY, JUDGES, LOSSES, LedgerMeasure, judge, more, three, worst_tenth
from aoi_fl.report.runs import Run
from aoi_fl.report.seeds import Setting
from aoi_fl.science.ageing import AGEING
from aoi_fl.science.load import LoadMetrics
from aoi_fl.science.names import Ageing
from aoi_fl.server.observe import duration

Table = tuple[list[str], list[list[str]]]


@dataclass(frozen=True)
class Quantity:
    """A number of a run.

    Attributes
    ----------
    column : its name in tables, or ""
    title : its name on pages, or ""
    value : its value for a run, or None
    show : the value as text
    """

    column: str
    title: str
    value: Callable[[Run], float | None]
    show: Callable[[float], str] = three

    def mean(self, setting: Setting) -> float | None:
        """Return the mean over a setting's seeds, or None."""
        values = self.values(setting)
        return float(np.mean(values)) if values else None

    def values(self, setting: Setting) -> list[float]:
        """Return the finite values of a setting's seeds."""
        found = (self.value(run) for run in setting.runs)
        return [value for value in found if value is not None and np.isfinite(value)]

    def cell(self, setting: Setting) -> str:
        """Return the mean over a setting's seeds, with the least and the most where they differ; "" without a value."""
        shown = list(dict.fromkeys(map(self.show, sorted(self.values(setting)))))
        if len(shown) < 2:
            return "".join(shown)
        return f"{self.show(cast(float, self.mean(setting)))} ({shown[0]} to {shown[-1]})"


def key_numbers(settings: Sequence[Setting]) -> Table:
    """Return a page's numbers, a column for each setting, without rows that no run has."""
    columns = [name for one in settings for run in one.runs for name in (run.rounds or [{}])[-1]]
    shown = [q for q in quantities(more(columns)) if q.title]
    rows = [[q.title, *(q.cell(setting) for setting in settings)] for q in shown]
    tenths = [(judge(one.first.rounds), worst_tenth(one.runs)) for one in settings]
    rows.append(
        [
            f"{tenths[0][0].name} of the worst tenth of clients",
            *(
                ", ".join(f"{name} {main.show(value)}" for name, value in [*found.items()][:_NAMED])
                for main, found in tenths
            ),
        ]
    )
    states = ["status", *(", ".join(dict.fromkeys(run.status for run in one.runs)) for one in settings)]
    return ["", *(setting.label for setting in settings)], [states, *(row for row in rows if any(row[1:]))]


def quantities(further: Sequence[LedgerMeasure] = ()) -> list[Quantity]:
    """Return all quantities in reading order; ``further`` are measures of an app's own."""
    return [
        Quantity("", "rounds recorded", lambda run: len(run.rounds)),
        Quantity("", "always the most common class", _yardstick, ACCURACY.show),
        *_of_measures((*JUDGES, *LOSSES, *further)),
        *_QUANTITIES,
    ]


def _of_measures(measures: Sequence[LedgerMeasure]) -> list[Quantity]:
    found = []
    for one in measures:
        judges = one in JUDGES
        best = f"best {one.name}" if judges else ""
        found += [
            Quantity(one.column, f"{one.name} at the end", one.end, one.show),
            Quantity(f"best_{one.column.removeprefix('test_')}", best, one.best, one.show),
            *([Quantity("", f"round of the {best}", one.best_round)] if judges else []),
        ]
    return found


def _load(title: str, column: str, value: Callable[[LoadMetrics], float | None], **how: Any) -> Quantity:
    return Quantity(column, title, lambda run: None if run.empty else value(run.measured), **how)


def _theory(title: str, column: str, moment: str) -> Quantity:
    return Quantity(
        column, title, lambda run: None if run.empty or run.law is None else float(getattr(run.law, moment))
    )


def _timed(title: str, column: str, value: Callable[[InTime], float], **how: Any) -> Quantity:
    return Quantity(column, title, lambda run: None if run.in_time is None else value(run.in_time), **how)


def _over_rounds(title: str, column: str, name: str, reduce: Callable[..., Any] = np.nansum, **how: Any) -> Quantity:
    """Return a quantity made of a column of ``rounds``; None where all its values are missing."""

    def value(run: Run) -> float | None:
        values = run.column(name)
        return float(reduce(values)) if np.isfinite(values).any() else None

    return Quantity(column, title, value, **how)


def _weighted(title: str, value: Callable[[LoadMetrics], float | None]) -> Quantity:
    """Return a measure of the weights; under a budget unrefreshed clients have weights, too."""
    return Quantity("", title, lambda run: None if run.empty or run.budgeted else value(run.measured))


def _objective(part: int) -> Callable[[Run], float | None]:
    return lambda run: None if (found := budget.objective_and_floor(run)) is None else found[part]


def _ageing(run: Run) -> float | None:
    """Return the cost that WICS minimises if it is not linear; the linear cost is P2."""
    known, ageing = budget.payments_and_sensitivities(run), str(run.policy.get("ageing"))
    if known is None or ageing not in AGEING:
        return None
    return float(budget.running_objective(run, known[1], cast(Ageing, ageing))[-1])


def _yardstick(run: Run) -> float | None:
    return run.about.get("yardstick") if judge(run.rounds) == ACCURACY else None


def _met(run: Run) -> float | None:
    """Return the share of pairs that have trained together, if no more clients train than are selected."""
    return None if run.empty or run.policy.get("trains") == "all" else run.measured.met


def _staleness(run: Run, reduce: Callable[..., Any]) -> float | None:
    """Return what the staleness of a run's used updates comes to; None with a barrier."""
    if not np.isfinite(run.column("at_work")).any():
        return None
    known = [part["rounds_late"] for part in run.participations if part["outcome"] == "trained"]
    return float(reduce(known)) if known else None


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{three(100 * share)} %"


_NAMED = 10  # clients of the worst tenth that a page names
_HOUR = 3600.0
_QUANTITIES = [
    Quantity(
        "",
        "rounds whose test loss is not a number",
        lambda run: int(np.isinf(run.column("test_loss")).sum()) or None,
    ),
    _load("rounds a client took part in, least", "participations_least", lambda m: m.participation.min),
    _load("rounds a client took part in, most", "participations_most", lambda m: m.participation.max),
    _load("rounds a client took part in, mean", "participations_mean", lambda m: m.participation.mean),
    _load("Jain’s fairness index", "jain", lambda m: m.participation.jain),
    _load("mean of X", "mean_of_x", lambda m: m.interval_mean),
    _load("variance of X", "variance_of_x", lambda m: m.interval_variance),
    _theory("mean of X in theory, of a long run", "mean_of_x_in_theory", "interval_mean"),
    _theory("variance of X in theory, of a long run", "variance_of_x_in_theory", "interval_variance"),
    _load("mean age", "mean_age", lambda m: m.mean_age),
    _load("largest age", "largest_age", lambda m: m.peak_age),
    _load("clients a round, mean", "", lambda m: m.round_mean),
    _weighted("Σ Var[ω]", lambda m: m.weight_variance),
    Quantity("", "pairs of clients that have trained together", _met, percent),
    _load("rounds without participants", "empty_rounds", lambda m: m.empty_rounds),
    _over_rounds("forced rounds", "", "forced"),
    _over_rounds("clients at work, mean", "", "at_work", np.nanmean),
    Quantity("", "staleness of an update in models, mean", lambda run: _staleness(run, np.mean)),
    Quantity("", "staleness of an update in models, largest", lambda run: _staleness(run, np.max)),
    Quantity("dropped_replies", "dropped replies", lambda run: len(run.dropped)),
    Quantity("", "P2", _objective(0)),
    Quantity("", "lowest bound of P2", _objective(1)),
    Quantity("", "ageing cost, weighted like P2", _ageing),
    _over_rounds("", "spent", "spent"),
    _over_rounds("payments a round, mean", "", "spent", np.nanmean),
    _over_rounds("payments a round, most", "", "spent", np.nanmax),
    Quantity("", "budget a round", lambda run: run.policy.get("budget")),
    _over_rounds("ε spent, without amplification", "", "epsilon", np.nanmax, show="{:.5g}".format),
    Quantity("", "δ", lambda run: run.config.get("delta") if np.isfinite(run.column("epsilon")).any() else None),
    _over_rounds("", "seconds", "seconds"),
    _over_rounds("seconds a round, mean", "", "seconds", np.nanmean),
    Quantity("messages", "", lambda run: sum(int(each["messages"] or 0) for each in run.rounds)),
    _over_rounds("simulated time", "simulated_seconds", "clock", np.nanmax, show=duration),
    _timed("simulated seconds a round, mean", "", lambda found: found.seconds_a_round),
    _timed("device-hours of work", "", lambda found: found.worked / _HOUR),
    _timed("wasted device-hours", "", lambda found: found.wasted / _HOUR),
    _timed("wasted work", "", lambda found: found.wasted_share, show=percent),
    _timed("clients never reached", "", lambda found: found.never),
]
