"""Two bounds on the error after T rounds.

F is the global objective, θ* (or ω*) its minimiser. Γ and ρ are in :mod:`aoi_fl.lab.experiments.oracles.skew`, Σ in
:mod:`aoi_fl.lab.experiments.oracles.weight_variance`.

References
----------
[1] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
[2] Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

from dataclasses import dataclass

from aoi_fl.science.convergence import alphas


@dataclass(frozen=True)
class FedAvgConstants:
    """The constants in Theorem 2 of Javani & Wang 2025.

    Attributes
    ----------
    smoothness : L of Assumption 1, > 0
    convexity : μ of Assumption 2, > 0
    gradient_variance : σ² of Assumption 3, ≥ 0
    gradient_square : G² of Assumption 4, ≥ 0
    local_steps : K, steps of SGD in a round, ≥ 2 (the bound divides by K−1)
    per_round : m, clients selected in a round, ≥ 1
    """

    smoothness: float
    convexity: float
    gradient_variance: float
    gradient_square: float
    local_steps: int
    per_round: int

    @property
    def delay(self):
        """γ = 4K(K+1)L/μ."""
        return 4 * self.local_steps * (self.local_steps + 1) * self.smoothness / self.convexity


def fedavg_bound(
    constants,
    rounds,
    *,
    distance,
    weight_variance,
    gap,
):
    """Return Theorem 2's bound on the error of federated averaging after T rounds, where E[ω] = q, so that ρ_ = ρ̄ = 1.

    Its terms are (L/2)γ‖θ⁰−θ*‖²/(T+γ); the part of Σ, G² and σ², which vanishes as 1/T; and (L/2)·6LΓ/((K−1)μ²)/(T+γ).
    The bias KLΓ(ρ̄/ρ_−1)/((K−1)μ), which stays, is 0 here.

    The printed constants are those of the proof's rate β/(t+γ) with β = 1/(μK), though the theorem names 1/(μ(t+γ)).
    The theorem has the sum of the first terms, where the proof has the largest.

    Parameters
    ----------
    constants : L, μ, σ², G², K, m
    rounds : T ≥ 0
    distance : ‖θ⁰−θ*‖², squared
    weight_variance, gap : Σ and Γ

    Source: [1], Theorem 2, eq. (27).
    """
    c, steps, m = constants, constants.local_steps, constants.per_round
    scale = c.smoothness / 2 / (rounds + c.delay)
    spread = 16 * c.gradient_square * steps * m**2 * (steps + 1) * (weight_variance + 1)
    noise = m * steps * c.gradient_variance
    variance = scale * (spread + noise) / ((steps - 1) * c.convexity**2)
    heterogeneity = scale * 6 * c.smoothness * gap / ((steps - 1) * c.convexity**2)
    return scale * c.delay * distance + variance + heterogeneity


def aged_bound(
    constants,
    sizes,
    ages,
    *,
    distance,
    gradient_square,
    gradient_growth,
):
    """Return the bound on E[F(ω_T)] − F* where all clients train and their data age.

    (β/2)(1 − μη̄/2)^T ‖ω_0−ω*‖² + (β/2) Σ_t Σ_i α_i (G_i² + Δ_i(t)σ_i²). The second term grows with T: the proof drops
    the factors (1 − μη̄/2)^(T−t) < 1. The learning rate is constant, so its smallest value η̄ is the largest, too.

    Parameters
    ----------
    constants : β, μ, η̃ and τ
    sizes : (N,) examples n_i
    ages : (T, N) Δ_i(t) after the refreshes of round t
    distance : ‖ω_0−ω*‖², squared
    gradient_square, gradient_growth : (N,) G_i² and σ_i² of Assumption 4

    Source: [2], Theorem 1, eq. (9), with α_i as the appendix derives it (:func:`alphas`).
    """
    shrunk = (1 - constants.convexity * constants.learning_rate / 2) ** len(ages) * distance
    gradients = len(ages) * gradient_square + ages.sum(axis=0) * gradient_growth
    return constants.smoothness / 2 * (shrunk + alphas(sizes, constants) @ gradients)
