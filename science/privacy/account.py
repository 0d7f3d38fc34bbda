"""The account of epsilon from b, K, the bands and the noise, without amplification.

Columns of C that are at least β rounds apart are orthogonal. A client that takes part at most K times, at least b ≥ β
rounds apart, moves the noisy sequence by at most Δ = √(K·Σ_{j<β} c_j²) clips. With noise of s = M·Δ clips the run is
one Gaussian mechanism of μ = 1/M, and its ε is exact:

    δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2).

References
----------
J. Dong, A. Roth, W. Su 2022, Gaussian Differential Privacy, JRSS B 84(1), Corollary 1.
C. A. Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization, NeurIPS, Theorem 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cached_property

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.privacy.factorisation import coefficients, prefix_error
from aoi_fl.science.types import Floats

LEAST_DELTA = 1e-15
_MOST_NOISE = 1e6
NEIGHBOURS = "zero-out: every update of one client is replaced by zero"
ADVERSARY = "sees every published model and knows every other client's data; the server is trusted"
ASSUMPTIONS = (
    "a client is a name: two names with the same data are two clients",
    "the first model, n, k, the clip and the noise multiplier are public and not chosen by the data",
    "updates are clipped one at a time, weigh the same, and are divided by a fixed number",
    "noise is normal; it is no discrete Gaussian, and rounding in floating point is not counted",
    "other runs on the same data, for instance to tune, add up and are not counted",
)


@dataclass(frozen=True)
class Account:
    """A private run: its participation, its noise, and their ε.

    Attributes
    ----------
    separation : b, the least number of rounds between two participations of a client
    rounds : T ≥ 1
    noise_multiplier : M > 0, the noise's deviation s over the sensitivity of all participations, 1/μ
    bands : β, at most b
    momentum : of the server's optimiser

    Raises ConfigError if the noise multiplier is not above 0, or ``bands`` is above b.

    >>> account = Account(6, rounds=100, noise_multiplier=0.5, bands=6)
    >>> round(account.epsilon(1e-3), 3), round(account.error, 3)
    (7.581, 7.336)
    """

    separation: int
    rounds: int
    noise_multiplier: float
    bands: int = 1
    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_positive("noise-multiplier", self.noise_multiplier)
        if self.bands > self.separation:
            allowed = f"at most {self.separation}, the fewest rounds between two participations of a client"
            raise ConfigError("bands", self.bands, allowed, f"Set bands to at most {self.separation}.")

    @cached_property
    def column(self) -> Floats:
        """The (β,) coefficients of C."""
        return coefficients(self.bands, self.momentum)

    def participations(self, rounds: int) -> int:
        """Return ⌈T/b⌉, the most participations of a client in so many rounds; T is 0 before round 1."""
        return -(-rounds // self.separation)

    @property
    def deviation(self) -> float:
        """Return s, the deviation of each round's fresh noise, in clips."""
        return self.noise_multiplier * self._sensitivity(self.participations(self.rounds))

    @property
    def mu(self) -> float:
        """Return the μ of one participation, as a Gaussian mechanism."""
        return self._sensitivity(1) / self.deviation

    @property
    def error(self) -> float:
        """Return the RMSE of the prefix sums, in clips."""
        return self.deviation * prefix_error(self.column, self.rounds, self.momentum)

    def epsilon(self, delta: float, rounds: int | None = None) -> float:
        """Return ε after so many rounds; all T by default.

        The command, the ledger, the page and ``max-epsilon`` all show this number.
        """
        most = self.participations(self.rounds if rounds is None else rounds)
        return epsilon_of(self._sensitivity(most) / self.deviation, delta)

    def _sensitivity(self, participations: int) -> float:
        return math.sqrt(participations * float(self.column @ self.column))


def delta_of(mu: float, epsilon: float) -> float:
    """Return δ(ε) of a Gaussian mechanism.

    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    much = _log_normal(-epsilon / mu + mu / 2)
    return -math.exp(much) * math.expm1(min(epsilon + _log_normal(-epsilon / mu - mu / 2) - much, 0.0))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the ε of a Gaussian mechanism; 0 where δ alone covers it.

    >>> round(epsilon_of(1.0, 1e-5), 4)
    4.3772
    """
    check_delta(delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    return bisect(lambda epsilon: delta_of(mu, epsilon) > delta, mu**2 / 2 + 40 * mu)


def multiplier_of(epsilon: float, delta: float) -> float:
    """Return the least noise multiplier 1/μ of six digits with which a Gaussian mechanism keeps (ε, δ).

    Raises ConfigError if no noise up to 10⁶ does.

    >>> multiplier_of(8.0, 1e-5)
    0.60023
    """
    check_positive("epsilon", epsilon)
    check_delta(delta)
    if delta_of(1 / _MOST_NOISE, epsilon) > delta:
        raise unreachable(epsilon)
    return rounded_up(bisect(lambda multiplier: delta_of(1 / multiplier, epsilon) > delta, _MOST_NOISE))


def rounded_up(value: float) -> float:
    """Return the least number of six digits from a value on.

    >>> rounded_up(0.60022031)
    0.600221
    """
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(value))


def unreachable(epsilon: float) -> ConfigError:
    """Return the error for an ε that no noise reaches."""
    return ConfigError("epsilon", epsilon, "larger, because no noise reaches it", "Raise epsilon, or delta.")


def bisect(too_small: Callable[[float], bool], most: float) -> float:
    """Return the least number in (0, most] that is not too small, to a relative 10⁻¹²."""
    low, high = 0.0, most
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def check_delta(delta: float) -> None:
    """Raise ConfigError unless δ is at least 10⁻¹⁵ and below 1."""
    if not LEAST_DELTA <= delta < 1:
        allowed = f"at least {LEAST_DELTA:g} and below 1"
        raise ConfigError("delta", delta, allowed, "Choose a number below 1 / the number of clients.")


def check_positive(key: str, value: float) -> None:
    """Raise ConfigError unless a value is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(key, value, "a number above 0", "Raise it.")


def _log_normal(x: float) -> float:
    """Return log Φ(x), also where Φ(x) underflows."""
    if x > -30:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log1p(-1 / x**2 + 3 / x**4)
