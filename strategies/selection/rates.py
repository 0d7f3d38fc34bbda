"""Each client's own rate, from the roll call on: equal, by size, or given."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from aoi_fl.protocol.log import logger
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import RateRule
from aoi_fl.science.rates import check_rule, given_rates, make_rates
from aoi_fl.science.types import Floats, Mask
from aoi_fl.strategies.policy import RoundView
from aoi_fl.strategies.validation import some_of

Rates: TypeAlias = RateRule | Sequence[float | None] | Mapping[str, float | None]
"""``"equal"``, ``"size"``, or r_i by client number or by name."""


def stride(clients: int, per_round: int) -> int:
    """Return n/k, rounded up: a client takes part once in so many rounds, and an absent one has left after them."""
    return math.ceil(clients / per_round)


class Shares:
    """The clients' rates, computed again when a client arrives or leaves.

    Equal rates and rates by size share k among the present clients. A client that was absent for more than a stride,
    n/k rounds, has left; it keeps a rate for its return. Given rates do not change.

    Parameters
    ----------
    rule : source of the rates
    clients, per_round : n and k
    most : the largest rate; 1−d if the rates compensate for a dropout d
    leaving : whether absent clients leave; not so if availability is compensated

    Raises
    ------
    ConfigError
        Fewer rates are given than there are clients, they do not sum to k, one of them is missing or out of (0, most],
        or there is no such rule.

    Attributes
    ----------
    members : (m,) bool, the clients that share k; empty before the first client
    known : (m,) bool, the clients that have introduced themselves
    """

    def __init__(self, rule: Rates, clients: int, per_round: int, *, most: float = 1.0, leaving: bool = True) -> None:
        if isinstance(rule, str):
            check_rule(rule)
        elif len(rule) < clients:
            allowed = f"{clients} numbers, one a client"
            raise ConfigError("rates", len(rule), allowed, "Give each client a rate, or choose rates 'size'.")
        else:
            mapped = rule if isinstance(rule, Mapping) else {str(client): rate for client, rate in enumerate(rule)}
            self._usual = float(given_rates(list(mapped.values()), per_round, list(mapped), most=most).mean())
        self.rule, self._clients, self._per_round = rule, clients, per_round
        self._most, self._leaving = most, leaving
        self._stride = stride(clients, per_round)
        self._rateless = set[int]()  # named in a warning, without a given rate
        self.members = self.known = np.zeros(0, np.bool_)

    def found(self, view: RoundView) -> Floats | None:
        """Return (m,) the rates of the m clients known, at least n of them, or None where nothing has changed."""
        to_come = (0, max(0, self._clients - len(view.known)))
        known, seen = np.pad(view.known, to_come), np.pad(view.last_seen, to_come)
        members = np.ones(len(known), np.bool_)
        if self._leaving and isinstance(self.rule, str):
            members = seen >= view.round - self._stride
        same = np.array_equal(members, self.members) and np.array_equal(known, self.known)
        if same or not members.any():
            return None
        self.members, self.known = members, known
        rule = self.rule
        return self._shared(view, rule, members) if isinstance(rule, str) else self._given(view, rule)

    def _shared(self, view: RoundView, rule: RateRule, members: Mask) -> Floats:
        """Return rates of which those of the members add up to k, or as close to it as so few clients can get."""
        sizes = np.ones(len(members), np.int64)
        if rule == "size":
            declared = view.population.sizes
            usual = max(1, round(declared.mean()))  # of clients that have not arrived yet
            sizes = np.pad(declared, (0, len(members) - len(declared)), constant_values=usual)
        there, k = int(members.sum()), self._per_round
        if there < self._clients:
            k = min(k, math.floor(there * self._most))
        own, capped = make_rates(rule, sizes[members], k, self._most) if k else (np.full(there, self._most), 0)
        if capped:
            logger.warning("%d clients have much data, and so the largest possible rate, %g.", capped, self._most)
        rates = np.empty(len(members))
        rates[~members] = np.minimum((k or own.sum()) / sizes[members].sum() * sizes[~members], self._most)
        rates[members] = own
        return rates

    def _given(self, view: RoundView, rule: Sequence[float | None] | Mapping[str, float | None]) -> Floats:
        """Return the given rates; a client without one gets their mean."""
        if isinstance(rule, Mapping):
            rates = [rule.get(view.name(client)) for client in range(len(self.members))]
        else:
            rates = [*rule, *[None] * (len(self.members) - len(rule))]
        new = {client for client in view.declared if rates[client] is None} - self._rateless
        if new:
            self._rateless |= new
            names = some_of([view.name(client) for client in sorted(new)])
            logger.warning(
                "No rate is given to %s: it gets the mean of the given rates, %.3g. Give each client a rate by name (a "
                "run: a row of clients-file, columns name and rate), so that the rates add up to %d.",
                names,
                self._usual,
                self._per_round,
            )
        return np.array([self._usual if rate is None else rate for rate in rates])
