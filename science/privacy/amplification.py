"""Epsilon with amplification: the models do not reveal when a client takes part.

Where clients decide by secret coins, the published sequence of one client's data is a mixture over its participations.
The account compares this mixture P with the noise alone, Q. Independent coins every round (β = 1) have an exact account
in ``dp-accounting``. For a Markov client δ(ε) is an expectation over P or Q by Monte Carlo, with the likelihood of P
from the forward recursion over ages. Draws with scaled updates (importance sampling) reach the tails of a small δ.

It holds only while the run's seed is secret, and no client is forced.

References
----------
J. Dong, A. Ganesh 2026, minimum-separation sampling with a warm start; C. A. Choquette-Choo et al. 2024, Near Exact
Privacy Amplification for Matrix Mechanisms: the dominating pair for a C without negative entries.
B. Balle, G. Barthe, M. Gaboardi 2018, Privacy Amplification by Subsampling, NeurIPS.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science import draws, mixing
from aoi_fl.science.errors import ConfigError, install
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import Account, bisect, check_delta, check_positive
from aoi_fl.science.privacy.factorisation import Floats
from aoi_fl.science.selection import RandomSelector, Selector
from aoi_fl.science.simulate import Decentralised

AMPLIFICATION = "amplification: the run's seed is secret, and no client is forced"
COINS = (
    "random: k of n are treated as independent coins of probability k/n, as is usual; this is no bound for exactly k"
)
SAMPLES = 8_000
_STEPS = 20  # of a calibration; half of them usually suffice


def coin_epsilon(rate: float, deviation: float, rounds: int, delta: float) -> float:
    """Return ε of white noise where a client takes part by an independent coin of probability q in every round.

    Exactly k of n at random are no such coins: q = k/n is the usual approximation, and no bound.
    Raises ConfigError if the extra ``privacy`` is not installed.
    """
    if not has_library():
        allowed = "installed for amplification by random selection"
        raise ConfigError("dp-accounting", None, allowed, f"Install it: {install('privacy')}.")
    import dp_accounting as dp

    accountant = dp.pld.PLDAccountant()
    coin = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(deviation))
    return float(accountant.compose(coin, rounds).get_epsilon(delta))


def has_library() -> bool:
    """Return whether ``dp-accounting`` is installed."""
    return find_spec("dp_accounting") is not None


@dataclass(frozen=True)
class Estimate:
    """An ε from Monte Carlo, and its standard error."""

    epsilon: float
    error: float


@dataclass(frozen=True, eq=False)
class MarkovAmplification:
    """The account of a Markov client with secret coins, its first age from the stationary law.

    Attributes
    ----------
    policy : its separation is at least the number of bands
    column : (β,) coefficients of C
    deviation : s, in clips
    rounds : T
    samples, seed : of the Monte Carlo
    """

    policy: MarkovPolicy
    column: Floats
    deviation: float
    rounds: int
    samples: int = SAMPLES
    seed: int = 0

    def epsilon(self, delta: float) -> Estimate:
        """Return ε, the larger of both directions P‖Q and Q‖P."""
        check_delta(delta)
        ends = (self._end(delta, sign) for sign in (1, -1))
        return max(ends, key=lambda end: end.epsilon)

    def _end(self, delta: float, sign: int) -> Estimate:
        losses, weights = self._losses
        loss, weight = sign * losses, weights * (np.exp(losses) if sign > 0 else 1.0)

        def terms(epsilon: float) -> Floats:
            return weight * -np.expm1(np.minimum(epsilon - loss, 0.0))

        if float(terms(0.0).mean()) <= delta:
            return Estimate(0.0, 0.0)
        epsilon = bisect(lambda value: float(terms(value).mean()) > delta, float(loss.max()))
        slope = float((weight * np.exp(np.minimum(epsilon - loss, 0.0)) * (loss > epsilon)).mean())
        error = float(terms(epsilon).std()) / math.sqrt(len(loss))
        return Estimate(epsilon, error / slope if slope else math.inf)

    @cached_property
    def _losses(self) -> tuple[Floats, Floats]:
        """Return (N,) log dP/dQ and dQ/dM of draws from M, an even mixture of P with updates scaled by each θ."""
        generator = draws.generator(self.seed, 0, "privacy-loss")
        participations = max(self.rounds / self.policy.interval_mean, 1.0)
        unit = self.deviation / math.sqrt(participations * float(self.column @ self.column))
        scales = (0.0, 1.0, 1 + 2 * unit, -2 * unit)
        seen = [self._observe(generator, -(-self.samples // len(scales)), scale) for scale in scales]
        observed = np.concatenate(seen)
        ratios = {scale: self._log_ratio(observed, scale) for scale in scales}
        stacked = np.array(list(ratios.values()))
        top = stacked.max(axis=0)
        return ratios[1.0], np.exp(-top) / np.exp(stacked - top).mean(axis=0)

    def _observe(self, generator: np.random.Generator, samples: int, scale: float) -> Floats:
        """Return (N, T) draws of P with every update scaled."""
        ages = self.policy.first_age(1, generator.random(samples))
        taken = np.zeros((samples, self.rounds))
        for t in range(self.rounds):
            taken[:, t] = generator.random(samples) < self.policy.willingness(ages)
            ages = np.where(taken[:, t] > 0, 0, ages + 1)
        means = np.zeros_like(taken)
        for j, c in enumerate(self.column[: self.rounds]):
            means[:, j:] += scale * c * taken[:, : self.rounds - j]
        return means + self.deviation * generator.standard_normal(taken.shape)

    def _log_ratio(self, observed: Floats, scale: float) -> Floats:
        """Return (N,) log dP/dQ with every update scaled, P summed over all participations."""
        if scale == 0:
            return np.zeros(len(observed))
        bands = len(self.column)
        table = self.policy.hazards
        hazards = np.append(table, np.repeat(table[-1], max(bands + 1 - len(table), 0)))
        law: NDArray[Any] = np.repeat(mixing.stationary(hazards)[:, None], len(observed), axis=1)
        logs = np.zeros(len(observed))
        means = scale * self.column[:, None]
        for t in range(self.rounds):
            joined = hazards @ law
            left = law * (1 - hazards[:, None])
            law = np.concatenate((joined[None], left[:-1]))
            law[-1] += left[-1]
            near = means[: t + 1]  # participations before round 1 show nothing
            power = (observed[:, t] * near - near**2 / 2) / self.deviation**2
            top = np.maximum(power.max(axis=0), 0.0)
            law[: len(near)] *= np.exp(power - top)
            law[len(near) :] *= np.exp(-top)
            total = law.sum(axis=0)
            law /= total
            logs += np.log(total) + top
        return logs


def amplified(
    policy: Decentralised | Selector, clients: int, account: Account, delta: float, samples: int = SAMPLES
) -> Estimate | None:
    """Return ε with amplification, or None where none is known for the policy.

    Markov clients of one rate have it, and with white noise and ``dp-accounting`` the choice of k of n at random.
    Systematic clients have none: one known round reveals all.
    """
    match policy:
        case MarkovPolicy():
            return MarkovAmplification(policy, account.column, account.deviation, account.rounds, samples).epsilon(
                delta
            )
        case RandomSelector(per_round=k) if account.bands == 1 and has_library():
            return Estimate(coin_epsilon(min(k / clients, 1.0), account.deviation, account.rounds, delta), 0.0)
    return None


def calibrate(epsilon_at: Callable[[float], float], epsilon: float, start: float, within: float = 1e-3) -> float:
    """Return the noise multiplier at which a falling ε is the one given: secants on logarithms.

    ``epsilon_at`` gives ε of a noise multiplier; ``start`` is the first one, and ``within`` the relative error of ε.
    Raises ConfigError if no noise multiplier gives this ε.
    """
    check_positive("epsilon", epsilon)
    multiplier, slope, spent = start, -1.0, epsilon_at(start)
    for _ in range(_STEPS):
        wanted = math.log(epsilon / max(spent, 1e-9))
        if abs(wanted) < within:
            return multiplier
        step = min(max(wanted / slope, -1.5), 1.5)
        multiplier, before = multiplier * math.exp(step), spent
        spent = epsilon_at(multiplier)
        if spent > 0 < before and spent != before:
            slope = min(math.log(spent / before) / step, -0.3)
    raise ConfigError("epsilon", epsilon, "larger, because no noise meets it", "Raise epsilon, or lower delta.")
