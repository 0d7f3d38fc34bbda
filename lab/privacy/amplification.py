"""Bounds of epsilon with amplification: the models do not reveal when a client takes part.

A client that decides by secrets of its own takes part in a pattern S of rounds with probability w_S. P is the law of
the published sequence and Q that of the noise alone, both over the noise's deviation; m_S is the sum of C's columns of
S. The likelihood ratio is L = Σ w_S l_S with l_S = exp(⟨m_S, y⟩ − |m_S|²/2), and δ(ε) is the larger one of

    E_Q[(L − e^ε)⁺] for P against Q,    E_Q[(1 − e^ε L)⁺] for Q against P.

Both are means of a convex function of L. As C has no negative entry, they are largest if all updates have the norm of
the clip and one direction (Kahane's inequality, for each round given the past). Each is bounded twice.

**By a Rényi order α**, without chance. Jensen's inequality gives L^α ≤ G = (Σ w_S l_S^{α/r})^r for r copies of the
client. The mean Z of G is exact; for a Markov client a dynamic programme over the ages of the copies has it. Then
(L − e^ε)⁺ is at most R·G/Z with R = Z·e^{−(α−1)ε}·(1−1/α)^{α−1}/α, so that δ(ε) ≤ R.

**By draws** from the law Q·G/Z, a mixture of normal laws. There δ(ε)/R is the mean of X = (L − e^ε)⁺·Z/(G·R), which is
in [0, 1]. A bet against the claim that this mean is δ/R or more multiplies its stake by 1 + λ(δ/R − X) for each draw.
If the claim is right, the stake grows by the factor 2/``FAILURE`` with probability ``FAILURE``/2 at most.

Q against P has L ≥ H = exp(⟨m̄, y⟩ − q/2), m̄ the mean of m_S and q that of |m_S|². A power of 1/H is in place of G.

References
----------
J.-P. Kahane 1985, Sur le chaos multiplicatif, Ann. Sci. Math. Québec 9: the inequality, for each round given the past.
C. A. Choquette-Choo et al. 2024, Near Exact Privacy Amplification for Matrix Mechanisms (arXiv:2410.06266).
J. Schuchardt, N. Kalinin 2026, Sampling-Free Privacy Accounting for Matrix Mechanisms (arXiv:2601.21636).
C. Canonne, G. Kamath, T. Steinke 2020, The Discrete Gaussian, NeurIPS, Proposition 12: from an order to δ.
I. Waudby-Smith, A. Ramdas 2024, Estimating means of bounded random variables by betting, JRSS B 86(1).
"""

import math
from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np

from aoi_fl.lab.privacy.without_replacement import epsilon_without_replacement, log_sum, peak
from aoi_fl.science import draws
from aoi_fl.science.age import stationary
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.names import PhaseRule
from aoi_fl.science.privacy.account import Account, check_delta, rounded_up, unreachable
from aoi_fl.science.rates import exact
from aoi_fl.science.selection import RandomSelector, Selector
from aoi_fl.science.simulate import Decentralised
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.science.types import Floats

FAILURE = 1e-9  # the probability that a bound by draws is too low, over the draws
SAMPLES = 20_000
_STEP = 0.998  # from one ε to the next that is tried
_BETS = 2.0 ** -np.arange(9)[:, None]
_PAIRS = 2e7  # numbers that are kept for two copies
_WORK = 5e7  # likelihoods that are computed
_ORDERS = 16  # that are tried
_MOST = 600.0  # the largest ε without amplification that is amplified
_WITHIN = 0.005  # of an ε that is asked for
_TRIES = 20  # of a calibration; half of them usually suffice

CONDITIONS = (
    "each client draws its seed, and with it its first age or phase, from its operating system, and keeps it secret",
    "ledger, log and page are not published, and the network is not watched",
    "every client is available in every round, its update arrives, and none is forced",
    "an empty round looks like any other",
)
CONFIDENCE = f"a bound by draws is too low with a probability of {FAILURE:g} at most"


