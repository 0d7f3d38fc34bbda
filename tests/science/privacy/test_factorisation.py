"""The factorisation against dense matrices and another library; its noise against the law that it should have."""

import numpy as np
import pytest
import scipy.stats

from aoi_fl.science.privacy.factorisation import CorrelatedNoise, coefficients, normals, prefix_error, workload

KEY = bytes(range(32))


def toeplitz(column, rounds):
    """Return the lower triangular (T, T) matrix of a first column."""
    return sum(c * np.eye(rounds, k=-j) for j, c in enumerate(column[:rounds]))


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_all_bands_are_the_root_of_the_workload(momentum):
    root = toeplitz(coefficients(40, momentum), 40)
    np.testing.assert_allclose(root @ root, toeplitz(workload(40, momentum), 40), rtol=1e-12)
    steps = toeplitz(momentum ** np.arange(40), 40)  # what the optimiser adds, then the sum of it
    np.testing.assert_allclose(root @ root, np.tril(np.ones((40, 40))) @ steps, rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("bands", [1, 2, 6, 30])
def test_prefix_error_is_that_of_dense_matrices(bands, momentum):
    column, rounds = coefficients(bands, momentum), 30
    published = toeplitz(workload(rounds, momentum), rounds) @ np.linalg.inv(toeplitz(column, rounds))
    dense = np.sqrt((published**2).sum(axis=1).mean())
    assert prefix_error(column, rounds, momentum) == pytest.approx(dense, rel=1e-12)


@pytest.mark.slow  # it imports JAX
def test_coefficients_are_those_of_another_library():
    other = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz", reason="jax-privacy is not installed")
    np.testing.assert_allclose(coefficients(50), other.optimal_max_error_strategy_coefs(50), rtol=1e-5)
    assert prefix_error(coefficients(6), 100) ** 2 == pytest.approx(
        float(np.mean(other.per_query_error(strategy_coef=coefficients(6), n=100))), rel=1e-4
    )


def test_the_noise_has_the_covariance_of_the_factorisation():
    draws, rounds, deviation = 10_000, 12, 1.7
    noise = CorrelatedNoise(KEY, coefficients(4), deviation, draws)
    drawn = np.array([noise.of(t + 1) for t in range(rounds)], dtype=np.float64)
    inverse = np.linalg.inv(toeplitz(coefficients(4), rounds))
    law = deviation**2 * inverse @ inverse.T
    found = drawn @ drawn.T / draws
    deviations = np.sqrt((np.outer(law.diagonal(), law.diagonal()) + law**2) / draws)
    assert (np.abs(found - law) / deviations).max() < 4.5


def test_normals_are_normal_and_independent_over_rounds_and_keys():
    first, second, other = normals(KEY, 1, 50_001), normals(KEY, 2, 50_001), normals(bytes(32), 1, 50_001)
    assert scipy.stats.kstest(first, "norm").pvalue > 1e-3
    for stranger in (second, other):
        assert abs(np.corrcoef(first, stranger)[0, 1]) < 0.02


@pytest.mark.parametrize("bands", [1, 2, 5])
@pytest.mark.parametrize("done", [1, 4, 8])
def test_noise_that_is_resumed_is_that_of_no_break(bands, done):
    whole = CorrelatedNoise(KEY, coefficients(bands), 0.5, 7)
    expected = [whole.of(t) for t in range(1, 10)]
    resumed = CorrelatedNoise(KEY, coefficients(bands), 0.5, 7)
    np.testing.assert_array_equal([resumed.of(t) for t in range(done + 1, 10)], expected[done:])


def test_only_the_last_round_gets_its_noise_again():
    noise = CorrelatedNoise(KEY, coefficients(2), 1.0, 3)
    first = noise.of(2).copy()
    np.testing.assert_array_equal(noise.of(2), first)
    for round_ in (0, 1):
        with pytest.raises(ValueError, match="gone"):
            noise.of(round_)
