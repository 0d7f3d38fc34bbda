"""Memory of one round's decisions stays under the constants that their docstrings state, whatever the clients are."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from aoi_fl.science import age
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import OldestAgeSelector, Population, ProportionalSelector, RandomSelector

CLIENTS = 10**5
ROUNDING = 4096  # bytes that do not grow with the clients
RNG = np.random.default_rng(1)
PEOPLE = Population(
    ages=RNG.geometric(0.01, CLIENTS).astype(np.int64),
    sizes=RNG.integers(1, 1000, CLIENTS),
    available=np.ones(CLIENTS, np.bool_),
    payments=RNG.uniform(1, 20, CLIENTS),
    sensitivities=RNG.uniform(0.1, 1, CLIENTS),
)
KINDS = {
    "as in a run": PEOPLE,
    "half of them away": replace(PEOPLE, available=RNG.random(CLIENTS) < 0.5),
    "prices far apart": replace(PEOPLE, payments=RNG.lognormal(0, 3, CLIENTS)),
}


def stated(function, unit):
    return int(re.search(rf"(\d+) bytes a {unit}", function.__doc__)[1])


def taken(function, *arguments):
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [RandomSelector, ProportionalSelector, OldestAgeSelector])
def test_memory_of_a_central_selector(make, kind):
    for k in [100, CLIENTS // 2, CLIENTS - 1]:
        allowed = stated(make.select, "client") * CLIENTS + ROUNDING
        if make is ProportionalSelector:
            allowed += stated(make.select, "draw") * k
        assert taken(make(k, 1).select, 2, KINDS[kind]) <= allowed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["whittle", "abs", "maxpack", "random"])
def test_memory_of_a_budgeted_selector(index, kind):
    for budget in [1e2, 2.5e4, 5e5, 1e9]:
        selector = BudgetedSelector(budget, index)
        assert taken(selector.select, 2, KINDS[kind]) <= stated(selector.select, "client") * CLIENTS + ROUNDING


@pytest.mark.parametrize("per_round", [100, CLIENTS * 15 // 100, CLIENTS // 2])
def test_memory_of_the_age_machine(per_round):
    policy = MarkovPolicy.optimal(CLIENTS, per_round, 10)
    u = RNG.random(CLIENTS)
    ages = age.first_age(policy.hazards, u)
    for function, arguments in (
        (age.hazards, (policy.probabilities, ages)),
        (age.first_age, (policy.hazards, u)),
        (age.interval_given_age, (policy.probabilities, ages, u)),
    ):
        assert taken(function, *arguments) <= stated(function, "client") * CLIENTS + ROUNDING, function.__name__


def test_memory_is_measured():
    assert taken(np.zeros, CLIENTS) >= 8 * CLIENTS
