"""Σ against enumeration; Γ and ρ where optima are known; both bounds by hand."""

import numpy as np
import pytest

from aoi_fl.lab.experiments.oracles.bounds import FedAvgConstants, aged_bound, fedavg_bound
from aoi_fl.lab.experiments.oracles.skew import objective_gap, selection_skew, skew
from aoi_fl.science.convergence import ConvergenceConstants


class Quadratics:
    """F_k(θ) = ½ a_k (θ−c_k)² + b_k on the line: θ_k* = c_k, F_k* = b_k, θ* = Σ q a c / Σ q a."""

    curvature = np.array([1.0, 2.0, 4.0])
    centre = np.array([-1.0, 0.5, 2.0])
    floor = np.array([0.3, 0.1, 0.7])
    importance = np.array([0.5, 0.3, 0.2])

    @property
    def optimum(self):
        pull = self.importance * self.curvature
        return float(pull @ self.centre / pull.sum())

    def losses(self, theta):
        return 0.5 * self.curvature * (theta - self.centre) ** 2 + self.floor


def test_gap_and_skew_on_quadratics():
    q = Quadratics()
    at = q.losses(q.optimum)
    # Γ of quadratics is half the weighted variance of the centres: ½ Σ qa · Var_qa(c).
    pull = q.importance * q.curvature
    spread = pull @ q.centre**2 / pull.sum() - (pull @ q.centre / pull.sum()) ** 2
    assert objective_gap(at, q.floor, q.importance) == pytest.approx(pull.sum() * spread / 2)
    assert skew(q.importance, at, q.floor, q.importance) == pytest.approx(1)
    for theta in (-3.0, 0.0, 5.0):
        excess = 0.5 * q.curvature * (theta - q.centre) ** 2
        for k in range(3):
            only = np.eye(3)[k]
            expected = excess[k] / (q.importance @ excess)
            assert skew(only, q.losses(theta), q.floor, q.importance) == pytest.approx(expected)


def test_skew_of_a_run():
    q = Quadratics()
    thetas = (3.0, 1.5, 0.9, 0.8)
    weights = np.array([[0, 1, 0], [0.5, 0.5, 0], [0, 0, 0], [1 / 3, 1 / 3, 1 / 3]])
    losses = np.array([q.losses(theta) for theta in thetas])
    found, final = selection_skew(weights, losses, q.losses(q.optimum), q.floor, q.importance)

    def by_hand(t, theta):
        excess = 0.5 * q.curvature * (theta - q.centre) ** 2
        return weights[t] @ excess / (q.importance @ excess)

    played = [0, 1, 3]  # nobody took part in the third round
    along = [by_hand(t, thetas[t]) for t in played]
    at_optimum = [by_hand(t, q.optimum) for t in played]
    np.testing.assert_allclose(found, along)
    np.testing.assert_allclose(final, at_optimum)


def test_theorem_2_by_hand():
    """L=2, μ=1, σ²=3, G²=5, K=2, m=4, Σ=½, Γ=7, ρ_=½, ρ̄=2, ‖θ⁰−θ*‖²=9, T=52: γ=48, L/2/(T+γ)=1/100."""
    bound = fedavg_bound(
        FedAvgConstants(2.0, 1.0, 3.0, 5.0, 2, 4),
        52,
        distance=9.0,
        weight_variance=0.5,
        gap=7.0,
        least_skew=0.5,
        largest_skew=2.0,
    )
    assert bound.start == pytest.approx(48 * 9 / 100)
    assert bound.variance == pytest.approx((16 * 5 * 2 * 16 * 3 * 1.5 + 4 * 2 * 3) / 0.5 / 100)
    assert bound.heterogeneity == pytest.approx(6 * 2 * 7 / 100)
    assert bound.bias == pytest.approx(2 * 2 * 7 * 3)
    assert bound.total == pytest.approx(bound.start + bound.variance + bound.heterogeneity + bound.bias)


def aged_problem():
    sizes = np.array([1, 3])
    constants = ConvergenceConstants(smoothness=2.0, convexity=0.5, learning_rate=0.1, local_steps=3)
    return sizes, constants, np.array([[0, 1], [1, 0], [2, 1]])


def test_wics_theorem_1_by_hand():
    sizes, constants, ages = aged_problem()
    # α_i = η s/μ + N η (τ²η + 2(τ−1)²/μ) s², with s = ¼, ¾: 0.2 s + 0.2 (0.9 + 16) s²
    alpha = [0.2 * s + 3.38 * s * s for s in (0.25, 0.75)]
    sums = [3 * 5 + 3 * 2, 3 * 7 + 2 * 4]  # T G² + σ² Σ Δ
    expected = (1 - 0.5 * 0.05 / 2) ** 3 * 9 + sum(a * s for a, s in zip(alpha, sums, strict=True))
    known = {"distance": 9.0, "gradient_square": np.array([5.0, 7.0]), "gradient_growth": np.array([2.0, 4.0])}
    assert aged_bound(constants, sizes, ages, smallest_rate=0.05, **known) == pytest.approx(expected)  # β/2 = 1
    assert aged_bound(constants, sizes, ages, **known) < expected  # a constant rate forgets the start faster
