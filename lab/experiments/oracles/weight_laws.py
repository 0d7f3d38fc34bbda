"""The aggregation weights of a policy in expectation: Σ, the dispersion, and the finite-run estimate of Σ.

Notation of Javani & Wang 2025: n clients with sizes d_i, k a round (their m), ω_i the weight of client i in a round
(0 if it is not selected), Σ = Σ_i Var[ω_i]. Over rounds 1 … T the estimate of Σ is
(1/T) Σ_t Σ_i ω_i(t)² − Σ_i ((1/T) Σ_t ω_i(t))², and the dispersion is E[Σ_i ω_i²] − 1/n.
"""

from dataclasses import dataclass

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Floats
from aoi_fl.lab.experiments.oracles.markov_chain import markov_weight_variance
from aoi_fl.lab.experiments.oracles.weight_variance import proportional_weight_variance, random_weight_moments
from aoi_fl.science.interval_law import StrideLaw


@dataclass(frozen=True)
class WeightLaw:
    """Expectations of a policy's weights in the steady state.

    Attributes
    ----------
    variance : Σ
    square : E[Σ_i ω_i(t)²]
    products : (H,) E[Σ_i ω_i(t) ω_i(t+h)] for lags h = 1 … H; one entry where all lags are alike
    clients : n
    """

    variance: float
    square: float
    products: Floats
    clients: int

    @property
    def dispersion(self):
        """E[Σω²] − 1/n."""
        return self.square - 1 / self.clients

    def estimate(self, rounds):
        """Return the exact expectation of the estimate of Σ over T rounds; Σ (1 − 1/T) if rounds are independent."""
        lags = np.arange(1, rounds)
        products = self.products[: rounds - 1] if len(self.products) > 1 else self.products[0]
        mean_square = (rounds * self.square + 2 * ((rounds - lags) * products).sum()) / rounds**2
        return self.square - mean_square


def weight_law(policy, sizes, per_round, lags=1):
    """Return the law of a policy by its name, for lags up to the given one.

    Random exactly-k selection has weights d_i/Σ_S d_j (Theorem 3). Proportional selection has k draws with replacement,
    weights l/k, and Σ = Σ q_i(1−q_i)/k (Theorem 4).
    """
    clients = len(sizes)
    if policy == "random":
        square, means_square = random_weight_moments(sizes, per_round)
        return WeightLaw(square - means_square, square, np.array([means_square]), clients)
    if policy == "proportional":
        shares = sizes / sizes.sum()
        variance, means_square = proportional_weight_variance(sizes, per_round), shares @ shares
        return WeightLaw(variance, variance + means_square, np.array([means_square]), clients)
    if policy == setting.SYSTEMATIC:
        return _systematic_law(clients, per_round, lags)
    keys = {"num-clients": clients, "clients-per-round": per_round}
    return _markov_law(setting.policy(policy, 0, **keys), lags)


def _systematic_law(clients, per_round, lags):
    """Return the law of systematic participation with spread phases: k clients, 1/k each, Σ = 1/k − 1/n.

    Y_T, how often a client takes part in T rounds, has Var(Y_T) in closed form, and P(in rounds t and t+h) is half its
    second difference at h, plus r².
    """
    rate = per_round / clients
    spread = np.array([0.0, *StrideLaw(rate).window_variances(range(1, lags + 2))])
    both = rate**2 + (spread[2:] - 2 * spread[1:-1] + spread[:-2]) / 2
    return WeightLaw(1 / per_round - 1 / clients, 1 / per_round, clients * both / per_round**2, clients)


def _markov_law(policy, lags):
    """Return the law of a Markov policy (Theorem 5) with weights 1/|S| from the stationary start.

    Clients are independent. With r = 1/E[X] and u_h the probability of taking part h rounds after doing so,
    E[ω_i(t)ω_i(t+h)] = r u_h E[1/((1+A)(1+B))], A and B being how many of the others take part in either round; and
    that is ∫∫ E[x^A y^B] over the unit square, the integrand the (n−1)-th power of a bilinear form: Gauss–Legendre
    with n nodes is exact. Empty rounds count as ω = 0 here (probability (1−r)^n, 1e-7 for n=100 and k=15).
    """
    n, rate = policy.clients, 1 / policy.interval_mean
    again = policy.renewals(lags)
    nodes, gauss = np.polynomial.legendre.leggauss(max(n // 2 + 1, 2))
    x, gauss = (nodes + 1) / 2, gauss / 2
    products = np.empty(lags)
    for h in range(1, lags + 1):
        both = rate * again[h]
        one = rate - both
        form = (1 - 2 * rate + both) + one * (x[:, None] + x[None, :]) + both * x[:, None] * x[None, :]
        products[h - 1] = n * both * (gauss @ form ** (n - 1) @ gauss)
    variance = markov_weight_variance(policy)
    return WeightLaw(variance, variance + 1 / n, products, n)
