"""Tables under which ages never mix, and the variance of weights, by enumeration of all selections."""

from fractions import Fraction
from itertools import product

import pytest

from aoi_fl.lab.experiments.oracles.markov_chain import markov_weight_variance, rounds_to_mix
from aoi_fl.science.markov import MarkovPolicy


@pytest.mark.parametrize(("n", "k", "m"), [(100, 20, 10), (93, 1, 92)])
def test_tables_that_never_mix(n, k, m):
    assert rounds_to_mix(MarkovPolicy.optimal(n, k, m).hazards) is None


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (5, 2), (8, 7), (10, 1)])
def test_weight_variance_by_enumeration_of_all_selections(n, k):
    rate, total = Fraction(k, n), Fraction(0)
    for pattern in product((0, 1), repeat=n):
        s = sum(pattern)
        total += rate**s * (1 - rate) ** (n - s) * (Fraction(1, s) if s else 0)
    found = markov_weight_variance(MarkovPolicy.optimal(n, k, 3))
    assert found == pytest.approx(float(total - Fraction(1, n)), rel=1e-10, abs=1e-14)
