"""Who meets whom, against sets of pairs."""

from itertools import combinations

import numpy as np
import pytest

from aoi_fl.science import load
from aoi_fl.science.history import History
from aoi_fl.science.load import measure, pairs_met
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from tests.science.populations import equals


def in_sets(history, length):
    met = set()
    for t in range(1, length + 1):
        met |= set(combinations(history.selection(t).clients.tolist(), 2))
    return len(met) / (history.clients * (history.clients - 1) / 2)


@pytest.mark.parametrize("n", [2, 7, 16, 33])
def test_share_of_pairs_against_sets(n):
    history = simulate(MarkovPolicy.uniform(n, max(n // 4, 1), 2), equals(n), 30, seed=n)
    found = pairs_met(history, range(1, 31))
    assert found == pytest.approx({t: in_sets(history, t) for t in range(1, 31)})
    assert measure(history).pairs_met == pytest.approx({t: in_sets(history, t) for t in (1, 2, 5, 10, 20, 30)})


def test_random_selection_meets_as_expected():
    shares = [pairs_met(simulate(RandomSelector(15, seed), equals(100), 50, seed), [50])[50] for seed in range(40)]
    assert np.mean(shares) == pytest.approx(1 - (1 - 15 * 14 / (100 * 99)) ** 50, abs=4 * np.std(shares) / np.sqrt(40))


def test_a_large_population_is_sampled(monkeypatch):
    history = simulate(RandomSelector(60, 1), equals(400), 30, 1)
    everybody = pairs_met(history, [30])[30]
    monkeypatch.setattr(load, "_MOST_PAIRED", 200)
    sampled = pairs_met(history, [30])[30]
    assert sampled != everybody
    assert sampled == pytest.approx(everybody, abs=0.01)


def test_systematic_cohorts_are_fixed_and_jitter_breaks_them_up():
    """Blocks of gcd(100, 15) = 5 clients always train together: each meets 4 + 2·(5 + 5) others, of 99."""
    fixed = pairs_met(simulate(SystematicPolicy.equal(100, 15), equals(100), 500, 1), [100, 500])
    assert fixed[500] == fixed[100] == pytest.approx(24 / 99)
    shaken = pairs_met(simulate(SystematicPolicy.equal(100, 15, jitter=0.2), equals(100), 500, 1), [100, 500])
    assert shaken[500] > 1.8 * fixed[500]
    assert pairs_met(simulate(SystematicPolicy.equal(100, 15, jitter=1.0), equals(100), 500, 1), [500])[500] == 1


def test_without_pairs_or_rounds():
    assert pairs_met(simulate(RandomSelector(1, 1), equals(1), 5, 1), [5]) == {}
    assert pairs_met(History.from_arrays(4, 0, [], [], []), [1]) == {}
    assert pairs_met(History.from_arrays(4, 3, [], [], []), [3]) == {3: 0.0}
