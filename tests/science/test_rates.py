"""Rates against water-filling by plain iteration in rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science.rates import exact, size_rates


def filled(sizes, k, most):
    """Give everybody its share; whoever exceeds the cap is set to it, and the rest is shared out anew."""
    capped = set()
    while True:
        rest = sum(d for i, d in enumerate(sizes) if i not in capped)
        share = [most if i in capped else (k - most * len(capped)) * Fraction(d, rest) for i, d in enumerate(sizes)]
        over = {i for i, rate in enumerate(share) if i not in capped and rate > most}
        if not over:
            return share, len(capped)
        capped |= over


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=25), st.sampled_from([1, Fraction(3, 4)]), st.data())
@settings(max_examples=200, deadline=None)
def test_rates_in_proportion_to_size(sizes, most, data):
    if math.floor(len(sizes) * most) < 1:
        return
    k = data.draw(st.integers(1, math.floor(len(sizes) * most)))
    rates, capped = size_rates(np.array(sizes), k, float(most))
    wanted, most_wanted = filled(sizes, k, most)
    assert rates == pytest.approx([float(rate) for rate in wanted], rel=1e-12)
    assert capped == most_wanted
    assert rates.max() <= most
    assert math.fsum(rates) == pytest.approx(k, rel=1e-12)


def test_rates_of_tiny_clients():
    assert exact(1e-12) == Fraction(1, 10**12)
    for rate in np.geomspace(1e-15, 1, 400).tolist():
        assert float(exact(rate)) == pytest.approx(rate, rel=1e-15)
        assert exact(rate).numerator * exact(rate).denominator <= 2**53
    rates, _ = size_rates(np.array([10**9, 1, 1]), 1)
    assert float(exact(rates[1])) == pytest.approx(rates[1], rel=1e-7)
