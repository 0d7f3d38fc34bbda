"""The account with amplification, against both libraries, closed forms, and numbers that were measured elsewhere."""

import numpy as np
import pytest

from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import bisect, epsilon_of
from aoi_fl.science.privacy.amplification import MarkovAmplification, calibrate, coin_epsilon
from aoi_fl.science.privacy.factorisation import coefficients, prefix_error

ROUNDS, DELTA = 100, 1e-3


def amplified(policy, bands, error, **more):
    column = coefficients(bands)
    return MarkovAmplification(policy, column, error / prefix_error(column, ROUNDS), ROUNDS, **more)


# Measured by an independent Monte Carlo of 30,000 draws: n = 100, k = 15, T = 100, δ = 10⁻³.
@pytest.mark.parametrize(
    "bands, error, epsilon",
    [(1, 20, 1.73), (1, 6, 15.7), (1, 3.5, 44.6), (6, 20, 1.55), (6, 11.7, 3.03), (6, 6, 7.0), (6, 3.5, 15.1)],
)
def test_markov_epsilon_is_that_of_an_independent_check(bands, error, epsilon):
    found = amplified(MarkovPolicy.optimal(100, 15, 10), bands, error).epsilon(DELTA)
    assert found.epsilon == pytest.approx(epsilon, rel=0.03)
    assert found.error < 0.02 * epsilon


@pytest.mark.parametrize("error, epsilon", [(20, 1.55), (3.5, 34.2)])
def test_coins_every_round_by_a_library(error, epsilon):
    pytest.importorskip("dp_accounting", reason="the extra privacy is not installed")
    deviation = error / prefix_error(coefficients(1), ROUNDS)
    exact = coin_epsilon(0.15, deviation, ROUNDS, DELTA)
    assert exact == pytest.approx(epsilon, rel=0.02)  # the number beside it is from Monte Carlo
    by_draws = MarkovAmplification(MarkovPolicy.uniform(100, 15, 0), coefficients(1), deviation, ROUNDS, samples=20_000)
    assert by_draws.epsilon(DELTA).epsilon == pytest.approx(exact, rel=0.03)


def test_minimum_separation_sampling_is_that_of_a_library():
    selection = pytest.importorskip("jax_privacy.batch_selection", reason="jax-privacy is not installed")
    from jax_privacy.experimental.monte_carlo import sample_generation

    # A table whose largest age is b−1 has one coin from there on: sampling with minimum separation b.
    policy, deviation, draws = MarkovPolicy.optimal(100, 10, 4), 2.5, 100_000
    column = coefficients(5)
    sampling = selection.BMinSepSampling(policy.probabilities[-1], iterations=60, min_sep=5)
    ends = []
    for sign in (1, -1):
        losses, _ = sample_generation.get_privacy_loss_sample(
            sampling, deviation, column, seed=1, positive_sample=sign > 0, num_samples=draws
        )
        loss = sign * losses
        ends.append(bisect(lambda e, loss=loss: np.maximum(-np.expm1(np.minimum(e - loss, 0)), 0).mean() > DELTA, 50.0))
    found = MarkovAmplification(policy, column, deviation, 60, samples=20_000).epsilon(DELTA)
    assert found.epsilon == pytest.approx(max(ends), rel=0.03)


def test_certain_participation_is_not_amplified():
    always = MarkovAmplification(MarkovPolicy.uniform(4, 4, 0), coefficients(1), 8.0, 50).epsilon(DELTA)
    assert always.epsilon == pytest.approx(epsilon_of(np.sqrt(50) / 8.0, DELTA), rel=0.03)


def test_the_error_covers_what_other_draws_give():
    policy = MarkovPolicy.optimal(100, 15, 10)
    found = [amplified(policy, 6, 6, seed=seed, samples=4000).epsilon(DELTA) for seed in range(8)]
    spread = np.std([one.epsilon for one in found], ddof=1)
    assert 0.4 < spread / np.mean([one.error for one in found]) < 2.5


def test_noise_that_drowns_everything_costs_nothing():
    assert amplified(MarkovPolicy.optimal(100, 15, 10), 6, 1e6, samples=400).epsilon(DELTA).epsilon == 0.0


def test_calibration_finds_the_noise_of_an_epsilon():
    found = calibrate(lambda noise: epsilon_of(1 / noise, DELTA) / 2, 3.0, start=1.0)
    assert epsilon_of(1 / found, DELTA) / 2 == pytest.approx(3.0, rel=1e-3)


def test_one_round_is_one_coin():
    pytest.importorskip("dp_accounting", reason="the extra privacy is not installed")
    policy = MarkovPolicy.optimal(100, 15, 10)
    first = MarkovAmplification(policy, coefficients(6), 0.5, 1, samples=40_000).epsilon(DELTA)
    assert first.epsilon == pytest.approx(coin_epsilon(0.15, 0.5, 1, DELTA), rel=0.02)
