"""Clients that come and go, under a budget and without a server that chooses."""

import numpy as np
import pytest

from aoi_fl.protocol.clients import section5_instance
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy

N, BUDGET, ROUNDS = 24, 40.0, 200


def comings_and_goings(round_):
    """Six clients join in round 50, six leave in round 120, and every tenth client is out of reach for a while."""
    present = np.ones(N, dtype=bool)
    present[:6] = round_ >= 50
    present[6:12] = round_ < 120
    present[np.arange(N) % 10 == round_ // 7 % 10] = False
    return present


@pytest.fixture
def population():
    table = section5_instance(N, 3)
    return Population(table.ages, table.sizes, np.ones(N, bool), table.payments, table.sensitivities)


@pytest.mark.parametrize("index", ["whittle", "abs", "maxpack", "random"])
def test_the_budget_pays_available_clients_and_is_spent(population, index):
    selector = BudgetedSelector(BUDGET, index, seed=1)
    history = simulate(selector, population, ROUNDS, 1, availability=comings_and_goings)
    for t in range(1, ROUNDS + 1):
        chosen, present = history.selection(t).clients, comings_and_goings(t)
        assert present[chosen].all()
        left = BUDGET - population.payments[chosen].sum()
        waiting = np.setdiff1d(np.flatnonzero(present), chosen)
        assert left >= -1e-9
        assert not waiting.size or population.payments[waiting].min() > left - 1e-9


def test_clients_of_whom_something_is_not_known_are_left_out(population):
    population.payments[2], population.sensitivities[5] = np.nan, np.nan
    chosen = simulate(BudgetedSelector(BUDGET), population, 60, 1).counts
    assert chosen[[2, 5]].tolist() == [0, 0]
    assert np.delete(chosen, [2, 5]).min() > 0


@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_a_systematic_client_makes_up_what_it_missed(population, jitter):
    """Each client alone, by the number of its last participation, decides as the simulator says."""
    policy = SystematicPolicy.equal(N, 5, jitter=jitter, seed=2)
    history = simulate(policy, population, ROUNDS, 1, availability=comings_and_goings)
    for i in range(N):
        client = policy.client(i)
        taken = client.count(-int(history.first_ages[i]))
        for t in range(1, ROUNDS + 1):
            takes_part = client.count(t) > taken and bool(comings_and_goings(t)[i])
            assert takes_part == (i in history.selection(t).clients)
            taken = client.count(t) if takes_part else taken
