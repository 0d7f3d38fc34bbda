"""The oracles behind the theorems' page against enumeration, and verdicts that turn when a theorem fails."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.oracles import quadratic, theorems
from aoi_fl.lab.experiments.oracles.exact import programmed_variance, selecting_ages
from aoi_fl.science.staleness import mean_ages


@pytest.mark.parametrize(("n", "k"), [(10, 3), (5, 2), (9, 6), (8, 4)])
def test_the_programme_finds_the_best_of_all_tables_of_two_ages(n, k):
    mean, least = n / k, np.inf
    for first in np.linspace(0, 1, 2001)[:-1]:
        second = (1 - first) / (mean - 1)  # E[X] = 1 + (1−p_0)/p_1
        if second <= 1:
            square = 1 + (1 - first) * (2 / second + (2 - second) / second**2)
            least = min(least, square - mean**2)
    assert programmed_variance(n, k, 1) <= least + 1e-9
    assert programmed_variance(n, k, 1) == pytest.approx(least, abs=0.01)


def test_value_iteration_finds_the_age_of_least_mean_cost():
    rng = np.random.default_rng(5)
    cost, charge = rng.uniform(0.1, 3, 40), rng.uniform(0.5, 150, 40)
    keep = charge / cost < 180  # whose best age lies below the cap
    cost, charge = cost[keep], charge[keep]
    ages = np.arange(25)
    mean = (cost[:, None] * ages * (ages + 1) / 2 + charge[:, None]) / (ages + 1)  # ages 0 … h, then a refresh
    found = selecting_ages(cost, charge, 30)
    assert found.argmax(axis=1).tolist() == mean.argmin(axis=1).tolist()
    assert all(row[row.argmax() :].all() for row in found)


def test_the_error_on_quadratics_is_the_difference_of_losses():
    a, c, q = np.array([1.0, 2.0]), np.array([-1.0, 3.0]), np.array([0.3, 0.7])
    grid = np.linspace(-2, 4, 60001)
    losses = (q[:, None] * a[:, None] * (grid - c[:, None]) ** 2).sum(axis=0) / 2
    assert quadratic.excess(grid, a, c, q) == pytest.approx(losses - losses.min(), abs=1e-7)


def test_one_round_is_gradient_descent_on_average():
    rows = quadratic.federated_averaging(range(1, 101), (1,))
    delay = 4 * 2 * 3 * 2
    theta, local = 4.0, np.full(40, 4.0)
    for _ in range(2):
        local = local - quadratic._CURVES * (local - quadratic._CENTRES) / delay
    shares = np.full(40, 1 / 40)
    best = quadratic._CURVES @ quadratic._CENTRES / quadratic._CURVES.sum()
    pull = (shares * quadratic._CURVES).sum() / 2
    assert rows[0]["start"] == pytest.approx(pull * (theta - best) ** 2)
    for policy in quadratic.POLICIES:
        found = [np.sqrt(r["excess"] / pull) + best for r in rows if (r["policy"], r["rate"]) == (policy, "theorem")]
        if policy.startswith("markov"):  # a round without participants leaves the model: (34/40)^40 = 0.0015
            found = [f for f in found if f != pytest.approx(4.0)]
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        assert abs(np.mean(found) - local.mean()) < 4 * error


def test_ages_are_those_of_the_history():
    history = quadratic._history("random", 50, 3)
    assert quadratic._ages(history).mean(axis=0) == pytest.approx(mean_ages(history))


def test_theorem_3s_denominator_by_hand(monkeypatch):
    from aoi_fl.protocol.clients import ClientTable

    table = ClientTable(
        ("a", "b"),
        np.array([500, 1500]),
        np.array([5.0, 15.0]),
        np.array([0.5, 1.0]),
        np.zeros(2, np.int64),
        np.ones(2),
    )
    monkeypatch.setattr(theorems, "section5_instance", lambda clients, seed: table)
    found = theorems.ratio(2, 18, 1, 40)
    assert found["denominator printed"] == pytest.approx(4 * 0.5 - 1 * 1.5)  # M = ⌊18/15⌋ = 1
    assert found["ratio printed"] == pytest.approx(2 * 1 * 17 * 1.5 / 0.5)
    assert found["floor printed"] == pytest.approx(2 * 0.5 / 2 - 1.5 / 4)
    assert found["p2"] > 0 and found["denominator affordable"] == found["denominator printed"]
    assert theorems.ratio(2, 20, 1, 40)["denominator affordable"] == pytest.approx(4 * 0.5 - 2 * 1.5)


# Verdicts


def test_weights_by_rank_are_those_of_drawn_candidates():
    draws = np.argsort(np.random.default_rng(1).random((40_000, quadratic.CLIENTS)), axis=1)[:, :12]
    taken = np.sort(draws, axis=1)[:, : quadratic.PER_ROUND]  # ranks: 0 is the largest loss
    found = np.bincount(taken.ravel(), minlength=quadratic.CLIENTS) / taken.size
    assert quadratic.expected_weights(12) == pytest.approx(found, abs=0.002)
    assert quadratic.expected_weights(quadratic.PER_ROUND) == pytest.approx(1 / quadratic.CLIENTS)
