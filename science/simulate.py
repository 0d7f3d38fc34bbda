"""Selection without learning: a policy over many rounds, vectorised over the clients."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Protocol, TypeAlias, cast, get_args

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.client_stats import Reports, drawn_reports
from aoi_fl.science.errors import ConfigError, check_choice, check_whole
from aoi_fl.science.history import History
from aoi_fl.science.names import Start, Weighting
from aoi_fl.science.rule import Clocks, ParticipationRule, is_decentralised
from aoi_fl.science.selection import Population, Selection, Selector, evenly, everyone
from aoi_fl.science.types import Floats, Ints, Mask
from aoi_fl.science.weighting import weigh

Arrived: TypeAlias = Callable[[int, Mask], Mask]  # from a round's chosen clients to those with work that counts
Decentralised: TypeAlias = ParticipationRule
Played: TypeAlias = tuple[ParticipationRule | Selector, Selection]  # by what a round's clients were chosen, and they


class Timer(Protocol):
    """Simulated time, such as the laboratory's round clock.

    Attributes
    ----------
    now, until : seconds up to now, and those after which no round begins
    seconds : (n,) of a training
    """

    now: float
    until: float
    seconds: Floats

    def here(self, round_: int) -> Mask:
        """Return (n,) which clients are available as a round begins."""

    def play(self, round_: int, chosen: Mask) -> Mask:
        """Let the chosen clients train, end the round, and return (n,) whether updates arrived."""


def simulate(
    policy: Decentralised | Selector,
    population: Population,
    rounds: int,
    seed: int,
    start: Start = "stationary",
    weighting: Weighting | None = None,
    availability: Callable[[int], Mask] | None = None,
    reports: Reports | None = None,
    clock: Timer | None = None,
    observe: Callable[[int, Selection], None] | None = None,
) -> History:
    """Run a policy over rounds 1 … R and return the history.

    Ages follow eq. (4) of Javani & Wang (2025). Decentralised policies make the very draws of real clients, so the
    history is that of a real run with this seed and these client numbers. Here no client fails, and a round without a
    willing client stays empty. A Markov policy's dropout loses willing clients with that probability.

    Parameters
    ----------
    policy : a rule, or a selector with its own seed
    population : n clients, with a selector's first ages; unavailable clients never take part
    rounds : R ≥ 1; fewer where a total budget (:class:`aoi_fl.science.budget.BudgetedSelector`) or the clock ends the
        run
    seed : of the clients' decisions
    start : first ages under a rule, from the stationary law or all zero. From age zero clients move in step for long,
        for ever where k divides n
    weighting : ω, see :mod:`aoi_fl.science.weighting`; by default a selector's own, and 1/|S| under a rule (Policy 3)
    availability : gives (n,) the available clients of a round; by default the population's. An absent client grows
        older; a systematic one makes up a missed round in the first one it can
    reports : the reports to selectors that learn; by default :func:`drawn_reports` of the seed
    clock : simulated time, in place of ``availability``; it decides availability, arrivals and the reported seconds
    observe : called with each round and its selection, before the selector learns from the round

    Returns
    -------
    History
        16 bytes a participation, 40 while it is put together, beside about 50 bytes a client

    Raises ConfigError if ``rounds`` < 1, ``start`` is unknown, the policy has another number of clients, or unbiased
    weights meet a policy without rates.
    """
    check_whole("rounds", rounds)
    check_choice("start", start, get_args(Start))
    there = availability or (lambda round_: population.available) if clock is None else clock.here
    arrived: Arrived = (lambda round_, chosen: chosen & there(round_)) if clock is None else clock.play

    clients = len(population.ages)
    if is_decentralised(policy):
        if clients != policy.clients:
            raise ConfigError(
                "clients", clients, f"{policy.clients}, as the policy is made for", "Make the two numbers equal."
            )
        weighting = weighting or "equal"
        u = draws.uniforms(seed, 1, "first-age", clients) if start == "stationary" else np.zeros(clients)
        first_ages = policy.first_age(1, u)
        played: Iterator[Played] = _decided(policy, first_ages, seed, there, arrived)
    else:
        reports, first_ages = reports or drawn_reports(clients, seed), population.ages
        played = _selections(cast(Selector, policy), population, there, arrived, reports, clock)
    selections = []
    for round_, (now, selection) in enumerate(islice(played, rounds), 1):
        if weighting is not None:
            rates = long_run_rates(now, population) if weighting == "unbiased" else None  # as far as known by now
            weights = weigh(weighting, selection.clients, population.sizes, rates, selection.draws)
            selection = replace(selection, weights=weights)
        selections.append(selection)
        if observe is not None:
            observe(round_, selection)
        if clock is not None and clock.now >= clock.until:
            break
    return History.of(selections, first_ages)


def _kept(selection: Selection, arrived: Arrived, round_: int, clients: int, shares: bool) -> Selection:
    """Return a selection without the lost clients; shares of a round sum to 1 again."""
    chosen = np.zeros(clients, dtype=np.bool_)
    chosen[selection.clients] = True
    keep = arrived(round_, chosen)[selection.clients]
    weights = selection.weights[keep]
    if keep.any() and shares:
        weights = weights / weights.sum()
    return Selection(selection.clients[keep], weights, selection.draws[keep])


def long_run_rates(policy: Decentralised | Selector, population: Population) -> Floats | None:
    """Return (n,) each client's participations a round in the long run, if all are available; None: unknown."""
    if is_decentralised(policy):
        return policy.long_run_rates()
    names = ("long_run_rates", "rates")
    known = next((of for name in names if callable(of := getattr(policy, name, None))), None)
    return None if known is None else known(everyone(population.sizes))


