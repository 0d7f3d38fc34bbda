"""The Markov policy against linear algebra and linear programmes."""

import numpy as np
import pytest

from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.experiments.oracles.exact import programmed_variance
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.strategies import MarkovParticipation
from tests.science.populations import stationary

POLICIES = [
    MarkovPolicy.optimal(100, 15, 10),
    MarkovPolicy.optimal(100, 15, 3),
    MarkovPolicy.optimal(100, 60, 4),
    MarkovPolicy.optimal(93, 1, 20),
    MarkovPolicy.optimal(50, 5, 9, dropout=0.2),
    MarkovPolicy.increasing(100, 15, 10),
    MarkovPolicy.increasing(100, 99, 10),
    MarkovPolicy.increasing(40, 7, 6, exponent=3.0),
    MarkovPolicy.uniform(20, 3, 4),
    MarkovPolicy.optimal(5, 5, 2),
    MarkovPolicy.increasing(5, 5, 2),
    MarkovPolicy.optimal(7, 2, 0),
    MarkovPolicy((0.9, 0.1, 0.5, 0.2), 10, 5, "custom"),
]


def transition(policy):
    """The chain on min(age, m), written down from the figure."""
    m, h = policy.max_age, [(1 - policy.dropout) * p for p in policy.probabilities]
    matrix = np.zeros((m + 1, m + 1))
    for a in range(m + 1):
        matrix[a, 0] += h[a]
        matrix[a, min(a + 1, m)] += 1 - h[a]
    return matrix


@pytest.mark.parametrize("policy", POLICIES)
def test_stationary_law_solves_the_balance_equations(policy):
    assert policy.stationary == pytest.approx(stationary(transition(policy)), abs=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_moments_solve_the_first_passage_equations(policy):
    """E_a = 1 + Σ_b Q_ab E_b and E_a[X²] = 1 + 2 Σ_b Q_ab E_b + Σ_b Q_ab E_b[X²], Q without the returns to 0."""
    matrix = transition(policy)
    stay = matrix.copy()
    stay[:, 0] -= policy.hazards
    solve = np.eye(len(stay)) - stay
    first = np.linalg.solve(solve, np.ones(len(stay)))
    second = np.linalg.solve(solve, 1 + 2 * stay @ first)
    assert policy.interval_mean == pytest.approx(first[0], rel=1e-10)
    assert policy.interval_variance == pytest.approx(second[0] - first[0] ** 2, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("policy", POLICIES)
def test_interval_pmf_agrees_with_the_moments(policy):
    pmf = policy.interval_pmf()
    x = np.arange(1, len(pmf) + 1)
    assert pmf.min() >= 0
    assert 1 - 1e-12 < pmf.sum() < 1 + 1e-12
    assert pmf @ x == pytest.approx(policy.interval_mean, rel=1e-8)
    assert pmf @ x**2 - (pmf @ x) ** 2 == pytest.approx(policy.interval_variance, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("n", "k"), [(100, 15), (100, 20), (100, 10), (10, 7), (12, 12), (93, 1), (30, 4)])
@pytest.mark.parametrize("d", [0.0, 0.05, 0.3, 0.5, 0.85])
def test_no_table_has_less_variance_than_the_optimal_one(n, k, d):
    if k <= n * (1 - d):
        for m in [0, 1, 2, 6, 9]:
            policy = MarkovPolicy.optimal(n, k, m, dropout=d)
            assert policy.interval_mean == pytest.approx(n / k, rel=1e-12)
            assert policy.interval_variance == pytest.approx(programmed_variance(n, k, m, d), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("n", "k"), [(100, 1), (100, 15), (100, 99), (10**6, 10**6 - 1), (2, 1)])
def test_increasing_table_rises_and_keeps_the_mean(n, k):
    for m in [0, 1, 10, 200]:
        for exponent in [0.2, 1.0, 4.0, 60.0]:
            policy = MarkovPolicy.increasing(n, k, m, exponent)
            table = np.array(policy.probabilities)
            steps = np.diff(table)
            assert (steps[(1 - table[:-1] > 1e-9) & (table[:-1] > 0)] > 0).all()  # strictly, short of rounding to 1
            assert (steps >= 0).all()
            assert policy.interval_mean == pytest.approx(n / k, rel=1e-11)


@pytest.mark.parametrize(("clients", "per_round"), [(100, 5), (100, 15), (997, 31), (10, 10)])
def test_default_max_age_reaches_the_least_variance(clients, per_round):
    """r(k−r)/k² is the least variance of a whole-numbered wait with mean n/k; library and run keys agree on it."""
    rest = clients % per_round
    least = rest * (per_round - rest) / per_round**2
    keys = {"num-clients": clients, "clients-per-round": per_round}
    config = RunConfig.parse(keys)
    table = MarkovParticipation.optimal(clients, per_round).policy.traits.law
    for law in (table, REGISTRY["markov-optimal"].build(config.flat()), MarkovPolicy.optimal(clients, per_round)):
        assert law.interval_variance == pytest.approx(least, abs=1e-9)
    assert RunConfig.parse({**keys, "max-age": 3}).max_age == 3


@pytest.mark.parametrize(
    ("clients", "per_round", "max_age", "warned"),
    [(100, 5, 10, True), (100, 5, 19, False), (100, 5, None, False), (100, 15, 5, True), (100, 15, 6, False)],
)
def test_a_max_age_that_costs_variance_is_warned_of(clients, per_round, max_age, warned, caplog):
    """⌊n/k⌋ − 1 is enough where k divides n."""
    MarkovParticipation.optimal(clients, per_round, max_age)
    assert any("max-age" in record.message for record in caplog.records) == warned
