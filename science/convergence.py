"""The sensitivities φ_i of clients to their ages, from a bound on the error after T rounds.

The laboratory has the bounds themselves.

References
----------
Xu, Xiao, Wu, Wu, Zhou & Sun 2024, Age-of-Information-Aware Federated Learning, J. Comput. Sci. Technol.
"""

from dataclasses import dataclass

from aoi_fl.science.types import Floats, Ints


@dataclass(frozen=True)
class ConvergenceConstants:
    """What Theorem 1 of Xu et al. 2024 knows of the learning problem.

    Attributes
    ----------
    smoothness : β of Assumption 1, > 0
    convexity : μ of Assumption 2, > 0
    learning_rate : η̃, the largest of all rounds, > 0
    local_steps : τ, steps of SGD a client makes in a round, ≥ 1
    """

    smoothness: float
    convexity: float
    learning_rate: float
    local_steps: int


def alphas(sizes: Ints, constants: ConvergenceConstants) -> Floats:
    """Return Theorem 1's α_i, what one unit of client i's squared gradient adds to the bound in a round.

    α_i = η̃ s_i/μ + N η̃ (τ²η̃ + 2(τ−1)²/μ) s_i², with s_i = n_i/n the client's share of all examples.

    Source: the last lines of Appendix A.1. The theorem as printed puts s_i² inside the bracket, upon
    its second term alone; (A.3) and (A.6), which the bracket sums, both carry it.
    """
    shares: Floats = sizes / sizes.sum()
    rate, mu, steps = constants.learning_rate, constants.convexity, constants.local_steps
    return rate * shares / mu + sizes.size * rate * (steps**2 * rate + 2 * (steps - 1) ** 2 / mu) * shares**2


def sensitivities(sizes: Ints, gradient_growth: Floats, constants: ConvergenceConstants, rounds: int) -> Floats:
    """Return the sensitivities φ_i = α_i σ_i² β N T/2 that make P2 the age-dependent part of Theorem 1's bound.

    Parameters
    ----------
    sizes : (n,) examples n_i
    gradient_growth : (n,) σ_i² of Assumption 4, the growth of the squared gradient's bound per round of age
    constants : the problem's constants
    rounds : T

    Source: eq. (10).
    """
    return alphas(sizes, constants) * gradient_growth * constants.smoothness * sizes.size * rounds / 2
