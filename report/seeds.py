"""Settings: runs that differ in their seed alone, with mean and interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aoi_fl.config.policies import KEYS, is_policy, row_of
from aoi_fl.report import measure
from aoi_fl.report.provenance import OF_THE_MACHINE, public
from aoi_fl.report.runs import Run

Curve = tuple[ArrayLike, ArrayLike]  # x ascending, and y
_OF_THE_RUN = ("seed", *OF_THE_MACHINE)
_FOLLOW_POLICY = ("coordination", "weights", "clients-per-round")  # the preset sets them by the policy
LEAST_SEEDS = 3  # with fewer an interval says nothing: 12.7 standard errors with two


@dataclass(frozen=True)
class Setting:
    """One or more runs of one configuration, each by a seed of its own.

    Attributes
    ----------
    label : name shown on the page
    runs : ascending in their place on the page
    """

    label: str
    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """The run that stands for all in what no seed changes: the policy, its theory, the budget."""
        return self.runs[0]

    @property
    def name(self) -> str:
        """The label without the number of seeds."""
        return self.label.removesuffix(_counted(self.runs))

    @property
    def note(self) -> str:
        """Which seed a chart of one run shows; empty for a setting of one run."""
        if len(self.runs) == 1:
            return ""
        return f" Seed {self.first.config['seed']}. The other {len(self.runs) - 1} have pages of their own."


def settings(runs: Sequence[Run]) -> list[Setting]:
    """Group the runs by configuration; a run without a seed, or with a repeated one, stands alone."""
    found: dict[object, list[Run]] = {}
    for i, run in enumerate(runs):
        key = repr(sorted((k, v) for k, v in run.config.items() if k not in _OF_THE_RUN))
        together = found.setdefault(key, [])
        seeds = [other.config.get("seed") for other in (*together, run)]
        (together if None not in seeds and len(set(seeds)) == len(seeds) else found.setdefault(i, [])).append(run)
    kept = [together for together in found.values() if together]
    keys = factors([together[0].config for together in kept])
    labels = [a[0].label if len(a) == 1 else f"{named(a[0].config, keys)}{_counted(a)}" for a in kept]
    return [Setting(label, tuple(together)) for label, together in zip(labels, kept, strict=True)]


def factors(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys in which configurations differ, but for those that follow from the policy and the seed."""
    keys = sorted(set().union(*configs) - set(_OF_THE_RUN), key=lambda key: (key != "policy", key))

    def values(*names: str) -> int:
        return len({repr([config.get(name) for name in names]) for config in configs})

    differing = [key for key in keys if values(key) > 1]
    follow = [key for key in _FOLLOW_POLICY if values("policy", key) == values("policy")]
    return [key for key in differing if key not in follow] or ["policy"]


def named(config: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the name of a configuration: the values of those keys that its policy uses."""
    policy = str(config.get("policy"))
    used = [k for k in keys if k in config and (k not in KEYS or not is_policy(policy) or k in row_of(policy).keys)]
    words = (public(key, config[key]) if key == "policy" else f"{key} {public(key, config[key])}" for key in used)
    return ", ".join(words) or "one setting"


def _counted(runs: Sequence[Run]) -> str:
    return f" ({len(runs)} seeds)" if len(runs) > 1 else ""


def quantile(count: int) -> float:
    """Return t of the 95 % interval from so many seeds (Student 1908); infinite for one."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 0.975)) if count > 1 else float("inf")


def average(curves: Sequence[Curve]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return where all curves have a value, their mean there, and half the width of its 95 % interval, (m,) each.

    Examples
    --------
    >>> x, mean, half = average([([1, 2], [0.0, 4.0]), ([2, 3], [6.0, 1.0])])
    >>> x.tolist(), mean.tolist(), half.round(2).tolist()
    ([2.0], [5.0], [12.71])
    """
    xs = [np.asarray(x, dtype=np.float64) for x, _ in curves]
    common = xs[0]
    for x in xs[1:]:
        common = common[np.isin(common, x)]
    ys = np.array([np.asarray(y, dtype=np.float64)[np.isin(x, common)] for x, (_, y) in zip(xs, curves, strict=True)])
    mean = ys.mean(axis=0)
    if len(curves) == 1:
        return common, mean, np.zeros(len(common))
    return common, mean, quantile(len(curves)) * ys.std(axis=0, ddof=1) / np.sqrt(len(curves))


def sentences(settings: Sequence[Setting]) -> list[str]:
    """Return how sure the results are: a sentence or two for each setting of several seeds, and one for single runs."""
    lines = []
    for setting in settings:
        main = measure.judge(setting.runs[0].rounds)
        ends = [end for run in setting.runs if (end := main.end(run)) is not None]
        if len(ends) < 2:
            continue
        values = main.scaled(np.array(ends))
        line = f"{setting.label}: {main.name} at the end from {values.min():.4g} to {values.max():.4g}{main.unit}"
        if len(ends) < LEAST_SEEDS:
            lines.append(f"{line}. An interval needs {LEAST_SEEDS} seeds.")
            continue
        spread, t = float(values.std(ddof=1)), quantile(len(ends))
        half = t * spread / np.sqrt(len(ends))
        mean = float(values.mean())
        low, high = max(mean - half, 0.0), min(mean + half, main.most)  # what is possible
        alone = t * spread * np.sqrt(1 + 1 / len(ends))
        lines.append(
            f"{line}, mean {mean:.4g} [{low:.4g}, {high:.4g}] at 95 %. A single seed is uncertain by "
            f"±{alone:.2g}{main.unit}, so a smaller difference between two runs may be chance."
        )
    single = [setting.label for setting in settings if len(setting.runs) == 1]
    if single and len(settings) > 1:
        lines.append(
            f"One seed only: {', '.join(single)}. Small differences may be chance. More seeds give an interval: "
            "aoi compare A,B --seeds 5."
        )
    return lines
