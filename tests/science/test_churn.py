"""Clients that come and go, under a budget and without a server that chooses."""

import numpy as np
import pytest

from aoi_fl.protocol.clients import section5_instance
from aoi_fl.science.selection import Population
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy

N, ROUNDS = 24, 200


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