class PatternMixture:
    """A list of a client's patterns of participation, and their means over the noise's deviation.

    Parameters
    ----------
    weights : (J,) probabilities w_S
    means : (J, T) m_S
    """

    def __init__(self, weights: Floats, means: Floats) -> None:
        self._logs, self._means, self._squares = np.log(weights), means, (means**2).sum(axis=1)
        self.states, self.rounds = means.shape
        self.most_copies = 2

    @classmethod
    def systematic(cls, rate: float, column: Floats, deviation: float, rounds: int) -> "PatternMixture":
        """Return the patterns of a systematic client with a random phase: at most T + 1, by the phase's tick."""
        fraction = exact(rate)
        a, b = fraction.numerator, fraction.denominator
        ticks = np.unique(-np.arange(rounds + 1) * a % b)  # the pattern changes at these only
        weights = np.diff(ticks, append=b) / b
        joined = (np.arange(1, rounds + 1) * a + ticks[:, None]) % b < a
        means = np.zeros(joined.shape)
        for j, c in enumerate((column / deviation)[:rounds]):
            means[:, j:] += c * joined[:, : rounds - j]
        return cls(weights, means)

    def moments(self) -> tuple[Floats, float]:
        """Return (T,) the mean of m_S, and the mean of |m_S|²."""
        weights = np.exp(self._logs)
        return weights @ self._means, float(weights @ self._squares)

    def log_normaliser(self, power: float, copies: int) -> float:
        """Return log Z, of the mean over Q of (Σ w_S l_S^power)^copies."""
        return float(log_sum(self._tuples(power, copies).ravel()))

    def draw(self, generator: np.random.Generator, samples: int, power: float, copies: int) -> Floats:
        """Return (T, N) draws from the law of which :meth:`log_normaliser` has the normaliser."""
        logs = self._tuples(power, copies).ravel()
        shares = np.exp(logs - log_sum(logs))
        chosen = generator.choice(len(logs), size=samples, p=shares / shares.sum())
        patterns = np.unravel_index(chosen, (self.states,) * copies)
        means: Floats = power * np.sum([self._means[which] for which in patterns], axis=0).T
        return means + generator.standard_normal(means.shape)

    def log_likelihoods(self, observed: Floats, power: float) -> tuple[Floats, Floats]:
        """Return (N,) log L and log Σ w_S l_S^power of (T, N) observations."""
        likelihoods = self._means @ observed - self._squares[:, None] / 2
        return (
            log_sum(self._logs[:, None] + likelihoods),
            log_sum(self._logs[:, None] + power * likelihoods),
        )

    def _tuples(self, power: float, copies: int) -> Floats:
        """Return (J,) or (J, J) logarithms of the share of each tuple of patterns in Z."""
        single: Floats = self._logs + (power**2 - power) * self._squares / 2
        if copies == 1:
            return single
        return np.add.outer(single, single) + power**2 * (self._means @ self._means.T)


