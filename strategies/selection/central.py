"""The central policies: the server chooses among the clients that it can reach."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.selection import OldestAgeSelector, ProportionalSelector, RandomSelector, Selection, Selector
from aoi_fl.strategies.plan import Plan
from aoi_fl.strategies.round import AgeAwareStrategy
from aoi_fl.strategies.weighting import UNBIASED
from aoi_fl.wire.protocol import Ask


class CentralSelection(AgeAwareStrategy):
    """A strategy over any selector of :mod:`aoi_fl.science.selection`."""

    def __init__(self, selector: Selector, per_round: int, **settings: Any) -> None:
        super().__init__(per_round, **settings)
        self.selector = selector
        self._per_round = per_round

    @classmethod
    def by_keys(cls, keys: Mapping[str, Any], **settings: Any) -> Self:
        """Return the strategy for a run's keys, of which most need nothing but k."""
        return cls(keys["clients-per-round"], **settings)

    def parameters(self) -> dict[str, Any]:
        """Return the policy's kind and k."""
        return super().parameters() | {"per_round": self._per_round}

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Let the selector choose from the population."""
        selection = self.selector.select(ask.round, self.population(ask.round))
        self._record.willing = len(selection.clients)
        return Plan(selection.clients, self.own_weights(selection), ask)

    def own_weights(self, selection: Selection) -> NDArray[np.float64]:
        """Return (s,) the policy's own aggregation weights ω."""
        return selection.weights

    def rates(self) -> NDArray[np.float64] | None:
        """Return (n,) k/n for everybody: each is chosen as often as any other."""
        n = max(1, int(self.roster.here(self._record.round).sum()))
        return np.full(len(self.roster), min(1.0, self._per_round / n))

    def counted(self) -> NDArray[np.bool_] | None:
        """Return (n,) who is there: k/n is shared among them."""
        return self.roster.here(self._record.round)


class RandomSelection(CentralSelection):
    """``per_round`` clients uniformly at random, weighted by data size (Javani & Wang 2025, Policy 1)."""

    def __init__(self, per_round: int, **settings: Any) -> None:
        super().__init__(RandomSelector(per_round, seed_of(settings)), per_round, **settings)

    def own_weights(self, selection: Selection) -> NDArray[np.float64]:
        """Return the data sizes; of who declared none, what it will report."""
        sizes: NDArray[np.float64] = self.roster.sizes[selection.clients]
        return sizes


class ProportionalSelection(CentralSelection):
    """``per_round`` draws with replacement, in proportion to data size (Javani & Wang 2025, Policy 2)."""

    def __init__(self, per_round: int, **settings: Any) -> None:
        super().__init__(ProportionalSelector(per_round, seed_of(settings)), per_round, **settings)
        if self.weights == UNBIASED:
            raise ConfigError(
                "weights is 'unbiased', but proportional draws with replacement are so already, by the times drawn: "
                "leave weights out."
            )

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Let the selector choose, once it is known by what sizes."""
        self.roster.sizes_of_all("policy 'proportional'")
        return super().choose(ask, grid)


class OldestAge(CentralSelection):
    """The ``per_round`` clients that have waited longest, ties at random (Javani & Wang 2024, Remark 1)."""

    def __init__(self, per_round: int, **settings: Any) -> None:
        super().__init__(OldestAgeSelector(per_round, seed_of(settings)), per_round, **settings)


def seed_of(settings: dict[str, Any]) -> int:
    """Return the seed that the settings of the base class hold; 0 by default."""
    options = settings.get("options")
    return 0 if options is None else int(options.seed)
