"""Devices with the availability of phones: a generator fitted to a trace of 300 phones over six days.

Each client alternates between presence and absence, and its share of time present is logit-normal. A spell is either a
flicker or a real one; both are lognormal, and each client has its own share of flickers. Absences pass faster at some
hours, which gives the daily pattern. Training times are lognormal and cut. ``aoi reproduce traces`` compares both.
"""

import numpy as np

from aoi_fl.lab.simulated_time.availability import DAY, Availability, offsets_of
from aoi_fl.lab.simulated_time.devices import DeviceTrace, without_loading
from aoi_fl.science import draws
from aoi_fl.science.types import Floats

_PERIOD = 7 * DAY
_WARM_UP = 2 * DAY  # hides that the first spells begin at once
_GRID = np.linspace(0.0, DAY, 97)  # of the day's clock
# The law that all clients share. Pairs are mean and standard deviation of a logarithm of seconds.
_SHARE = (-1.85, 0.70)  # mean and standard deviation of the logit of a client's share of time present
_FLICKERS = (1.0, 1.53)  # a and b of the Beta law of the share of a client's absences that are flickers
_FLICKERING = 0.57  # the same of presence, as a part of that of absence
_BLINK, _GAP = (1.5, 1.85), (1.5, 1.45)  # lengths of a flicker of presence, of absence
_STAY = (7.37, 1.59)  # lengths of a real presence
_PACE = 0.51  # standard deviation of the logarithm of a client's factor of all its real spells
_SPREAD = 1.29  # standard deviation of the logarithm of a real absence; its mean follows from the client's share
_SWING, _PEAK = 0.55, 6.5  # by how much absences pass faster at the peak, 0 to 1, and its hour
_TRAINING, _SHORTEST, _LONGEST = (2.25, 0.75), 2.0, 56.0  # of a local training, cut at both ends


def phones(clients: int, seed: int) -> DeviceTrace:
    """Return a recurring week of n clients; loading is part of the training."""
    rng = draws.generator(seed, 0, "habits")
    training = np.exp(rng.normal(*_TRAINING, clients)).clip(_SHORTEST, _LONGEST)
    return without_loading(_availability(clients, rng), training)


def _availability(clients: int, rng: np.random.Generator) -> Availability:
    share = 1 / (1 + np.exp(-rng.normal(*_SHARE, clients)))
    gaps = rng.beta(*_FLICKERS, clients)
    blinks, pace = _FLICKERING * gaps, np.exp(rng.normal(0.0, _PACE, clients))
    stays = np.exp(_STAY[0]) * pace  # medians of real spells
    present = blinks * _mean(*_BLINK) + (1 - blinks) * stays * np.exp(_STAY[1] ** 2 / 2)
    absent = np.maximum(present * (1 - share) / share - gaps * _mean(*_GAP), 1.0) / (1 - gaps)
    absences = absent / np.exp(_SPREAD**2 / 2)
    clock = _clock()
    time = np.full(clients, -_WARM_UP)
    here = rng.random(clients) < share
    who, begins, ends = [], [], []
    active = np.arange(clients)
    while len(active):  # the next spell of all those that are not through, at once
        on, i = here[active], active
        flicker = rng.random(len(i)) < np.where(on, blinks[i], gaps[i])
        brief = np.exp(np.where(on, _BLINK[0], _GAP[0]))
        median = np.where(flicker, brief, np.where(on, stays[i], absences[i]))
        sigma = np.where(flicker, np.where(on, _BLINK[1], _GAP[1]), np.where(on, _STAY[1], _SPREAD))
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


def _clock() -> Floats:
    """Return (97,) an absence's progress through the day by each point of the grid."""
    angle = 2 * np.pi * (_GRID / DAY - _PEAK / 24)
    ahead: Floats = _SWING * DAY / (2 * np.pi) * (np.sin(angle) - np.sin(angle[0]))
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
