"""Choosing under a budget whose data set is refreshed (Xu et al. 2024): WICS, ABS, MaxPack and Random."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import Index
from aoi_fl.science.total_budget import BoundedSelector
from aoi_fl.strategies.plan import Plan
from aoi_fl.strategies.records import ClientRecord, Memory
from aoi_fl.strategies.round import AgeAwareStrategy
from aoi_fl.strategies.selection.bids import usable_bids
from aoi_fl.strategies.selection.budget_rules import check_settings
from aoi_fl.strategies.selection.sensitivities import LearnedSensitivities
from aoi_fl.strategies.weighting import UNBIASED
from aoi_fl.wire import protocol
from aoi_fl.wire.clients import abridged, check_clients
from aoi_fl.wire.protocol import BY_SENSITIVITY, Ask, Bid

logger = logging.getLogger("flwr")


class BudgetedRefresh(AgeAwareStrategy):
    """Each round a budget pays some clients for fresh data; their models are averaged by data size, eq. (2).

    Where only the refreshed train, nobody trains on stale data: age then measures how long a client has had no say, and
    what staleness does to data (:mod:`aoi_fl.client.freshness`) shows only where all train.

    Parameters
    ----------
    selector : budget, index and the paper's literal variants
    clients : how many must be there before round 1
    source : "server" computes the indices from payments, sensitivities and ages that it knows; with "bid" each client
        computes its own and the server only checks it (Algorithm 1, step 2)
    trains : "selected", only the refreshed clients train (Section 5), or "all" clients do (Section 2)
    total_budget : what all rounds together may spend, beside the selector's budget for each; where what is left of it
        pays nobody more whom the run has met, by what they declared, the run is complete; infinite: rounds alone count
    sensitivities : "declared" by the clients, or "estimated" from how the losses that they report in training move with
        the age of their data, see :mod:`aoi_fl.science.estimate`, where all train: the selected alone have no old data
    """

    def __init__(
        self,
        selector: BudgetedSelector,
        clients: int,
        *,
        source: str = "server",
        trains: str = "selected",
        sensitivities: str = "declared",
        total_budget: float = math.inf,
        **settings: Any,
    ) -> None:
        how = (selector.index, selector.ageing, source, trains, sensitivities)
        check_settings(*how, begins=settings.get("resume") is None)
        super().__init__(clients, **settings)
        if self.weights == UNBIASED:
            raise ConfigError(
                "weights is 'unbiased', but under a budget nobody knows how often a client will take part: choose "
                "weights 'size', or a policy with a rate (random, Markov, systematic)."
            )
        if self.options.late_rounds:
            raise ConfigError(
                f"late_rounds is {self.options.late_rounds}, but under a budget each round pays for itself: leave it "
                "out."
            )
        self.selector = selector
        self.source = source
        self.trains = trains
        self.bounded = BoundedSelector(selector, total_budget)
        self._refreshed = np.zeros(0, np.int64)
        self._known = 0
        self._paid: dict[int, float] = {}
        self._learned = LearnedSensitivities() if sensitivities == "estimated" else None

    @classmethod
    def by_keys(cls, keys: Mapping[str, Any], *, index: Index, **settings: Any) -> Self:
        """Return the strategy for a run's keys."""
        seed = settings["options"].seed
        literal = keys["strict-budget"], keys["stop-at-first"]
        selector = BudgetedSelector(keys["budget"], index, seed, *literal, keys["ageing"])
        chosen = {
            "source": keys["index-source"],
            "trains": keys["trains"],
            "sensitivities": "estimated" if keys["sensitivities"] == "estimated" else "declared",
            "total_budget": keys["total-budget"] or math.inf,
        }
        return cls(selector, keys["num-clients"], **chosen, **settings)

    def parameters(self) -> dict[str, Any]:
        """Return the budget, the index, where it comes from and who trains."""
        return {
            "kind": f"budgeted-{self.selector.index}",
            "budget": self.selector.budget,
            **({} if math.isinf(self.bounded.total) else {"total_budget": self.bounded.total}),
            "index": self.selector.index,
            **({} if self.selector.ageing == "linear" else {"ageing": self.selector.ageing}),
            "index_source": self.source,
            "trains": self.trains,
            "sensitivities": "declared" if self._learned is None else "estimated",
        }

    def memory(self) -> dict[str, NDArray[Any]]:
        """Add the rounds of the last refreshes, the clients taken in, what was spent, and what the estimate goes by."""
        account = self.bounded.account
        paid = np.array([account.paid, account.rounding])
        mine = {"refreshed": self._refreshed, "known": np.array([self._known]), "paid": paid}
        if self._learned is not None:
            mine |= self._learned.memory()
        return {**super().memory(), **mine}

    def recall(self, memory: Memory) -> None:
        """Take back the ages of the data; clients met in the round that was cut short are taken in by the next one."""
        super().recall(memory)
        self._refreshed, self._known = memory["refreshed"].copy(), int(memory["known"][0])
        if "paid" in memory:
            self.bounded.account.paid, self.bounded.account.rounding = memory["paid"].tolist()
        if self._learned is not None:
            self._learned.recall(memory)

    def choose(self, ask: Ask, grid: Grid) -> Plan:
        """Spend the round's budget in descending order of the index."""
        self._take_in(ask.round)
        if reason := self.over():  # our own start ends the run before; whoever else plays the rounds goes on
            logger.warning("Round %d pays nobody: %s.", ask.round, reason)
        population = replace(self.roster.population(ask.round), ages=ask.round - 1 - self._refreshed)
        if self._learned is not None:
            sizes = self.roster.sizes_of_all("sensitivities 'estimated'", or_equal=True)
            population = replace(population, sensitivities=self._learned.rank_by(sizes))
        payable = population.available & np.isfinite(self._prices(population.sensitivities))
        payments, bids = self.roster.payments, None
        if self.source == "bid":
            terms = replace(ask, index=self.selector.index, budget=self.selector.budget)
            answers = self._ask_clients(grid, protocol.BID, terms, payable, Bid)
            payments, bids = usable_bids(answers, self.roster, self._record)
        population = replace(population, payments=payments, available=payable)
        chosen = self.bounded.select(ask.round, population, bids).clients
        self._record.willing = len(chosen)
        self._record.spent = self.bounded.account.spent[-1]
        self._paid = dict(zip(chosen.tolist(), payments[chosen].tolist(), strict=True))
        trains = chosen
        if self.trains == "all":
            dropped = [part.client for part in self._record.participations]  # their bids were no good
            trains = np.setdiff1d(np.flatnonzero(self.roster.available), dropped)
        return Plan(trains, self.roster.sizes[trains], ask, refresh=np.isin(trains, chosen))

    def over(self) -> str | None:
        """Say that what is left of the total budget pays nobody more, if so."""
        if math.isinf(self.bounded.total) or not len(self.roster):
            return None
        known = None if self._learned is not None else self.roster.population(self._record.round + 1).sensitivities
        reason = self.bounded.over(self._prices(known))
        return reason and f"{reason} (total-budget)"

    def observe(self, unanswered: int) -> None:
        """Note who has refreshed its data: a client whose update came back, whose age starts again.

        Of one that failed or fell silent nobody knows: it is paid, and counts as not refreshed.
        """
        server_round, parts = self._record.round, self._record.participations
        parts = [replace(part, payment=self._paid.get(part.client)) for part in parts]
        if self._learned is not None:
            parts = self._learned.noted(parts)
            self._learned.learn(parts, server_round - self._refreshed)
        self._record.participations = parts
        for part in self._record.participations:
            if part.refreshed and part.outcome == "trained":
                self._refreshed[part.client] = server_round

    def _take_in(self, round_: int) -> None:
        """Check clients met for the first time, and learn the age of their data.

        A client that cannot be paid is left out, and named. That nobody can be paid before the first round is an error.
        """
        new = list(self.roster.records.values())[self._known :]
        if not new:
            return
        first, self._known = self._known == 0, self._known + len(new)
        more = len(self.roster) - len(self._refreshed)
        self._refreshed = np.append(self._refreshed, np.zeros(more, np.int64))
        if self._learned is not None:
            self._learned.joined(more)
        for record in new:
            self._refreshed[record.client] = record.since - 1 - (record.data_age or 0)
        payable = [r for r in new if r.payment is not None and self._sensitivity(r) is not None]
        payable = payable or (new if first else [])
        able = {record.client for record in payable}
        warnings = abridged(
            [
                f"client {record.name} has declared no payment or sensitivity: it can never be chosen"
                for record in new
                if record.client not in able
            ]
        )
        try:
            warnings += check_clients(
                [r.payment for r in payable],
                [self._sensitivity(r) for r in payable],
                self.selector.budget,
                [r.name for r in payable],
                self.selector.strict,
                self.bounded.account.left,
            )
        except ConfigError:
            if first:
                raise
            # The roll call has seen to the rest: none of these newcomers is within the budget.
            warnings += abridged(
                [f"client {r.name} can never be chosen: the budget does not pay {r.payment:g}" for r in payable]
            )
        for warning in warnings:
            logger.warning("%s", warning)

    def _prices(self, sensitivities: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return (n,) the declared payments of those who can be chosen, NaN for who lacks what the index needs."""
        if sensitivities is None or self.selector.index not in BY_SENSITIVITY:
            return self.roster.payments
        return np.where(np.isfinite(sensitivities), self.roster.payments, np.nan)

    def _sensitivity(self, record: ClientRecord) -> float | None:
        """Return φ_i; an index that does not use it can do without, and so can the estimate."""
        needed = self.selector.index in BY_SENSITIVITY and self._learned is None
        return record.sensitivity if needed else record.sensitivity or 1.0
