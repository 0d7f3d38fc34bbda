"""The banded square root: noise that is correlated over rounds, and cancels in the sums that training uses.

The server publishes A·x + s·B·z for the rounds' sums x, with A = B·C. A is the workload: the triangle of ones for plain
averaging, and with momentum m the triangle of 1 + m + … + m^j. C is the lower triangular Toeplitz matrix of the first β
coefficients of A's square root. Each round's sum gets the noise w_t = z_t − Σ_{j=1}^{β−1} c_j w_{t−j}, so w = C⁻¹z.
Without momentum c_j = C(2j, j)/4^j. One band is white noise.

Noise comes from a secret key: SHAKE-256 of key, round and nonce gives the bits, Box and Muller's transform the normal
numbers. A round that draws again takes a fresh nonce, so no two sums share a z_t.

References
----------
N. Kalinin, C. Lampert 2024, Banded Square Root Matrix Factorization for Differentially Private Model Training, NeurIPS:
Theorem 1 (the root with momentum) and Section 3 (the bands).
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from aoi_fl.science.errors import ConfigError, check_whole
from aoi_fl.science.types import Floats, Singles

KEY_BYTES = 32


def coefficients(bands: int, momentum: float = 0.0) -> Floats:
    """Return (β,) c_0 … c_{β−1}, the first column of C.

    Parameters
    ----------
    bands : β ≥ 1
    momentum : m in [0, 1), of the server's optimiser

    >>> coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    check_whole("bands", bands)
    if not 0 <= momentum < 1:
        raise ConfigError("momentum", momentum, "from 0 to below 1", "Choose another momentum.")
    order = np.arange(1, bands)
    root = np.concatenate(([1.0], np.cumprod((2 * order - 1) / (2 * order))))
    return np.convolve(root, root * momentum ** np.arange(bands))[:bands]


def workload(rounds: int, momentum: float = 0.0) -> Floats:
    """Return (T,) the first column of A, 1 + m + … + m^j.

    >>> workload(3, 0.5).tolist()
    [1.0, 1.5, 1.75]
    """
    return np.cumsum(momentum ** np.arange(rounds))


def prefix_error(column: Floats, rounds: int, momentum: float = 0.0) -> float:
    """Return the RMSE of the T published sums for noise of deviation 1: √(mean_t Σ_j B_tj²), B = A·C⁻¹.

    >>> round(prefix_error(coefficients(1), 100), 4)
    7.1063
    """
    inverse = np.zeros(rounds)
    inverse[0] = 1.0
    for t in range(1, rounds):
        near = inverse[max(t - len(column) + 1, 0) : t][::-1]
        inverse[t] = -(column[1 : len(near) + 1] @ near)
    published = np.convolve(workload(rounds, momentum), inverse)[:rounds]
    return math.sqrt(np.cumsum(published**2).mean())


class CorrelatedNoise:
    """The noise of a run, round after round: a function of the secret key.

    A resumed run draws all vectors anew from key and nonces, so no vector is stored.

    Parameters
    ----------
    key : secret of 32 bytes from the operating system; the same key and round give the same numbers
    column : (β,) :func:`coefficients`
    deviation : s > 0, of each z_t
    size : d, numbers a round
    nonces : a nonce for each round from 1 on, which may grow before a round is drawn; None: no round draws again

    >>> noise = CorrelatedNoise(bytes(32), coefficients(2), 1.0, 3)
    >>> bool((noise.of(2) == noise.of(2)).all())
    True
    """

    def __init__(
        self, key: bytes, column: Floats, deviation: float, size: int, nonces: Sequence[bytes] | None = None
    ) -> None:
        if len(key) != KEY_BYTES:
            raise ConfigError(
                "noise key", f"{len(key)} bytes long", f"{KEY_BYTES} bytes long", "Use secrets.token_bytes."
            )
        self._key, self._column, self._deviation, self._size = key, column, deviation, size
        self._round, self._nonces = 0, nonces
        self._recent: list[Singles] = []  # w_t, w_{t−1}, … of the last round

    def of(self, round_: int) -> Singles:
        """Return (d,) w_t of a round from 1 on; ValueError for a round before the last call's."""
        if not 1 <= self._round <= round_ and not (self._round == 0 < round_):
            raise ValueError(f"the noise of round {round_} is gone: the last round is {self._round}")
        for t in range(self._round + 1, round_ + 1):
            nonce = b"" if self._nonces is None else self._nonces[t - 1]
            drawn = self._deviation * normals(self._key, t, self._size, nonce)
            for c, earlier in zip(self._column[1:], self._recent, strict=False):
                drawn -= c * earlier
            self._recent = [drawn.astype(np.float32), *self._recent][: max(len(self._column) - 1, 1)]
        self._round = round_
        return self._recent[0]


def normals(key: bytes, round_: int, size: int, nonce: bytes = b"") -> Floats:
    """Return (d,) standard normal numbers that are unpredictable without the key.

    >>> bool((normals(bytes(32), 1, 5) == normals(bytes(32), 1, 5)).all())
    True
    """
    half = -(-size // 2)
    stream = hashlib.shake_256(key + round_.to_bytes(8, "big") + nonce).digest(16 * half)
    whole = np.frombuffer(stream, dtype="<u8").reshape(2, half) >> np.uint64(11)  # 53 bits
    radius = np.sqrt(-2 * np.log((whole[0] + 1) * 2.0**-53))
    angle = whole[1] * (2.0**-52 * math.pi)
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:size]
