"""How far the clients' objectives are apart (Γ), and how selection leans (ρ): the Definition 1 of Javani & Wang 2025.

F = Σ q_k F_k is the global objective, θ* its minimiser, and F_k* the minimum of client k's own objective. Everything
here is a function of losses: estimating them is the experiments' business. Arrays are (n,), client k at position k, or
(T, n) with a row for each of T rounds.

References
----------
[1] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.errors import ConfigError

Floats = NDArray[np.float64]


def objective_gap(losses: Floats, minima: Floats, importances: Floats) -> float:
    """Return Σ q_k (F_k(θ) − F_k*), which at θ = θ* is Γ, the local-global objective gap.

    Parameters
    ----------
    losses : (n,) F_k(θ)
    minima : (n,) F_k*
    importances : (n,) q_k, not negative, with sum 1

    Source: [1], Definition 1, eq. (23).

    >>> objective_gap(np.array([2.0, 3.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    1.5
    """
    _check_importances(importances)
    return float(importances @ (losses - minima))


def skew(weights: Floats, losses: Floats, minima: Floats, importances: Floats) -> float:
    """Return the selection skew Σ ω_k (F_k(θ) − F_k*) / Σ q_k (F_k(θ) − F_k*) at a model θ.

    With ω a round's weights it is that round's skew, as [1] estimates it for its Table II; with their expectation
    E[ω_k], given the state, it is ρ of the definition, which is linear in them. A skew of 1 is no skew: E[ω] = q gives
    exactly that at every θ. Above 1, the round has drawn those who still have most to gain.

    Parameters
    ----------
    weights : (n,) ω_k, 0 for those who are not selected
    losses, minima, importances : as for :func:`objective_gap`

    Raises ConfigError: the denominator is not positive: the "minima" are not the minima of these objectives.

    Source: [1], Definition 1, eq. (24).

    >>> skew(np.array([1.0, 0.0]), np.array([2.0, 4.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    0.5
    """
    gap = objective_gap(losses, minima, importances)
    if not gap > 0:
        raise ConfigError(
            "loss of the global model minus the mean of the local minima",
            gap,
            "positive",
            "Train the local models longer.",
        )
    return float(weights @ (losses - minima)) / gap


@dataclass(frozen=True, eq=False)
class SelectionSkew:
    """The skew over a run: its rounds with participants, in order.

    Attributes
    ----------
    along : ρ(S^t, θ^t) at the model that round t began with
    at_optimum : ρ(S^t, θ*)
    """

    along: Floats
    at_optimum: Floats

    @property
    def minimum(self) -> float:
        """ρ_, the smallest skew along the run; [1], eq. (25), as estimated there."""
        return float(self.along.min())

    @property
    def maximum(self) -> float:
        """ρ̄, the largest skew at the optimum; [1], eq. (26), as estimated there."""
        return float(self.at_optimum.max())


def selection_skew(
    weights: Floats, losses: Floats, optimum_losses: Floats, minima: Floats, importances: Floats
) -> SelectionSkew:
    """Return the skew of each round of a run.

    Eqs. (25) and (26) go over expectations, given the state; the estimate of [1] goes over single rounds' draws, so its
    minimum falls, and its maximum rises, with the number of rounds played, whatever the policy.

    Parameters
    ----------
    weights : (T, n) ω_k in each round; a round in which all are 0 had no participants and is left out
    losses : (T, n) F_k(θ^t)
    optimum_losses : (n,) F_k(θ*)
    minima, importances : as for :func:`objective_gap`

    Raises ConfigError: no round had participants, or as :func:`skew`.
    """
    played = np.flatnonzero(weights.any(axis=1))
    if not played.size:
        raise ConfigError(
            "participants", 0, f"at least one in {len(weights)} rounds, for a skew to measure", "Run more rounds."
        )
    return SelectionSkew(
        np.array([skew(weights[t], losses[t], minima, importances) for t in played]),
        np.array([skew(weights[t], optimum_losses, minima, importances) for t in played]),
    )


def _check_importances(importances: Floats) -> None:
    total = float(importances.sum())
    if (importances < 0).any() or abs(total - 1) > 1e-9:
        raise ConfigError(
            "importances",
            f"{total:g} in sum, {importances.min():g} at least",
            "shares q_k ≥ 0 of sum 1",
            "Divide them by their sum.",
        )
