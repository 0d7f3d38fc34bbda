"""Every argument of the science that is out of range is refused by its name, and nothing is computed."""

import math
from unittest.mock import ANY

import numpy as np
import pytest

from aoi_fl.lab.rivals.fedcs import FedCS
from aoi_fl.lab.rivals.power_of_choice import PowerOfChoice
from aoi_fl.lab.simulated_time.availability import Availability
from aoi_fl.science.absence import absent_table
from aoi_fl.science.age import interval_given_age
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.estimate import SlopeEstimate
from aoi_fl.science.history import History
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import Account, epsilon_of, multiplier_of
from aoi_fl.science.privacy.factorisation import CorrelatedNoise, coefficients
from aoi_fl.science.rates import check_rule, equal_rates, given_rates, own_table, size_rates
from aoi_fl.science.selection import Population, RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.science.sizes import make_sizes
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.science.weighting import weigh
from aoi_fl.server.engine.machine import check
from tests.refusals import refused
from tests.science.populations import equals

ONES, TWO, NAN, INF = np.ones(2), np.array([1, 3]), math.nan, math.inf
OF_FIVE = np.array([4, 1, 7, 3, 5])


def of_round(when, who):
    return History.from_arrays(3, 3, [1, when], [0, who], [1.0, 1.0])


def strides(rate, phase, jitter):
    return SystematicPolicy(np.array([rate]), np.array([phase]), jitter)


def played(clients, rounds, start="zero"):
    return simulate(MarkovPolicy.optimal(10, 2, 3), equals(clients), rounds, 1, start)


# A function, the key that it names, and arguments, in brackets where they are several or none. The value follows where
# it is named.
GROUPS = [
    (absent_table, "rate", [(1e-7, 0.5, 0.5)]),
    (
        lambda table: interval_given_age(table, TWO, ONES / 2),
        "probabilities",
        [[], [0.5, 1.5], [NAN, 1.0], [0.2, 0.0]],
    ),
    (BudgetedSelector, "budget", [NAN]),
    (BudgetedSelector, "index", [(10, "oldest")], "oldest"),
    (lambda: BudgetedSelector(10, "abs").select(1, Population(TWO, TWO, TWO > 0, ONES)), "sensitivities", [()]),
    (lambda: BudgetedSelector(10).select(1, equals(2)), "payments", [()]),
    (lambda ageing: BudgetedSelector(40.0, "maxpack", ageing=ageing), "ageing", ["quadratic", "cubic"]),
    (lambda total: BudgetedSelector(10.0, total=total), "total-budget", [NAN]),
    (Availability.from_changes, "client 1: second", [([0, 1, 3], [0, 7, 3], [True, True, False], 9)]),
    (Availability.from_changes, "client 0: second", [([0, 2], [-2, 3], [True, False], 9)]),
    (Availability.from_changes, "client 0: change", [([0, 2], [2, 5], [True, True], 9)], "to available at second 5"),
    (lambda: SlopeEstimate.of(3).sensitivities(ONES), "sizes", [()], 2),
    (FedCS, "candidates", [(2, 1, 1.0, -1)]),
    (of_round, "round of client 1", [(0, 1)], 0),
    (of_round, "round of client 3", [(2, 3)], 2),
    (lambda k: RandomSelector(k, 1), "clients-per-round", [0]),
    (lambda workers: check(workers, 1), "--workers", [0]),
    (coefficients, "bands", [0]),
    (coefficients, "momentum", [(2, 1.0)]),
    (CorrelatedNoise, "noise key", [(b"short", coefficients(1), 1.0, 3)]),
    (lambda noise: Account(6, 100, noise), "noise-multiplier", [0.0, INF]),
    (lambda bands: Account(6, 100, 1.0, bands), "bands", [7], 7),
    (lambda delta: epsilon_of(1.0, delta), "delta", [1.0, 9e-16]),
    (lambda delta: multiplier_of(1.0, delta), "delta", [1.0]),
    (multiplier_of, "epsilon", [(0.0, 1e-5), (1e-9, 1e-15)]),
    (MarkovPolicy.optimal, "clients", [(True, 1, 1)]),
    (MarkovPolicy.optimal, "per-round", [(10, 2.5, 1), (100, 120, 1)]),
    (MarkovPolicy.optimal, "max-age", [(10, 2, -1)]),
    (MarkovPolicy.increasing, "exponent", [(10, 2, 3, 0.0), (10, 2, 3, INF)]),
    (MarkovPolicy.optimal, "dropout", [(10, 2, 3, 1.0)]),
    (MarkovPolicy.optimal, "dropout", [(100, 15, 10, 0.86)], 0.86),
    (MarkovPolicy, "probabilities", [((0.5, 1.2), 10, 2, "custom")]),
    (MarkovPolicy.rated, "rate of client 1", [(np.array([0.5, 1.5]), 0.0), (np.array([0.5, 0.9]), 0.2)]),
    (MarkovPolicy.rated, "dropout", [(ONES / 2, 1.0)]),
    (own_table, "rate", [1e-8], 1e-8),
    (PowerOfChoice, "candidates", [(5, 1, 3)], 3),
    (PowerOfChoice, "clients-per-round", [(0, 1, 3)], 0),
    (check_rule, "rates", ["fair"], "fair"),
    (lambda rates: given_rates(rates, 1, ["a", "b", "c"]), "rates", [[0.5, 0.5]], 2),
    (size_rates, "size of client 1", [(np.array([3, 0, 5]), 1, 1.0)]),
    (size_rates, "per-round", [(TWO, 0, 1.0), (TWO, 2, 0.7)]),
    (equal_rates, "per-round", [(3, 4)], 4),
    (played, "rounds", [(10, 0)], 0),
    (played, "start", [(10, 5, "warm")], "warm"),
    (played, "clients", [(7, 5)], 7),
    (make_sizes, "sizes", [(spec, 10, 1) for spec in ("zipf:1", "zipf:x", "uniform:9:4")]),
    (make_sizes, "examples", [("equal", 10, 1, 9)], 9),
    (strides, "rate of client 0", [(0.0, 0.1, 0.0)]),
    (strides, "phase of client 0", [(0.5, 1.0, 0.0), (0.5, NAN, 0.0)]),
    (strides, "jitter", [(0.5, 0.5, 1.1)]),
    (SystematicPolicy.equal, "phases", [(4, 2, "even")], "even"),
    (SystematicPolicy, "phases", [(ONES / 2, np.array([0.5]))], 1),
    (weigh, "weights", [("fair", TWO, OF_FIVE)], "fair"),
    (weigh, "weights", [("unbiased", TWO, OF_FIVE)], "unbiased"),
    (weigh, "rate of client 3", [("unbiased", TWO, OF_FIVE, np.array([0.5, 0.5, 0.5, 0.0, 0.5]))]),
    (weigh, "examples", [("size", TWO, np.array([1, 0, 1, 0, 1])), ("unbiased", TWO, np.zeros(5), OF_FIVE / 20)], 0),
]


@pytest.mark.parametrize(
    ("call", "key", "value"),
    [
        pytest.param(lambda f=f, a=a: f(*a) if isinstance(a, tuple) else f(a), key, *more or (ANY,), id=f"{i}-{key}")
        for i, (f, key, wrong, *more) in enumerate(GROUPS)
        for a in wrong
    ],
)
def test_an_argument_out_of_range_is_refused_by_name(call, key, value):
    with refused(key, value):
        call()