class AgeMixture:
    """A Markov client, its first age from the stationary law; the state is its age at the end of a round.

    Parameters
    ----------
    hazards : (m+1,) probabilities of taking part at each age
    column : (β,) coefficients of C
    deviation : s, in clips
    rounds : T
    """

    def __init__(self, hazards: Floats, column: Floats, deviation: float, rounds: int) -> None:
        self._hazards = np.pad(hazards, (0, max(len(column) + 1 - len(hazards), 0)), "edge")
        self.states, self.rounds = len(self._hazards), rounds
        ages = np.arange(self.states)
        self._older = np.minimum(ages + 1, self.states - 1)
        self._first = stationary(self._hazards)
        shown = np.pad(column / deviation, (0, self.states - len(column)))
        # of each round and age at its end; participations before round 1 show nothing
        self._means = np.where(ages <= np.arange(rounds)[:, None], shown, 0.0)
        self.most_copies = 2 if self.states**2 * rounds <= _PAIRS else 1

    def moments(self) -> tuple[Floats, float]:
        """Return the mean of m_S, and that of its square."""
        after = self._step(self._first[:, None])[:, 0]
        return self._means @ after, float((self._means**2 @ after).sum())

    def log_normaliser(self, power: float, copies: int) -> float:
        """Return log Z."""
        return self._messages(power, copies)[1]

    def draw(self, generator: np.random.Generator, samples: int, power: float, copies: int) -> Floats:
        """Return (T, N) draws."""
        messages, _, first = self._messages(power, copies)
        chosen = generator.choice(first.size, size=samples, p=first.ravel() / first.sum())
        ages = np.array(np.unravel_index(chosen, first.shape))
        joins = np.array([join[::-1] for join in product((False, True), repeat=copies)])[..., None]
        observed = generator.standard_normal((self.rounds, samples))
        for round_, message in enumerate(messages):
            steps = np.where(joins, 0, self._older[ages])  # (join, copy, N)
            rates = np.where(joins, self._hazards[ages], 1 - self._hazards[ages])
            sums = np.cumsum(rates.prod(axis=1) * message[tuple(np.moveaxis(steps, 1, 0))], axis=0)
            picked = (generator.random(samples) * sums[-1] >= sums).sum(axis=0).clip(max=len(joins) - 1)
            ages = steps[picked, :, np.arange(samples)].T
            observed[round_] += power * self._means[round_][ages].sum(axis=0)
        return observed

    def log_likelihoods(self, observed: Floats, power: float) -> tuple[Floats, Floats]:
        """Return (N,) logarithms of both mixtures."""
        laws = [np.repeat(self._first[:, None], observed.shape[1], axis=1) for _ in range(2)]
        logs = [np.zeros(observed.shape[1]) for _ in range(2)]
        for means, seen in zip(self._means, observed, strict=True):
            near = np.flatnonzero(means)
            likelihoods = np.zeros_like(laws[0])
            likelihoods[near] = means[near, None] * seen - means[near, None] ** 2 / 2
            tops = likelihoods.max(axis=0)
            likelihoods -= tops
            for i, order in enumerate((1.0, power)):
                law = self._step(laws[i]) * np.exp(order * likelihoods)
                total = law.sum(axis=0)
                laws[i] = law / total
                logs[i] += np.log(total) + order * tops
        return logs[0], logs[1]

    def _step(self, law: Floats) -> Floats:
        """Return (S, N) the law of the ages at the end of a round, from that at its start."""
        stays = law * (1 - self._hazards[:, None])
        after = np.empty_like(law)
        after[0] = self._hazards @ law
        after[1:] = stays[:-1]
        after[-1] += stays[-1]
        return after

    def _messages(self, power: float, copies: int) -> tuple[list[Floats], float, Floats]:
        """Return, for each round, Z of what follows by the ages at its end; log Z; and the shares of the first ages."""
        future: Floats = np.ones((self.states,) * copies)
        messages, log_scale = [], 0.0
        for means in self._means[::-1]:
            total = reduce(np.add.outer, [means] * copies)
            squares = reduce(np.add.outer, [means**2] * copies)
            logs = power**2 * total**2 / 2 - power * squares / 2
            top = float(logs.max())
            future = future * np.exp(logs - top)
            scale = float(future.max())
            if scale == 0:  # an order far too large
                return [], math.inf, future
            log_scale += top + math.log(scale)
            future = future / scale
            messages.append(future)
            for axis in range(copies):
                ahead = np.moveaxis(future, axis, -1)
                ahead = self._hazards * ahead[..., :1] + (1 - self._hazards) * ahead[..., self._older]
                future = np.moveaxis(ahead, -1, axis)
        first = reduce(np.multiply.outer, [self._first] * copies) * future
        return messages[::-1], log_scale + math.log(float(first.sum())), first


Mixture = PatternMixture | AgeMixture


def bound(mixture: Mixture, delta: float, samples: int = SAMPLES, seed: int = 0) -> float:
    """Return a bound of ε for both directions; too low with a probability of ``FAILURE`` at most, over the draws."""
    check_delta(delta)
    samples = int(max(min(samples, _WORK / (mixture.rounds * mixture.states)), 500))
    generator = draws.generator(seed, 0, "privacy-loss")
    against_noise = _bound_against_noise(mixture, delta, samples, generator)
    return _bound_of_noise(mixture, delta, samples, generator, against_noise)


def _bound_against_noise(mixture: Mixture, delta: float, samples: int, generator: np.random.Generator) -> float:
    """Return the bound of P against Q."""

    def reach(order: float, copies: int) -> float:
        return mixture.log_normaliser(order / copies, copies) + peak(order - 1) - math.log(delta)

    usual = math.sqrt(2 * math.log(1 / delta) / mixture.moments()[1])  # α − 1 of a single pattern
    tried = []
    for copies in range(1, mixture.most_copies + 1):
        for order in 1 + np.geomspace(max(usual / 8, copies - 1), max(8 * usual, copies), _ORDERS):
            reached = reach(order, copies)
            tried.append((reached / (order - 1), reached, order, copies))
    top, reached, order, copies = min(tried)
    observed = mixture.draw(generator, samples, order / copies, copies)
    loss, tilt = mixture.log_likelihoods(observed, order / copies)
    shift = mixture.log_normaliser(order / copies, copies) - reached - math.log(delta)
    return _descend(loss, loss - copies * tilt + shift, order - 1, top, 0.0)


