"""Oort: clients with much to teach and little time to take, found by trying them.

A bandit: a tried client is worth its last report, and untried ones are explored. With U_i the statistical utility, L_i
the round it was last in, t_i its seconds and T the seconds preferred, in round R

    Util(i) = (U_i + √(0.1 ln R / L_i)) · (T/t_i)^(α·1(T < t_i)),    U_i = |B_i| √(Σ_{k∈B_i} loss(k)² / |B_i|).

References
----------
F. Lai, X. Zhu, H. V. Madhyastha, M. Chowdhury, "Oort: Efficient Federated Learning via Guided Participant Selection",
OSDI 2021: eqs. (1)-(2), Algorithm 1, Section 4. Where it leaves a choice, we do as the authors' published code does.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from aoi_fl.lab.rivals.learning import LearningSelector, State, sequential
from aoi_fl.science import draws
from aoi_fl.science.client_stats import Report
from aoi_fl.science.selection import Population, Selection, by_size
from aoi_fl.science.types import Floats, Ints

_LEAST = 0.999  # of the smallest utility: what counts as none when utilities are brought to (0, 1]


@dataclass(frozen=True)
class OortSettings:
    """Oort's constants; the defaults are the paper's, or its code's where the paper has none.

    Attributes
    ----------
    penalty : α ≥ 0 for clients slower than T; 0: seconds do not matter
    exploring, decay, least_exploring : ε starts at the first, is multiplied by the second each round, down to the third
    cut_off : c in (0, 1], the share of the last place's utility above which a client may be drawn
    clip : quantile at which utilities are cut
    pace, pacing : T is a quantile of the known seconds; it starts at the first, and rises by the second
    window : W, rounds between two comparisons of the last W rounds' utility with the W before
    """

    penalty: float = 2.0
    exploring: float = 0.9
    decay: float = 0.98
    least_exploring: float = 0.2
    cut_off: float = 0.95
    clip: float = 0.95
    pace: float = 0.3
    pacing: float = 0.05
    window: int = 20

    def exploration(self, round_: int) -> float:
        """Return ε of a round.

        >>> round(OortSettings().exploration(3), 6), OortSettings().exploration(500)
        (0.86436, 0.2)
        """
        return max(self.least_exploring, self.exploring * self.decay ** (round_ - 1))


@dataclass(eq=False)
class OortSelector(LearningSelector):
    """Oort's selection of training participants, weighted by data size.

    An update's mean loss stands for the root of its examples' mean square loss, which is at least that. A client that
    missed the end of its round counts as tried, with the time waited as its least duration. Untried clients, at least
    one a round unless ε is 0, are drawn by foreseen speed if there is foresight, else uniformly.

    Attributes
    ----------
    oort : the constants
    pace : the quantile of the known seconds that is T now
    """

    oort: OortSettings = field(default_factory=OortSettings)
    pace: float = field(default=0.0, init=False)
    _brought: Floats = field(default_factory=lambda: np.zeros(0), init=False)  # utility of the last 2W rounds

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pace = self.oort.pace

    def select(self, round_: int, population: Population) -> Selection:
        """Choose for a round; O(n log n)."""
        n, seen = len(population.ages), self.seen.reach(len(population.ages))
        here = population.available & (population.sizes > 0)
        tried, new = np.flatnonzero(here & (seen.tried > 0)), here & (seen.tried == 0)
        exploration = self.oort.exploration(round_)
        explore = min(max(round(self.per_round * exploration), int(exploration > 0)), int(new.sum()))
        exploit = min(self.per_round - explore, len(tried))
        chosen = np.zeros(n, np.bool_)
        if exploit:
            utilities = self.utilities(round_, tried, population.sizes)
            within = utilities >= self.oort.cut_off * np.partition(utilities, -exploit)[-exploit]
            uniforms = draws.uniforms(self.seed, round_, "exploit", n)[tried]
            chosen[tried[sequential(uniforms, np.where(within, utilities, 0.0), exploit)]] = True
        foreseen = population.foresight
        speeds = np.ones(n) if foreseen is None else 1 / np.maximum(foreseen.seconds, np.finfo(np.float64).tiny)
        uniforms = draws.uniforms(self.seed, round_, "explore", n)
        chosen[sequential(uniforms, np.where(new, speeds, 0.0), self.per_round - exploit)] = True
        return by_size(np.flatnonzero(chosen), population.sizes)

    def utilities(self, round_: int, tried: Ints, sizes: Ints) -> Floats:
        """Return Util(i) of tried clients, (s,), with U scaled to (0, 1] beside the bonus of at most 1."""
        worth = self.worth(tried, sizes)
        ceiling = np.sort(worth)[min(int(len(worth) * self.oort.clip), len(worth) - 1)]
        worth = np.minimum(worth, ceiling)
        floor = _LEAST * worth.min()
        scaled = (worth - floor) / (ceiling - floor) if ceiling > floor else np.ones(len(worth))
        bonus = np.sqrt(0.1 * np.log(round_) / self.seen.tried[tried])
        return np.asarray((scaled + bonus) * self.slowness(self.seen.durations[tried]))

    def worth(self, tried: Ints, sizes: Ints) -> Floats:
        """Return the statistical utility |B_i| · |loss_i|; an unknown loss counts as the mean of the known ones."""
        losses = np.abs(self.seen.losses[tried])
        known = ~np.isnan(losses)
        return np.asarray(sizes[tried] * np.where(known, losses, losses[known].mean() if known.any() else 1.0))

    def slowness(self, seconds: Floats) -> Floats:
        """Return (s,) the factors (T/t_i)^(α·1(T < t_i)); 1 where t_i is unknown."""
        durations = self.seen.durations
        known = durations[~np.isnan(durations)]
        if not len(known):
            return np.ones(len(seconds))
        preferred = np.sort(known)[min(int(len(known) * self.pace), len(known) - 1)]
        late = seconds > preferred  # False where unknown
        return np.where(late, preferred / np.where(late, seconds, 1.0), 1.0) ** self.oort.penalty

    def learn(self, round_: int, population: Population, report: Report) -> None:
        """Take note of a round; every W rounds the pacer raises T if utility has fallen."""
        super().learn(round_, population, report)
        self.seen.reach(len(population.ages))
        window = self.oort.window
        now = float(self.worth(report.clients, population.sizes).sum()) if len(report.clients) else 0.0
        self._brought = np.append(self._brought, now)[-2 * window :]
        looks = len(self._brought) == 2 * window and round_ % window == 0
        if looks and self._brought[:window].sum() > self._brought[window:].sum():
            self.pace = min(1.0, self.pace + self.oort.pacing)

    def describe(self) -> dict[str, Any]:
        """Return Oort's constants."""
        return asdict(self.oort)

    def state_dict(self) -> State:
        """Add the pacer's state."""
        return {**super().state_dict(), "oort-pace": np.array([self.pace]), "oort-brought": self._brought}

    def load_state_dict(self, state: State) -> None:
        """Restore :meth:`state_dict`."""
        super().load_state_dict(state)
        self.pace, self._brought = float(state["oort-pace"][0]), state["oort-brought"].copy()
