"""Selection of the clients that refresh their data under a budget (Xu et al. 2024): WICS, ABS, MaxPack and Random."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from aoi_fl import protocol
from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.rules import check_settings
from aoi_fl.protocol import BY_SENSITIVITY, Bid
from aoi_fl.protocol.clients import abridged, check_clients
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.estimate import SlopeEstimate
from aoi_fl.science.selection import Population
from aoi_fl.science.types import Floats, Ints, Mask
from aoi_fl.strategies.policy import ClientOutcome, Plan, Policy, PolicyTraits, RoundOutcome, RoundView
from aoi_fl.strategies.strategy import AgeAwareStrategy
from aoi_fl.strategies.validation import some_of

_EXTREME = 5.0  # medians; a φ above them, and a payment below the median by this factor, are extreme
_FEW = 5  # of as many clients one may be extreme
_NOT_ALONE = 60  # rounds in which a client has no round alone after one that it left empty


class BudgetedPolicy(Policy):
    """Each round a budget pays some clients for fresh data.

    Parameters
    ----------
    selector : budget, index and the paper's literal variants
    clients : clients that round 1 needs
    source, trains, sensitivities : as in :class:`BudgetedRefresh`
    """

    def __init__(
        self,
        selector: BudgetedSelector,
        clients: int,
        source: str,
        trains: str,
        sensitivities: str,
    ) -> None:
        estimated = sensitivities == "estimated"
        self.traits = PolicyTraits(
            clients,
            own_weights="size",
            sizes="optional" if estimated else "unused",
            late_updates=False,
            by_data=estimated,
            least=1,
        )
        self.selector = selector
        self.source = source
        self.trains = trains
        self._refreshed = np.zeros(0, np.int64)
        self._emptied = np.zeros(0, np.int64)  # the last round that each client had alone and left empty
        self._known = 0
        self._ledger = {"spent": 0.0}  # of the round at hand
        self._capped = set[int]()  # named in a warning, for an extreme φ
        self._slopes = SlopeEstimate.of(0) if estimated else None  # of losses by age, φ
        self._declared = selector.index in BY_SENSITIVITY and not estimated  # whether clients must declare φ

    def plan(self, view: RoundView) -> Plan:
        """Spend the round's budget in descending order of the index."""
        self._take_in(view)
        if reason := self._over(view):
            logger.warning("Round %d pays no client: %s.", view.round, reason)
        population = view.population
        payable = population.available & self._payable(population)
        payments, bids, refused = np.asarray(population.payments), np.full(len(payable), np.inf), dict[int, str]()
        if self.source == "bid":
            payments, bids, refused = self._bids(view, payable, payments)
        declared, slopes = np.asarray(population.sensitivities), self._slopes
        population = replace(
            population,
            ages=view.round - 1 - self._refreshed,
            payments=payments,
            sensitivities=self._bounded(view, declared if slopes is None else slopes.sensitivities(population.sizes)),
            available=payable,
        )
        # NaN stays; a client may know that its data are younger, and not more
        bids = np.minimum(bids, self.selector.indices(view.round, population, payments))
        chosen = self.selector.select(view.round, population, bids).clients
        barred = (self._emptied > 0) & (view.round - self._emptied <= _NOT_ALONE)
        if len(chosen) == 1 and barred[chosen[0]]:
            population = replace(population, available=payable & ~barred)
            others = self.selector.select(view.round, population, bids).clients
            chosen = others if len(others) else chosen
        paid = np.full(len(payments), np.nan)
        paid[chosen] = payments[chosen]
        trains, self._ledger = chosen, {"spent": 0.0}
        if self.trains == "all":
            there = np.asarray(population.connected) & ~view.failed
            there[list(refused)] = False
            trains = np.flatnonzero(there)
        return Plan(
            trains,
            np.full(len(trains), np.nan),
            refresh=np.isin(trains, chosen),
            payments=paid,
            sensitivities=None if self._slopes is None else population.sensitivities,
            refused=refused,
            ledger=self._ledger,
        )

    def observe(self, outcome: RoundOutcome) -> str | None:
        """Pay the clients that have sent an update made of fresh data; the ages of these data start again."""
        round_, payments = outcome.view.round, outcome.plan.payments
        if self._slopes is not None:
            self._slopes = self._after(self._slopes, outcome.clients, round_ - self._refreshed)
        delivered = sorted(one.client for one in outcome.clients if one.refreshed and one.result == "trained")
        self._refreshed[delivered] = round_
        if len(outcome.plan.clients) == 1 and not delivered:
            self._emptied[outcome.plan.clients] = round_
        self.selector.pay(np.empty(0) if payments is None else payments[delivered])
        self._ledger["spent"] = self.selector.account.spent[-1]
        return self._over(outcome.view)

    def describe(self) -> dict[str, Any]:
        """Return the budget, the index, its source and the clients that train."""
        return {
            "kind": f"budgeted-{self.selector.index}",
            "budget": self.selector.budget,
            **({} if math.isinf(self.selector.total) else {"total_budget": self.selector.total}),
            "index": self.selector.index,
            **({} if self.selector.ageing == "linear" else {"ageing": self.selector.ageing}),
            "index_source": self.source,
            "trains": self.trains,
            "sensitivities": "declared" if self._slopes is None else "estimated",
        }

    def state_dict(self) -> State:
        """Return last refreshes, the number of clients taken in, spending, and the estimate of φ."""
        account = self.selector.account
        paid = np.array([account.paid, account.rounding])
        mine = {"refreshed": self._refreshed, "known": np.array([self._known]), "paid": paid}
        if self._emptied.any():
            mine["emptied"] = self._emptied
        if self._slopes is None:
            return mine
        return {**mine, "moments": self._slopes.moments, "level": np.array([self._slopes.level])}

    def load_state_dict(self, state: State) -> None:
        """Restore the ages of the data; clients met in the round that was cut short are taken in by the next one."""
        self._refreshed, self._known = state["refreshed"].copy(), int(state["known"][0])
        self._emptied = state.get("emptied", np.zeros_like(self._refreshed)).copy()
        self.selector.account.paid, self.selector.account.rounding = state["paid"].tolist()
        if self._slopes is not None:
            self._slopes = SlopeEstimate(state["moments"].copy(), float(state["level"][0]))

    @staticmethod
    def _after(slopes: SlopeEstimate, outcomes: Sequence[ClientOutcome], ages: Ints) -> SlopeEstimate:
        """Return the estimate after the losses of a round; ``ages`` (n,) are those of data not refreshed."""
        trained = [one for one in outcomes if one.result == "trained"]
        clients = np.array([one.client for one in trained], dtype=np.int64)
        trained_at = np.where([one.refreshed for one in trained], 0, ages[clients])
        return slopes.after(clients, trained_at, np.array([one.loss for one in trained], dtype=np.float64))

    def _bids(self, view: RoundView, payable: Mask, declared: Floats) -> tuple[Floats, Floats, dict[int, str]]:
        """Return (n,) the payments asked for, (n,) the bids, NaN for excluded clients, and the reasons by client."""
        terms = replace(view.base.untimed(), index=self.selector.index, budget=self.selector.budget)
        payments, bids, refused = declared.copy(), np.full(len(declared), np.nan), dict[int, str]()
        answers: Any = view.query(protocol.BID, dict.fromkeys(np.flatnonzero(payable).tolist(), terms))
        for client, bid in answers:
            if why := _unusable(bid, declared[client]):
                refused[client] = why
            else:
                bids[client], payments[client] = bid.bid, bid.payment
        return payments, bids, refused

    def _bounded(self, view: RoundView, sensitivities: Floats) -> Floats:
        """Return (n,) φ, each at most five times the median, or the largest of four fifths if that is more."""
        known = np.sort(sensitivities[np.isfinite(sensitivities)])
        if len(known) < 2:
            return sensitivities
        limit = max(_EXTREME * known[(len(known) - 1) // 2], known[-1 - max(1, len(known) // _FEW)])
        if new := set(np.flatnonzero(sensitivities > limit).tolist()) - self._capped:
            self._capped |= new
            names = some_of([view.name(client) for client in sorted(new)])
            logger.warning("The sensitivity of %s counts as %.4g, as few clients have more.", names, limit)
        return np.asarray(np.minimum(sensitivities, limit))

    def _over(self, view: RoundView) -> str | None:
        """Return why the total budget pays no client more; None while it pays, or if it is unlimited.

        A client with an extremely low payment does not keep the run going, because it would soon train alone.
        """
        if math.isinf(self.selector.total) or not len(view.known):
            return None
        population = view.population
        known = np.asarray(population.payments)[self._payable(population)]
        reason = self.selector.over(known[known >= np.median(known) / _EXTREME] if known.size else known)
        return reason and f"{reason} (total-budget)"

    def _take_in(self, view: RoundView) -> None:
        """Check clients met for the first time, and learn the age of their data.

        A warning names a client that cannot be paid. Before the first round it is an error if none can be paid.
        """
        new = list(view.declared.values())[self._known :]
        if not new:
            return
        first, self._known = self._known == 0, self._known + len(new)
        more = len(view.known) - len(self._refreshed)
        self._refreshed, self._emptied = (np.pad(known, (0, more)) for known in (self._refreshed, self._emptied))
        if self._slopes is not None:
            self._slopes = self._slopes.joined(more)
        for record in new:
            self._refreshed[record.client] = record.since - 1 - (record.data_age or 0)
        able = self._payable(view.population)
        payable = [record for record in new if able[record.client]] or (new if first else [])
        warnings = abridged(
            [
                f"client {record.name} has declared no payment or sensitivity: it can never be chosen"
                for record in new
                if not able[record.client]
            ]
        )
        if first:
            warnings += check_clients(
                [r.payment for r in payable],
                [r.sensitivity if self._declared else 1.0 for r in payable],
                self.selector.budget,
                [r.name for r in payable],
                self.selector.account.left,
            )
        for warning in warnings:
            logger.warning("%s", warning)

    def _payable(self, population: Population) -> Mask:
        """Return (n,) the clients that have declared what the index needs."""
        declared: Mask = np.isfinite(np.asarray(population.payments))
        return declared & np.isfinite(np.asarray(population.sensitivities)) if self._declared else declared


def _unusable(bid: Bid, declared: float) -> str | None:
    """Return why a client that bids so is left out of the round; None where the bid counts."""
    if bid.bid < 0:
        return f"its bid is {bid.bid:g}, below 0"
    if not 0 < bid.payment <= declared:
        return f"it asks for {bid.payment:g}, its declared payment is {declared:g}"
    return None


class BudgetedRefresh(AgeAwareStrategy):
    """Each round a budget pays some clients for fresh data; their models are averaged by data size, eq. (2).

    If only the refreshed clients train, none trains on stale data; age then counts rounds without participation. The
    effect of staleness on data (:mod:`aoi_fl.learning.freshness`) shows only if all clients train.

    Parameters
    ----------
    selector : budgets, index and the paper's literal variants
    clients : clients that round 1 needs
    source : "server": the server computes the indices from payments, sensitivities and ages; "bid": each client
        computes its own, and the server checks it (Algorithm 1, step 2)
    trains : "selected", only the refreshed clients train (Section 5), or "all" clients do (Section 2)
    total_budget : spending of all rounds; the run is complete when the rest pays no known client; infinite: the
        selector's
    sensitivities : "declared" by the clients, or "estimated" from their training losses by the age of their data, see
        :mod:`aoi_fl.science.estimate`; an estimate needs all clients to train
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
        check_settings(selector.index, selector.ageing, source, trains, sensitivities)
        selector = replace(selector, total=min(total_budget, selector.total))  # with an account of this run
        super().__init__(BudgetedPolicy(selector, clients, source, trains, sensitivities), **settings)

    @classmethod
    def by_keys(cls, keys: Mapping[str, Any], **settings: Any) -> Self:
        """Return the strategy for a run's keys."""
        return cls(
            REGISTRY[keys["policy"]].build(keys),
            keys["num-clients"],
            source=keys["index-source"],
            trains=keys["trains"],
            sensitivities="estimated" if keys["sensitivities"] == "estimated" else "declared",
            **settings,
        )
