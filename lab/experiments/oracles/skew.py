"""The gap Γ between clients, the selection skew ρ (Definition 1 of Javani & Wang 2025), and the losses of all clients.

F = Σ q_k F_k is the global objective, θ* its minimiser, and F_k* the minimum of client k's own objective. All functions
take losses. Arrays are (n,), client k at position k, or (T, n) with a row for each of T rounds.

References
----------
[1] A. Javani, Z. Wang, "Balancing Client Participation in Federated Learning Using AoI", 2025.
"""

from functools import lru_cache

import numpy as np

from aoi_fl.lab.experiments.harness.setting import weights_of


def objective_gap(losses, minima, importances):
    """Return Σ q_k (F_k(θ) − F_k*), which at θ = θ* is Γ, the local-global objective gap.

    ``losses``, ``minima`` and ``importances`` are F_k(θ), F_k* and q_k ≥ 0 of sum 1.
    Source: [1], Definition 1, eq. (23).

    >>> print(objective_gap(np.array([2.0, 3.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5])))
    1.5
    """
    return (losses - minima) @ importances


def skew(weights, losses, minima, importances):
    """Return the selection skew Σ ω_k (F_k(θ) − F_k*) / Σ q_k (F_k(θ) − F_k*) at a model θ, for weights ω_k.

    With a round's weights it is that round's skew, as in Table II of [1]; with E[ω_k] it is ρ. E[ω] = q gives 1 at
    every θ. The others are as for :func:`objective_gap`. Source: [1], Definition 1, eq. (24).

    Eqs. (25) and (26) go over expectations; the estimate of [1] goes over single rounds, so its minimum falls, and its
    maximum rises with the number of rounds.

    >>> print(skew(np.array([1.0, 0.0]), np.array([2.0, 4.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5])))
    0.5
    """
    return (weights * (losses - minima)).sum(axis=-1) / objective_gap(losses, minima, importances)


def losses(there, arrays):
    """Return (n,) F_k of a model."""
    return np.array([there.task.evaluate(arrays, part)[0] for part in there.parts])


@lru_cache(maxsize=1)
def optima(there, local_steps, central_epochs):
    """Return (n,) F_k* after long local training, and F_k of a centrally trained model; kept for the other policies."""
    first = there.task.initial_arrays()
    local = [
        there.task.evaluate(there.fit(first, part, client, 0, steps=local_steps)[0], part)[0]
        for client, part in enumerate(there.parts)
    ]
    central, _ = there.fit(first, there.everything(), len(there.parts), 0, epochs=central_epochs)
    return np.array(local), losses(there, central)


def train(there, history):
    """Average the selected clients' models round after round.

    Returns
    -------
    tuple
        (T+1, n) losses F_k of the model that each round begins with, and of the last one; (T, n) weights ω.
    """
    return np.array([losses(there, arrays) for arrays in there.models(history)]), weights_of(history)