def _bound_of_noise(
    mixture: Mixture, delta: float, samples: int, generator: np.random.Generator, least: float
) -> float:
    """Return the bound of Q against P, or ``least`` if that is larger."""
    mean, square = mixture.moments()
    length = float(mean @ mean)

    def top(power: float) -> float:
        return (power * length / 2 + square / 2) + (peak(power) - math.log(delta)) / power

    power = min(np.geomspace(1e-3, 1e4, 5 * _ORDERS).tolist(), key=top)
    if top(power) <= least:
        return least
    observed = generator.standard_normal((mixture.rounds, samples)) - power * mean[:, None]
    loss = -mixture.log_likelihoods(observed, 1.0)[0]
    return _descend(loss, power * (mean @ observed - square / 2) - peak(power), power, top(power), least)


def _descend(loss: Floats, logs: Floats, slope: float, top: float, least: float) -> float:
    """Return the least ε from ``top`` on downwards, in fixed steps, at all of which a bet shows that δ(ε) < δ.

    If it is below the true ε, the bet at the first step below that has been won by luck.

    Parameters
    ----------
    loss : (N,) of the draws
    logs : (N,) log X at ε = 0, without the factor 1 − e^{ε − loss}
    slope : of log X and of log δ/R, which is 0 at ``top``
    least : where to stop
    """
    if not np.isfinite(logs).all() or not np.isfinite(loss).all():
        return top
    epsilon = top
    while epsilon > max(least, top / 100):
        tried = epsilon * _STEP
        above = loss > tried
        values = np.exp(logs[above] + slope * tried) * -np.expm1(tried - loss[above])
        mean = math.exp(slope * (tried - top))
        gains = np.log1p(_BETS * (mean - np.minimum(values, 1.0))).sum(axis=1)
        gains += (len(loss) - len(values)) * np.log1p(_BETS[:, 0] * mean)
        if not log_sum(gains) - math.log(len(_BETS)) >= -math.log(FAILURE / 2):
            break
        epsilon = tried
    return max(epsilon, least)


def amplified(
    policy: Decentralised | Selector,
    clients: int,
    account: Account,
    delta: float,
    phases: PhaseRule = "random",
) -> float | None:
    """Return a bound of ε with amplification, or None where there is none below that without.

    There is one for Markov clients of one table without dropout, for systematic clients with equal rates, random phases
    and no jitter, and for k of n at random with white noise.
    """
    if not 0 < (plain := account.epsilon(delta)) < _MOST:
        return None
    column, deviation, rounds = account.column, account.deviation, account.rounds
    match policy:
        case MarkovPolicy(rates=None, dropout=0.0):
            found = bound(AgeMixture(policy.hazards, column, deviation, rounds), delta)
        case SystematicPolicy(jitter=0.0) if phases == "random" and len(np.unique(policy.rates)) == 1:
            rate = float(policy.rates[0])
            found = bound(PatternMixture.systematic(rate, column, deviation, rounds), delta)
        case RandomSelector(per_round=k) if account.bands == 1 and k < clients:
            found = epsilon_without_replacement(k / clients, deviation, rounds, delta)
        case _:
            return None
    return found if found < plain else None


def calibrated(
    policy: Decentralised | Selector,
    clients: int,
    account: Account,
    delta: float,
    phases: PhaseRule = "random",
    epsilon: float | None = None,
) -> tuple[Account, float | None]:
    """Return an account whose amplified ε is at most the one given, and hardly less; and this ε.

    Its noise multiplier has six digits. Without an ε, or amplification, it is the account given.

    Raises ConfigError if no noise multiplier gives this ε.
    """
    slope, found = -1.0, amplified(policy, clients, account, delta, phases)
    if epsilon is None or found is None:
        return account, found
    for _ in range(_TRIES):
        spent = account.epsilon(delta) if found is None else found
        if (1 - _WITHIN) * epsilon <= spent <= epsilon:
            return account, found
        step = min(max(math.log((1 - _WITHIN / 2) * epsilon / max(spent, 1e-9)) / slope, -1.5), 1.5)
        account = replace(account, noise_multiplier=rounded_up(account.noise_multiplier * math.exp(step)))
        found = amplified(policy, clients, account, delta, phases)
        after = account.epsilon(delta) if found is None else found
        if after > 0 < spent and after != spent:
            slope = min(math.log(after / spent) / step, -0.3)
    raise unreachable(epsilon)
