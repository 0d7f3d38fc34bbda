"""Measures of a model: the column in the ledger, the name, and the form on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from aoi_fl.protocol.records import RoundRecord
from aoi_fl.science.types import Floats
from aoi_fl.server.ledger import Row

if TYPE_CHECKING:
    from aoi_fl.report.runs import RecordedRun


NOTHING = 1e-12  # smaller numbers are rounding errors of zero


def three(value: float) -> str:
    """Return a number with three significant digits, and all digits before the point.

    Examples
    --------
    >>> three(12.3456), three(123456.7), three(1e-13), three(4)
    ('12.3', '123457', '0', '4')
    """
    return f"{0.0 if abs(value) < NOTHING else value:{'.3g' if abs(value) < 999.5 else '.0f'}}"


@dataclass(frozen=True)
class LedgerMeasure:
    """A number that server or clients measure in a round.

    Attributes
    ----------
    field : ``{source}_{field}`` is its column of ``rounds``, ``initial_{field}`` the first model's on the test data
    name : its name within a sentence
    scale, unit : factor and unit of the displayed value
    least : whether the smallest value is the best
    source : ``test``, on the server's data; ``client`` or ``train``, as clients report
    """

    field: str
    name: str
    scale: float = 1.0
    unit: str = ""
    least: bool = False
    source: str = "test"

    @property
    def column(self) -> str:
        """Its column of ``rounds``."""
        return f"{self.source}_{self.field}"

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def axis(self) -> str:
        """The title with the unit, for an axis or a column of numbers."""
        return f"{self.title} in{self.unit}" if self.unit else self.title

    def show(self, value: float | None, digits: int = 1) -> str:
        """Return a recorded value as text; "" without a value."""
        if value is None or not np.isfinite(value):
            return ""
        return self.write(float(self.scaled(value)), digits)

    def listed(self, values: Mapping[str, float]) -> str:
        """Return recorded values with their names, for instance of clients, as text."""
        return ", ".join(f"{name} {self.show(value)}" for name, value in values.items())

    def write(self, value: float, digits: int = 1, more: str = "") -> str:
        """Return a displayed value as text, with ``more`` before its unit."""
        return f"{format(value, f'.{digits}f') if self.unit else three(value)}{more}{self.unit}"

    def scaled(self, values: ArrayLike) -> Floats:
        """Return displayed values of any shape; an app's or an earlier version's may be in per cent."""
        found = np.asarray(values, dtype=np.float64)
        shares = self.unit and not np.nanmax(found, initial=0.0, where=np.isfinite(found)) > 1
        return self.scale * found if shares else found

    @property
    def most(self) -> float:
        """The largest possible displayed value."""
        return 100.0 if self.unit else np.inf

    def grain(self, run: RecordedRun) -> float:
        """Return the smallest difference that a run's test set can show, one example of an accuracy; 0: any."""
        return 1 / run.about["test_examples"] if self.unit and run.about.get("test_examples") else 0.0

    def end(self, run: RecordedRun) -> float | None:
        """Return a run's last value, or None."""
        values = run.column(self.column)
        known = values[np.isfinite(values)]
        return float(known[-1]) if known.size else None

    def best_round(self, run: RecordedRun) -> int | None:
        """Return the first round with the best value, or None."""
        values = run.column(self.column)
        known = np.flatnonzero(np.isfinite(values))
        best = np.argmin if self.least else np.argmax
        return int(run.numbers[known[best(values[known])]]) if known.size else None


ACCURACY = LedgerMeasure("accuracy", "test accuracy", 100.0, " %")
RMSE = LedgerMeasure("rmse", "test RMSE", least=True)
LOSS = LedgerMeasure("loss", "test loss", least=True)
# The main measures of classification and regression; an app may evaluate on its clients only.
JUDGES = (
    ACCURACY,
    RMSE,
    replace(ACCURACY, name="clients' accuracy", source="client"),
    replace(RMSE, name="clients' RMSE", source="client"),
)
LOSSES = (LOSS, replace(LOSS, name="clients' loss", source="client"))


def judge(rows: Sequence[Row]) -> LedgerMeasure:
    """Return a run's main measure, from rows of ``rounds``."""
    measured = (each for each in JUDGES if any(row.get(each.column) is not None for row in rows))
    return next(measured, ACCURACY)


def worst_tenth(runs: Sequence[RecordedRun]) -> dict[str, float]:
    """Return the metric of the worst tenth of the clients by name, the mean over runs, worst first; {} if unknown."""
    found = [run.about.get("test_by_client") or {} for run in runs]
    means = {name: float(np.mean([one[name] for one in found])) for name in set.intersection(*map(set, found))}
    ranked = sorted(means.items(), key=lambda item: (item[1], item[0]), reverse=judge(runs[0].rounds).least)
    return dict(ranked[: -(-len(ranked) // 10)])


def more(columns: Iterable[str]) -> list[LedgerMeasure]:
    """Return measures of the columns that no other measure and no field of a round has."""
    known = {*(each.column for each in (*JUDGES, *LOSSES)), *(f.name for f in fields(RoundRecord))}
    found = [name.partition("_") for name in dict.fromkeys(columns) if name not in known]
    return [LedgerMeasure(name, f"{name} {_OF[source]}", source=source) for source, _, name in found if source in _OF]


_OF = {"test": "on the test data", "client": "on the clients", "train": "in training"}
