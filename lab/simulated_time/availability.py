"""When devices are available: spells of presence, which recur after a period."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Floats, Ints, Mask

DAY = 86_400.0
_TOUCHING = 1e-6  # seconds that rounding may put between times that are one
_SLOT = 600.0  # seconds for which a coin of the Bernoulli law holds
_SLOTS = 1008  # a week of them


@dataclass(frozen=True, eq=False)
class Availability:
    """The spells of n clients; client i's are rows ``offsets[i]:offsets[i+1]``, each without its end.

    Attributes
    ----------
    offsets : (n+1,) int64
    begins, ends : (S,) float64, seconds from the start of the period, ascending within a client
    period : seconds after which all recurs
    """

    offsets: Ints
    begins: Floats
    ends: Floats
    period: float

    @classmethod
    def from_changes(cls, offsets: ArrayLike, seconds: ArrayLike, present: ArrayLike, period: float) -> "Availability":
        """Return the availability of changes: client i is ``present[j]`` from ``seconds[j]`` on, j in its rows.

        Raises ConfigError for seconds that are not finite, not ascending, negative, or after the period.

        >>> found = Availability.from_changes([0, 3, 4, 5], [0, 5, 20, 0, 0], [False, True, False, True, False], 30)
        >>> found.offsets.tolist(), found.begins.tolist(), found.ends.tolist()
        ([0, 1, 2, 2], [5.0, 0.0], [20.0, 30.0])
        """
        when, on = np.asarray(seconds, dtype=np.float64), np.asarray(present, dtype=np.bool_)
        counts = np.diff(offsets)
        client = np.repeat(np.arange(len(counts)), counts)
        follows = client == np.roll(client, 1)
        follows[:1] = False
        until = np.where(np.roll(follows, -1), np.roll(when, -1), period)
        refuse(~np.isfinite(when), client, "second", when, "finite, counted from the trace's start")
        refuse(follows & (when <= np.roll(when, 1)), client, "second", when, "above the one before; sort the seconds")
        refuse(when < 0, client, "second", when, "at least 0, the trace's start")
        twice = "a change, and the client is available already"
        refuse(on & np.roll(on, 1) & follows, client, "change", when, twice, "to available at second {:g}")
        keep = on & (until > when)
        return cls(offsets_of(client[keep], len(counts)), when[keep], until[keep], period)

    @property
    def clients(self) -> int:
        """How many clients there are, n."""
        return len(self.offsets) - 1

    @cached_property
    def _owners(self) -> Ints:
        """The client of each spell, (S,)."""
        return np.repeat(np.arange(self.clients), np.diff(self.offsets))

    @cached_property
    def _starts(self) -> Floats:
        """The beginning of each spell on one line, with a period for each client, (S,)."""
        return self._owners * self.period + self.begins

    def first(self, clients: int) -> "Availability":
        """Return the availability of the first clients; raises ConfigError if there are fewer."""
        if clients > self.clients:
            allowed = f"at most {self.clients}, the clients of the trace"
            raise ConfigError("num-clients", clients, allowed, "Lower it, or use another trace.")
        rows = self.offsets[clients]
        return Availability(self.offsets[: clients + 1], self.begins[:rows], self.ends[:rows], self.period)

    def starting(self, seconds: float) -> "Availability":
        """Return the same spells, counted from this second on."""
        start = math.fmod(seconds, self.period)
        # The spells of this period and of the next one, of which those between the start and a period later count.
        begins, ends = (np.concatenate([of - start, of - start + self.period]) for of in (self.begins, self.ends))
        who = np.tile(self._owners, 2)
        inside = np.flatnonzero((ends > 0) & (begins < self.period))
        order = inside[np.lexsort((begins[inside], who[inside]))]
        who, begins, ends = who[order], begins[order].clip(0.0), ends[order].clip(max=self.period)
        apart = np.ones(len(who), np.bool_)  # from the spell before: what was cut at the period's end is whole again
        apart[1:] = (who[1:] != who[:-1]) | (begins[1:] > ends[:-1] + _TOUCHING)
        last = np.append(apart[1:], True) if len(who) else apart
        return Availability(offsets_of(who[apart], self.clients), begins[apart], ends[last], self.period)

    def here(self, when: float) -> Mask:
        """Return (n,) which clients are available at a time."""
        return self._inside(*self._spell(when))

    def until(self, when: float, clients: Ints | None = None) -> Floats:
        """Return (s,) the times at which clients leave next; ``when`` for unavailable clients, inf for never."""
        spell, phase, who = self._spell(when, clients)
        inside = self._inside(spell, phase, who)
        first = self.offsets[who]
        ends = self._at(self.ends, spell)
        through = (ends == self.period) & (self._at(self.begins, first) == 0)  # the next period goes on with it
        whole = through & (spell == first)
        ends = np.where(through, np.where(whole, np.inf, self.period + self._at(self.ends, first)), ends)
        return np.where(inside, (when - phase) + ends, when)

    def returns(self, when: float) -> Floats:
        """Return (n,) the times from which clients are available next: ``when`` for available ones, inf for never."""
        spell, phase, who = self._spell(when)
        first, last = self.offsets[who], self.offsets[who + 1]
        again = np.where(last > first, self.period + self._at(self.begins, first), np.inf)
        begins = np.where(spell + 1 < last, self._at(self.begins, spell + 1), again)
        return np.where(self._inside(spell, phase, who), when, (when - phase) + begins)

    def next_present(self, now: float, until: float = math.inf) -> tuple[float, Mask]:
        """Return when a client is available next, from now on and at most until then, and (n,) which ones are then."""
        here = self.here(now)
        if here.any():
            return now, here
        when = float(self.returns(now).min())
        end = max(now, min(when, until))
        return end, self.here(when) & (when <= end)

    @cached_property
    def shares(self) -> Floats:
        """The share of the period in which each client is available, (n,)."""
        return self.shares_by(self.period)

    def shares_by(self, seconds: float) -> Floats:
        """Return (n,) the share of the time up to a second in which each client is available.

        >>> found = Availability(np.array([0, 1, 2, 2]), np.array([0.0, 8.0]), np.array([5.0, 10.0]), period=10.0)
        >>> found.shares_by(20.0).tolist()
        [0.5, 0.2, 0.0]
        """
        periods, rest = divmod(seconds, self.period)
        lengths = np.minimum(self.ends, rest) - np.minimum(self.begins, rest) + periods * (self.ends - self.begins)
        return np.bincount(self._owners, lengths, minlength=self.clients) / seconds

    def _spell(self, when: float, clients: Ints | None = None) -> tuple[Ints, float, Ints]:
        """Return the row of the last spell that has begun, the phase, and the clients.

        The row before a client's first means none. A time within rounding of a beginning counts as it.
        """
        who = np.arange(self.clients) if clients is None else clients
        phase = when % self.period
        phase = 0.0 if phase > self.period - _TOUCHING else phase
        begun = np.searchsorted(self._starts, who * self.period + (phase + _TOUCHING), side="right")
        return np.minimum(begun, self.offsets[who + 1]) - 1, phase, who

    def _inside(self, spell: Ints, phase: float, who: Ints) -> Mask:
        inside: Mask = (spell >= self.offsets[who]) & (self._at(self.ends, spell) > phase)
        return inside

    def _at(self, values: Floats, rows: Ints) -> Floats:
        """Return the values of rows; rows that do not exist get others' values, which the caller ignores."""
        return values.take(rows, mode="clip") if len(values) else np.zeros(len(rows))


