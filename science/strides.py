"""Strides: a client's participations as a function of the round, from a rate and a phase.

Rates are fractions a/b (:func:`aoi_fl.science.rates.exact`) and phases count in ticks of 1/b, so rounds are whole
numbers and nothing drifts. :mod:`aoi_fl.science.systematic` describes the purpose.
"""

import math

import numpy as np

from aoi_fl.science.errors import ConfigError
from aoi_fl.science.rates import check_rates, exact
from aoi_fl.science.types import Floats, Ints

_BELOW_ONE = math.nextafter(1.0, 0.0)
JITTER = "jitter"  # the purpose under which a client draws how long a participation is put off


class Strides:
    """The strides of n clients, each a function of the round alone; n may be 1.

    A stride that began before round 1 is jittered with the draw of round 0.

    Parameters
    ----------
    rates, phases : (n,) r in (0, 1] and u in [0, 1)
    jitter : J in [0, 1], the largest share of a stride by which a participation is put off
    shift : the rest that clients had accrued by former rates

    Raises ConfigError if a rate, a phase or the jitter is out of range.
    """

    def __init__(self, rates: Floats, phases: Floats, jitter: float = 0.0, shift: float | Floats = 0.0) -> None:
        check_rates(rates)
        wrong = np.flatnonzero(~((phases >= 0) & (phases < 1)))
        if wrong.size:
            raise ConfigError(
                f"phase of client {wrong[0]}", phases[wrong[0]], "at least 0 and below 1", "Choose another phase."
            )
        check_jitter(jitter)
        distinct, which = np.unique(rates, return_inverse=True)
        fractions = [exact(rate) for rate in distinct.tolist()]
        self._a: Ints = np.array([f.numerator for f in fractions], dtype=np.int64)[which]
        self._b: Ints = np.array([f.denominator for f in fractions], dtype=np.int64)[which]
        whole = np.floor(phases + shift)
        self._before: Ints = whole.astype(np.int64)
        ticks = np.minimum(phases + shift - whole, _BELOW_ONE) * self._b
        self._tick: Ints = np.minimum(np.floor(ticks), self._b - 1).astype(np.int64)
        self._within: Floats = np.clip(ticks - self._tick, 0.0, 1.0)
        self._put_off: Floats = np.minimum(jitter * self._b, self._b - self._a)  # in ticks

    def accrued(self, round_: int | Ints, who: slice | Ints = slice(None)) -> Ints:
        """Return the amounts that clients, by default all, have accrued beyond a whole number, in ticks 0 … b−1."""
        b = self._b[who]
        return (np.mod(round_, b) * self._a[who] + self._tick[who]) % b

    def begun(self, round_: int | Ints) -> Ints:
        """Return (n,) the number of strides begun by a round; 0 at round 0, but for phase and shift."""
        return self._before + (round_ * self._a + self._tick) // self._b

    def start_of(self, stride: int | Ints) -> Ints:
        """Return (n,) the rounds in which the strides begin that :meth:`begun` counts as this one."""
        return -((self._tick - (stride - self._before) * self._b) // self._a)

    def last_start(self, round_: int | Ints) -> Ints:
        """Return (n,) the round, at most this one, in which the stride began that a client is in."""
        return round_ - self.accrued(round_) // self._a

    def due(self, starts: int | Ints, uniforms: float | Floats, who: slice | Ints = slice(None)) -> Ints:
        """Return the rounds of clients' participations, of strides begun in ``starts`` and put off by J·w strides."""
        late = self._put_off[who] * uniforms - self.accrued(starts, who) - self._within[who]
        late = np.ceil(late / self._a[who])
        return starts + np.maximum(late, 0).astype(np.int64)


def check_jitter(jitter: float) -> None:
    """Raise ConfigError unless J is in [0, 1]."""
    if not 0 <= jitter <= 1:
        raise ConfigError("jitter", jitter, "a share of the stride, from 0 to 1", "Choose another share.")
