"""Measures of a model: the column in the ledger, the name, and the form on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from aoi_fl.report.runs import Run


@dataclass(frozen=True)
class Measure:
    """A number that the server evaluates after a round.

    Attributes
    ----------
    field : ``test_{field}`` is its column of ``rounds``, ``initial_{field}`` the first model's
    name : its name within a sentence
    scale, unit : factor and unit of the displayed value
    least : whether the smallest value is the best
    """

    field: str
    name: str
    scale: float = 1.0
    unit: str = ""
    least: bool = False

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def axis(self) -> str:
        """The title with the unit, for an axis or a column of numbers."""
        return f"{self.title} in{self.unit}" if self.unit else self.title

    def show(self, value: float | None, digits: int = 2) -> str:
        """Return a recorded value as text; "" without a value."""
        if value is None or not np.isfinite(value):
            return ""
        number = f"{float(self.scaled(np.array([value]))[0]):.{digits}f}" if self.unit else f"{value:.4g}"
        return f"{number}{self.unit}"

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return displayed values (n,); an earlier version's ledger may have shares in per cent."""
        shares = self.unit and not np.nanmax(values, initial=0.0, where=np.isfinite(values)) > 1
        return self.scale * values if shares else values

    @property
    def most(self) -> float:
        """The largest possible displayed value."""
        return 100.0 if self.unit else np.inf

    def grain(self, run: Run) -> float:
        """Return the smallest difference that a run's test set can show, one example of an accuracy; 0: any."""
        return 1 / run.about["test_examples"] if self.unit and run.about.get("test_examples") else 0.0

    def end(self, run: Run) -> float | None:
        """Return a run's last value, or None."""
        values = run.column(f"test_{self.field}")
        known = values[np.isfinite(values)]
        return float(known[-1]) if known.size else None

    def best(self, run: Run) -> str:
        """Return a run's best value and its round as text, or ""."""
        values = run.column(f"test_{self.field}")
        if not np.isfinite(values).any():
            return ""
        best = int(np.nanargmin(values) if self.least else np.nanargmax(values))
        return f"{self.show(values[best])} (round {run.numbers[best]})"


ACCURACY = Measure("accuracy", "test accuracy", 100.0, " %")
RMSE = Measure("rmse", "test RMSE", least=True)
LOSS = Measure("loss", "test loss", least=True)
JUDGES = (ACCURACY, RMSE)  # the main measures of classification and regression


def judge(rows: Sequence[Mapping[str, Any]]) -> Measure:
    """Return a run's main measure, from rows of ``rounds``."""
    return RMSE if any(row.get("test_rmse") is not None for row in rows) else ACCURACY
