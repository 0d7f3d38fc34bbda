"""Devices with the availability of phones: a generator fitted to a trace of 300 phones over six days.

Each client alternates between presence and absence, and its share of time present is logit-normal. A spell is either a
flicker or a real one; both are lognormal, and each client has its own share of flickers. Absences pass faster at some
hours, which gives the daily pattern. Training times are lognormal and cut. ``aoi reproduce traces`` compares both.
"""

from dataclasses import dataclass

import numpy as np

from aoi_fl.lab.simulated_time.availability import DAY, Availability, offsets_of
from aoi_fl.lab.simulated_time.devices import DeviceTrace
from aoi_fl.science import draws
from aoi_fl.science.types import Floats

_PERIOD = 7 * DAY
_WARM_UP = 2 * DAY  # hides that the first spells begin at once
_GRID = np.linspace(0.0, DAY, 97)  # of the day's clock


@dataclass(frozen=True)
class PhoneAvailability:
    """The law that all clients share. Pairs are mean and standard deviation of a logarithm of seconds.

    Attributes
    ----------
    share : mean and standard deviation of the logit of a client's share of time present
    flickers : a and b of the Beta law of the share of a client's absences that are flickers
    flickering : of presence, as a part of that of absence
    blink, gap : lengths of a flicker of presence, of absence
    stay : lengths of a real presence
    pace : standard deviation of the logarithm of a client's factor of all its real spells
    spread : standard deviation of the logarithm of a real absence; its mean follows from the client's share
    swing, peak : by how much absences pass faster at the peak, 0 to 1, and its hour
    training, shortest, longest : of a local training, cut at both ends
    """

    share: tuple[float, float] = (-1.85, 0.70)
    flickers: tuple[float, float] = (1.0, 1.53)
    flickering: float = 0.57
    blink: tuple[float, float] = (1.5, 1.85)
    gap: tuple[float, float] = (1.5, 1.45)
    stay: tuple[float, float] = (7.37, 1.59)
    pace: float = 0.51
    spread: float = 1.29
    swing: float = 0.55
    peak: float = 6.5
    training: tuple[float, float] = (2.25, 0.75)
    shortest: float = 2.0
    longest: float = 56.0

    def trace(self, clients: int, seed: int) -> DeviceTrace:
        """Return a recurring week of n clients; loading is part of the training."""
        rng = draws.generator(seed, 0, "habits")
        training = np.exp(rng.normal(*self.training, clients)).clip(self.shortest, self.longest)
        free = np.full(clients, np.inf)
        return DeviceTrace(self._availability(clients, rng), training, "training", free, free)

    def _availability(self, clients: int, rng: np.random.Generator) -> Availability:
        share = 1 / (1 + np.exp(-rng.normal(*self.share, clients)))
        gaps = rng.beta(*self.flickers, clients)
        blinks, pace = self.flickering * gaps, np.exp(rng.normal(0.0, self.pace, clients))
        stays = np.exp(self.stay[0]) * pace  # medians of real spells
        present = blinks * _mean(*self.blink) + (1 - blinks) * stays * np.exp(self.stay[1] ** 2 / 2)
        absent = np.maximum(present * (1 - share) / share - gaps * _mean(*self.gap), 1.0) / (1 - gaps)
        absences = absent / np.exp(self.spread**2 / 2)
        clock = self._clock()
        time = np.full(clients, -_WARM_UP)
        here = rng.random(clients) < share
        who, begins, ends = [], [], []
        active = np.arange(clients)
        while len(active):  # the next spell of all those that are not through, at once
            on, i = here[active], active
            flicker = rng.random(len(i)) < np.where(on, blinks[i], gaps[i])
            brief = np.exp(np.where(on, self.blink[0], self.gap[0]))
            median = np.where(flicker, brief, np.where(on, stays[i], absences[i]))
            sigma = np.where(flicker, np.where(on, self.blink[1], self.gap[1]), np.where(on, self.stay[1], self.spread))
            length = np.maximum(np.round(median * np.exp(sigma * rng.standard_normal(len(i)))), 1.0)
            until = np.where(on, time[i] + length, _shifted(time[i], length, clock))
            seen = on & (until > 0)
            who.append(i[seen])
            begins.append(time[i][seen].clip(0))
            ends.append(until[seen].clip(max=_PERIOD))
            time[i], here[i] = until, ~on
            active = i[until < _PERIOD]
        rows = np.concatenate(who)
        order = np.argsort(rows, kind="stable")
        offsets = offsets_of(rows, clients)
        return Availability(offsets, np.concatenate(begins)[order], np.concatenate(ends)[order], _PERIOD)

    def _clock(self) -> Floats:
        """Return (97,) an absence's progress through the day by each point of the grid."""
        angle = 2 * np.pi * (_GRID / DAY - self.peak / 24)
        ahead: Floats = self.swing * DAY / (2 * np.pi) * (np.sin(angle) - np.sin(angle[0]))
        return _GRID + ahead


def _mean(mu: float, sigma: float) -> float:
    return float(np.exp(mu + sigma**2 / 2))


def _shifted(start: Floats, length: Floats, clock: Floats) -> Floats:
    """Return when absences that begin at ``start`` end, by the day's clock."""
    days, phase = np.divmod(start, DAY)
    target = np.interp(phase, _GRID, clock) + length
    more, rest = np.divmod(target, DAY)
    ends: Floats = np.round((days + more) * DAY + np.interp(rest, clock, _GRID))
    return np.maximum(ends, start + 1.0)