def _decided(
    rule: ParticipationRule, ages: Ints, seed: int, availability: Callable[[int], Mask], arrived: Arrived
) -> Iterator[Played]:
    """Yield the rule, and the clients that take part by it, in round 1, 2, 3, …."""
    n, coins = len(ages), np.zeros(0)
    clocks = Clocks(-ages, rule.counts(-ages))
    for round_ in count(1):
        if rule.coins:
            coins = draws.uniforms(seed, round_, "participate", n)
        willing = rule.participates(clocks, round_, coins)
        if rule.dropout:
            willing = willing & (draws.uniforms(seed, round_, "dropout", n) >= rule.dropout)
        took_part = arrived(round_, willing)
        yield rule, evenly(np.flatnonzero(took_part))
        clocks = rule.advance(clocks, round_, took_part)
        rule = rule.observe(availability(round_), round_)


def _selections(
    selector: Selector,
    population: Population,
    availability: Callable[[int], Mask],
    arrived: Arrived,
    reports: Reports,
    clock: Timer | None,
) -> Iterator[Played]:
    """Yield the selector, and the clients that it selects, in round 1, 2, 3, …."""
    over, learn, pay = (getattr(selector, name, None) for name in ("over", "learn", "pay"))
    ages, payments = population.ages, population.payments
    for round_ in count(1):
        if over is not None and payments is not None and over(payments):
            return
        available = availability(round_)
        now = replace(population, ages=ages, available=available, now=None if clock is None else clock.now)
        chosen = selection = selector.select(round_, now)
        if clock is not None:
            selection = _kept(chosen, arrived, round_, len(ages), shares=getattr(selector, "shares", True))
        if pay is not None and payments is not None:
            pay(payments[selection.clients])
        yield selector, selection
        if learn is not None:
            told = reports(round_, selection.clients)
            if clock is not None:
                late = np.setdiff1d(chosen.clients, selection.clients)
                waited = np.full(len(late), clock.now - (now.now or 0.0))
                told = replace(told, seconds=clock.seconds[selection.clients], late=late, waited=waited)
            learn(round_, now, told)
        ages = ages + 1
        ages[selection.clients] = 0
