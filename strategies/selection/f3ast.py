"""F3AST (Ribero, Vikalo & de Veciana 2022): unbiased, at rates that clients can keep up."""

from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science.f3ast import F3ast
from aoi_fl.strategies.plan import Plan
from aoi_fl.strategies.selection.central import seed_of
from aoi_fl.strategies.selection.learned import LearnedSelection
from aoi_fl.strategies.weighting import AUTO, UNBIASED
from aoi_fl.wire.protocol import Ask


class F3astSelection(LearnedSelection):
    """``per_round`` clients whose rate lags most behind what the variance asks for; weights q_i/r_i act on updates.

    Parameters
    ----------
    per_round : k
    settings : those of the base; its own weights are the unbiased ones, by the rates learned
    """

    selector: F3ast
    learns_rates = True

    def __init__(self, per_round: int, **settings: Any) -> None:
        if settings.get("weights", AUTO) == AUTO:
            settings["weights"] = UNBIASED
        super().__init__(F3ast(per_round, seed_of(settings)), **settings)
        self.selector.wanted = self.options.enough or 0
        self._rates: NDArray[np.float64] | None = None

    def rates(self) -> NDArray[np.float64] | None:
        """Return (n,) the rates learned up to now, this round's clients counted."""
        return self._rates

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Choose, and find out what rates follow."""
        plan = super().choose(ask, grid)
        self._rates = self.selector.after(plan.clients)
        return plan