def refuse(wrong: Mask, client: Ints, what: str, values: Floats, allowed: str, shown: str = "") -> None:
    """Raise ConfigError for the first wrong row, with its client and its value."""
    if wrong.any():
        row = int(np.argmax(wrong))
        value = shown.format(values[row]) if shown else values[row]
        raise ConfigError(f"client {client[row]}: {what}", value, allowed, "Correct the trace.")


def offsets_of(who: Ints, clients: int) -> Ints:
    """Return (n+1,) where each client's rows begin and end, from (r,) each row's client, ascending.

    >>> offsets_of(np.array([0, 0, 2]), 3).tolist()
    [0, 2, 2, 3]
    """
    return np.append(0, np.cumsum(np.bincount(who, minlength=clients)))


def always(clients: int) -> Availability:
    """Return the availability of clients that are always available."""
    return Availability(np.arange(clients + 1), np.zeros(clients), np.full(clients, DAY), DAY)


def bernoulli(clients: int, share: float, seed: int) -> Availability:
    """Return clients that are available with probability ``share``, drawn every ten minutes for a week.

    Raises ConfigError unless the share is in (0, 1].
    """
    if not 0 < share <= 1:
        raise ConfigError(
            "clock", f"bernoulli:{share:g}", "a share above 0 and at most 1", "Write for instance bernoulli:0.3."
        )
    uniforms = draws.generator(seed, 0, "bernoulli").random((clients, _SLOTS), dtype=np.float32)
    on = np.zeros((clients, _SLOTS + 2), dtype=np.int8)
    on[:, 1:-1] = uniforms < share
    steps = np.diff(on, axis=1)
    who, begins = np.nonzero(steps == 1)
    ends = np.nonzero(steps == -1)[1]
    return Availability(
        offsets_of(who, clients), _SLOT * begins.astype(np.float64), _SLOT * ends.astype(np.float64), _SLOTS * _SLOT
    )
