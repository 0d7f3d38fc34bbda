"""Settings, which are groups of runs with different seeds, with means and intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aoi_fl.config.policies import KEYS, REGISTRY, Keys, is_policy
from aoi_fl.report.judging import quantile
from aoi_fl.report.measure import LedgerMeasure, judge
from aoi_fl.report.provenance import OF_THE_MACHINE, public
from aoi_fl.report.runs import RecordedRun
from aoi_fl.science.load import LoadMetrics
from aoi_fl.science.types import Floats

Curve = tuple[ArrayLike, ArrayLike]  # x ascending, and y
OF_THE_RUN = ("seed", *OF_THE_MACHINE)
_FOLLOW_POLICY = ("coordination", "weights", "clients-per-round")  # the preset sets them by the policy


@dataclass(frozen=True)
class Setting:
    """One or more runs of one configuration with different seeds.

    Attributes
    ----------
    label : name shown on the page
    runs : the runs, in the page's order
    """

    label: str
    runs: tuple[RecordedRun, ...]

    @property
    def first(self) -> RecordedRun:
        """The first run; all have the same policy, theory and budget."""
        return self.runs[0]

    @property
    def name(self) -> str:
        """The label without the number of seeds."""
        return self.label.removesuffix(_counted(self.runs))

    @property
    def status(self) -> str:
        """The states of the runs."""
        return ", ".join(dict.fromkeys(run.status for run in self.runs))

    @property
    def measure(self) -> LedgerMeasure:
        """The main measure of the first run."""
        return judge(self.first.rounds)

    @property
    def ends(self) -> dict[object, float]:
        """The last displayed value of the main measure for each seed that has one."""
        ends = {run.config.get("seed", i): self.measure.end(run) for i, run in enumerate(self.runs)}
        return {seed: float(self.measure.scaled(end)) for seed, end in ends.items() if end is not None}

    @property
    def loads(self) -> list[LoadMetrics]:
        """The load of each run that is not empty."""
        return [run.measured for run in self.runs if not run.empty]

    def values(self, of: Callable[[RecordedRun], float | None]) -> list[float]:
        """Return a number of each run, without those that are missing or not finite."""
        return [value for value in map(of, self.runs) if value is not None and np.isfinite(value)]

    def mean(self, of: Callable[[RecordedRun], float | None]) -> float | None:
        """Return the mean of a number over the runs, or None."""
        values = self.values(of)
        return float(np.mean(values)) if values else None

    @property
    def note(self) -> str:
        """The seed of a chart that shows one run; empty for a setting of one run."""
        if len(self.runs) == 1:
            return ""
        return f" Seed {self.first.config['seed']}. The other {len(self.runs) - 1} have pages of their own."


def settings(runs: Sequence[RecordedRun]) -> list[Setting]:
    """Group runs by configuration; a run with no seed, or a repeated one, is a setting alone.

    Examples
    --------
    >>> def labels(*configs):
    ...     runs = [RecordedRun(str(i), {"config": config}, [], [], []) for i, config in enumerate(configs)]
    ...     return [setting.label for setting in settings(runs)]
    >>> labels(*({"seed": seed, "alpha": alpha} for seed in (1, 2) for alpha in (0.1, 0.6)))
    ['alpha 0.1 (2 seeds)', 'alpha 0.6 (2 seeds)']
    >>> labels({"seed": 1, "run-name": "a"}, {"seed": 2, "run-name": "b"})  # names are no settings
    ['one setting (2 seeds)']
    >>> labels({"seed": 1}, {"seed": 1}), labels({"seed": 1}, {})  # one seed that ran twice, and an unknown one
    (['0', '1'], ['0', '1'])
    >>> follow = {"random": ("auto", "auto"), "systematic": ("reserve", "size")}  # what the preset sets by the policy
    >>> labels(
    ...     *(
    ...         {"policy": policy, "seed": seed, "coordination": coordination, "weights": weights}
    ...         for policy, (coordination, weights) in follow.items()
    ...         for seed in (1, 2)
    ...     )
    ... )
    ['random (2 seeds)', 'systematic (2 seeds)']
    """
    groups: dict[object, list[RecordedRun]] = {}
    for i, run in enumerate(runs):
        key = repr(sorted((k, v) for k, v in run.config.items() if k not in OF_THE_RUN))
        together = groups.setdefault(key, [])
        seeds = [other.config.get("seed") for other in (*together, run)]
        (together if None not in seeds and len(set(seeds)) == len(seeds) else groups.setdefault(i, [])).append(run)
    kept = [together for together in groups.values() if together]
    keys = factors([together[0].config for together in kept])
    labels = [a[0].label if len(a) == 1 else f"{named(a[0].config, keys)}{_counted(a)}" for a in kept]
    return [Setting(label, tuple(together)) for label, together in zip(labels, kept, strict=True)]


def factors(configs: Sequence[Keys]) -> list[str]:
    """Return the keys in which configurations differ, except seed and keys set by the policy."""
    keys = sorted(set().union(*configs) - set(OF_THE_RUN), key=lambda key: (key != "policy", key))

    def values(*names: str) -> int:
        return len({repr([config.get(name) for name in names]) for config in configs})

    differing = [key for key in keys if values(key) > 1]
    follow = [key for key in _FOLLOW_POLICY if values("policy", key) == values("policy")]
    return [key for key in differing if key not in follow] or ["policy"]


def named(config: Keys, keys: Sequence[str]) -> str:
    """Return a configuration's name from the values of the keys that its policy uses."""
    policy = str(config.get("policy"))
    used = [k for k in keys if k in config and (k not in KEYS or not is_policy(policy) or k in REGISTRY[policy].keys)]
    words = (public(key, config[key]) if key == "policy" else f"{key} {public(key, config[key])}" for key in used)
    return ", ".join(words) or "one setting"


def _counted(runs: Sequence[RecordedRun]) -> str:
    return f" ({len(runs)} seeds)" if len(runs) > 1 else ""


def average(curves: Sequence[Curve]) -> tuple[Floats, Floats, Floats]:
    """Return x common to all curves, their mean, and half the 95 % interval's width, (m,) each.

    Examples
    --------
    >>> x, mean, half = average([([1, 2], [0.0, 4.0]), ([2, 3], [6.0, 1.0])])
    >>> x.tolist(), mean.tolist(), half.round(2).tolist()
    ([2.0], [5.0], [12.71])
    >>> average([([0, 0], [1.0, 2.0]), ([0, 0], [3.0, 4.0])])[1].tolist()  # marks of a run without length
    [2.0, 3.0]
    """
    xs = [np.asarray(x, dtype=np.float64) for x, _ in curves]
    common = xs[0][np.all([np.isin(xs[0], x) for x in xs], axis=0)]
    ys = np.array([np.asarray(y, dtype=np.float64)[np.isin(x, common)] for x, (_, y) in zip(xs, curves, strict=True)])
    mean = ys.mean(axis=0)
    if len(curves) == 1:
        return common, mean, np.zeros(len(common))
    return common, mean, quantile(len(curves)) * ys.std(axis=0, ddof=1) / np.sqrt(len(curves))
