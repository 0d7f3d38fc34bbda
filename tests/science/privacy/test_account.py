"""The account without amplification, against SciPy and every pattern of participation."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from aoi_fl.science.privacy.account import Account, delta_of, epsilon_of, multiplier_of
from aoi_fl.science.privacy.factorisation import coefficients, prefix_error
from tests.science.privacy.test_factorisation import toeplitz


@pytest.mark.parametrize("mu, epsilon", [(0.5, 0.0), (1.0, 2.0), (4.0, 20.0)])
def test_delta_is_the_formula(mu, epsilon):
    formula = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    assert delta_of(mu, epsilon) == pytest.approx(formula, rel=1e-9)


def test_the_multiplier_keeps_its_epsilon():
    for epsilon in (0.1, 2.0, 16.0, 300.0):
        multiplier = multiplier_of(epsilon, 1e-6)
        assert epsilon * (1 - 1e-4) < epsilon_of(1 / multiplier, 1e-6) <= epsilon
        assert multiplier == float(f"{multiplier:.6g}")


@pytest.mark.parametrize("bands, separation, most", [(1, 1, 3), (2, 2, 4), (3, 3, 3), (3, 4, 2)])
def test_sensitivity_is_the_largest_over_all_patterns(bands, separation, most):
    rounds = separation * (most - 1) + bands  # the last column is not cut off
    matrix = toeplitz(coefficients(bands), rounds)
    patterns = (
        rows
        for count in range(most + 1)
        for rows in itertools.combinations(range(rounds), count)
        if all(b - a >= separation for a, b in itertools.pairwise(rows))
    )
    largest = max(np.linalg.norm(matrix[:, list(rows)].sum(axis=1)) for rows in patterns)
    account = Account(separation, rounds, noise_multiplier=1.0, bands=bands)
    assert account.deviation == pytest.approx(largest, rel=1e-12)


# n = 100, k = 15, T = 100, δ = 10⁻³: b = 6, K = 17


def test_momentum_changes_noise_and_error():
    plain, heavy = (Account(5, 50, 1.0, 5, momentum=m) for m in (0.0, 0.9))
    assert heavy.column @ heavy.column > plain.column @ plain.column
    assert heavy.error == pytest.approx(heavy.deviation * prefix_error(heavy.column, 50, 0.9))
