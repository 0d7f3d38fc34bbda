"""Paired comparison of recorded runs: load and learning, with 95 % intervals and a word for each pair of settings."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from aoi_fl.config.policies import KEYS, REGISTRY
from aoi_fl.lab.experiments.harness.times import earlier, reached
from aoi_fl.protocol import coding
from aoi_fl.report.judging import EQUAL, LEAST_SEEDS, Pair, RunFinding, difference, judged, quantile
from aoi_fl.report.measure import judge, worst_tenth
from aoi_fl.report.provenance import public
from aoi_fl.report.runs import PRODUCED, RecordedRun
from aoi_fl.report.seeds import OF_THE_RUN, factors, settings
from aoi_fl.report.seeds import named as labelled
from aoi_fl.science.errors import ConfigError

LOAD, JAIN, END, WORST = "variance of X", "Jain's index", "at the end", "of the worst tenth of clients"
# What a run spends until it reaches the target; minutes replace rounds where time is simulated.
TIME, CLOCK, UPDATES, TRAFFIC, WORK = (
    f"{unit} to target" for unit in ("rounds", "minutes", "updates", "MB", "device-hours")
)
_SHARE = 0.05  # margin of the variance, relative to random selection, and of a cost, relative to the run's
_JAIN = 0.01
_NOTHING = 1e-9  # smaller differences are rounding errors of zero
_MOST = 6  # settings that are all compared with one another
_ROUNDING = 1 / 6  # variance of the difference of two times that are rounded up to whole rounds
_AGREED = ("dataset", "target", "clock", "num-server-rounds", "until", "evaluate-every")


class _Quantity(NamedTuple):
    """How a quantity is judged."""

    name: str  # on the page
    margin: float  # within which two settings count as equal
    wanted: int = -1  # 1: more is better
    least: float = 0.0  # smallest half width of an interval: a test example's share
    rounding: float = 0.0  # variance of the difference of two rounded times
    points: bool = False


@dataclass(frozen=True)
class Comparison:
    """The result of runs: a row a run, and conclusions on pairs of settings that differ in one thing.

    Attributes
    ----------
    yardstick : the metric of the best constant prediction: the most common class, or the mean; None: not recorded
    worst : the clients of each setting's worst tenth, each with its mean over the seeds, worst first
    """

    target: float
    rows: tuple[dict[str, Any], ...]
    pairs: tuple[Pair, ...]
    yardstick: float | None
    worst: Mapping[str, Mapping[str, float]]


def compare(runs: Sequence[RecordedRun], target: float | None = None) -> Comparison:
    """Compare the settings of complete runs in pairs of equal seeds; the later of a pair is judged against the earlier.

    Two settings form a pair if they differ in one thing. If that leaves a setting out, all form pairs. Of more than
    six settings, each forms a pair with the first. ``target`` is a level of the accuracy, or of the RMSE; by default
    the best one that every run reaches.

    Raises ConfigError for runs that are incomplete, of different data sets or lengths, without a seed, or of one
    setting.
    """
    runs = recorded(runs)
    check(runs)
    if judge(runs[0].rounds).field == "accuracy":
        check_accuracy(target)
    groups = named(runs)
    level = common_level(runs) if target is None else target
    keys = factors([group.first.config for group in groups])
    pairs = list(itertools.combinations(groups, 2)) if len(groups) <= _MOST else [(groups[0], g) for g in groups[1:]]
    near = [
        pair for pair in pairs if sum(pair[0].first.config.get(k) != pair[1].first.config.get(k) for k in keys) == 1
    ]
    rows = tuple(row for group in groups for row in _rows(group, level))
    paired = {setting.label for pair in near for setting in pair}
    chosen = near if len(paired) == len(groups) <= _MOST else pairs
    compared = tuple(_pair(a, b, level, keys) for a, b in chosen)
    worst = {group.label: found for group in groups if (found := worst_tenth(group.runs))}
    return Comparison(level, rows, compared, runs[0].about.get("yardstick"), worst)


def recorded(runs):
    """Give each run of ``record``, which has no seed, the setting of its policy, and its place there as seed."""
    found, seen = [], Counter[str]()
    for run in runs:
        if run.config.get("seed") is None and run.policy.get("kind"):
            own = {key: value for key, value in run.policy.items() if isinstance(value, str | int | float)}
            config = {**own, **run.config, "policy": own.pop("kind")}
            seen[name := repr(config)] += 1
            run = replace(run, about={**run.about, "config": {**config, "seed": seen[name]}})
        found.append(run)
    return found


def by_arms(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Name each run that is alone in its setting as this setting."""
    runs = recorded(runs)
    names = {group.first.label: group.label for group in named(runs) if len(group.runs) == 1}
    return [replace(run, label=names.get(run.label, run.label)) for run in runs]


def check_accuracy(target: float | None) -> None:
    """Raise ConfigError for a target that no accuracy reaches."""
    if target is not None and target > 1:
        remedy = f"Give --target {target / 100:g}." if target <= 100 else "Give for instance --target 0.95."
        raise ConfigError("target", target, "an accuracy of at most 1", remedy)


def check(runs):
    """Raise ConfigError for runs that do not go together."""
    for run in runs:
        if run.status != "completed":
            raise ConfigError(
                f"the run {run.label}", run.status, "completed", "Complete it with aoi resume, or leave it out."
            )
        if run.config.get("seed") is None:
            raise ConfigError(
                f"seed of the run {run.label}", None, "known, so that the run is part of a pair", "Leave the run out."
            )
    for key in _AGREED:
        values = {str(public(key, run.config.get(key) or "")): run.label for run in runs}
        if len(values) > 1:
            (one, of_one), (two, of_two) = list(values.items())[:2]
            raise ConfigError(
                f"{key} of the run {of_two}", two, f"{one}, as in the run {of_one}", "Compare runs that agree in it."
            )
    if len(settings(runs)) < 2:
        raise ConfigError("runs", len(runs), "of two settings or more", "Add runs of another policy or value.")


def named(runs):
    """Return the settings, each named by its policy and its differing keys."""
    groups = settings(runs)
    keys = factors([group.first.config for group in groups])
    return [replace(group, label=labelled(group.first.config, keys)) for group in groups]


def common_level(runs):
    """Return the best level that every run reaches, in whole per cent for an accuracy; NaN without evaluations."""
    sign, curves = _sign(runs[0]), [_curve(run) for run in runs]
    if any(not np.isfinite(curve).any() for curve in curves):
        return math.nan
    level = min(float(np.nanmax(curve)) for curve in curves)
    return math.floor(100 * level + 1e-9) / 100 if sign > 0 else -level


def _sign(run):
    return -1 if judge(run.rounds).least else 1


def _curve(run):
    """Return (R,) what the run is judged by after each round, larger is better, NaN where it was not evaluated."""
    return _sign(run) * run.column(judge(run.rounds).column)


def _spent(run):
    """Return what a run has spent after each round: time, updates, traffic of the model and work, each (R,)."""
    sent, updates, seconds = ({row["round"]: 0.0 for row in run.rounds} for _ in range(3))
    everywhere = run.config.get("coordination") == "broadcast"
    for row in run.rounds if everywhere else ():
        sent[row["round"]] = row.get("asked") or 0
    for part in run.participations:
        round_, outcome = part["round"], part["outcome"]
        sent[round_] += outcome != "declined" and not everywhere
        updates[round_] += outcome in PRODUCED
        seconds[round_] += part.get("device_seconds") or 0.0
    found = {TIME: np.arange(1.0, len(run.rounds) + 1)}
    if run.config.get("clock"):
        found = {CLOCK: run.column("clock") / 60, WORK: np.cumsum([*seconds.values()]) / 3600}
    found[UPDATES] = np.cumsum([*updates.values()])
    if size := run.about.get("model_bytes"):
        head = str(run.config.get("compression") or coding.NONE)
        share = coding.code_type(head, np.dtype(np.float32)).itemsize / 4
        found[TRAFFIC] = (np.cumsum([*sent.values()]) + share * found[UPDATES]) * size / 1e6
    return found


def _values(run, level):
    variance = run.measured.interval_variance
    end, curve = judge(run.rounds).end(run), _curve(run)[None, :]
    worst = list(worst_tenth([run]).values())
    return {
        LOAD: math.nan if variance is None else variance,
        JAIN: run.measured.participation.jain,
        **{name: float(reached(curve, _sign(run) * level, spent[None, :])[0]) for name, spent in _spent(run).items()},
        END: math.nan if end is None else end,
        **({WORST: float(np.mean(worst))} if worst else {}),
    }


def _rows(group, level):
    return [
        {
            "setting": group.label,
            "seed": run.config["seed"],
            **{k: v if math.isfinite(v) else None for k, v in _values(run, level).items()},
            "run": run.label,
        }
        for run in group.runs
    ]


def _pair(first, second, level, keys):
    ours = {int(run.config["seed"]): run for run in second.runs}
    base = {int(run.config["seed"]): run for run in first.runs}
    seeds = tuple(sorted(ours.keys() & base.keys()))
    if not seeds:
        allowed = f"some of {sorted(base)}, those of {first.label}"
        raise ConfigError(f"seeds of {second.label}", str(sorted(ours)), allowed, "Run both with the same seeds.")
    measured = [(_values(ours[seed], level), _values(base[seed], level)) for seed in seeds]
    findings = []
    for key, quantity in _quantities(first.first, level).items():
        if all(key in values for pair in measured for values in pair):
            ours_, base_ = (np.array([values[key] for values in of]) for of in zip(*measured, strict=True))
            findings.append(_finding(quantity, ours_, base_))
    differing = _differences(second.first, first.first, keys)
    return Pair(first.label, second.label, seeds, tuple(findings), differing)


def _quantities(run, level):
    """Return how each quantity is judged beside a run; the load's margin is a share of random selection's variance."""
    main, stride, end = judge(run.rounds), run.measured.interval_mean or math.nan, run.column(judge(run.rounds).column)
    steps = int(run.config.get("evaluate-every") or 1) / len(run.rounds)  # between two evaluations
    learned = EQUAL if not main.least else 0.01 * float(np.nanmean(end)) if np.isfinite(end).any() else 0.0
    found = {LOAD: _Quantity(LOAD, _SHARE * stride * (stride - 1)), JAIN: _Quantity(JAIN, _JAIN, 1)}
    for name, spent in _spent(run).items():
        whole, shown = float(spent[-1]), f"{name.split()[0]} to {_level(main, level)}"
        margin = max(float(name in (TIME, CLOCK)), _SHARE * whole)
        found[name] = _Quantity(shown, margin, rounding=(steps * whole) ** 2 * _ROUNDING)
    for name, examples in ((END, 1), (WORST, 10)):
        least = main.grain(run) * examples
        found[name] = _Quantity(f"{main.name} {name}", learned, _sign(run), least, points=not main.least)
    return found


def _differences(ours, base, keys):
    """Return the effective values of two runs in keys that both use and that their names do not show."""
    found = {}
    for key in sorted(ours.config.keys() & base.config.keys() - {"policy", *keys, *OF_THE_RUN}):
        values = _effective(ours, key), _effective(base, key)
        if None not in values and values[0] != values[1]:
            found[key] = (str(values[0]), str(values[1]))
    return found


def _effective(run, key):
    """Return the value of a key as the run used it; None: its policy does not use it."""
    row = REGISTRY.get(str(run.config.get("policy")))
    if key in KEYS and row is not None and key not in row.keys:
        return None
    value = str(public(key, run.config[key]))
    if key == "weights" and value == "auto":
        return "the policy's own" if row is None else row.weight.removeprefix("data ")
    return value


def _level(main, level):
    """Write a level with as many digits as it has: 95 %, 99.9 %."""
    share = main.unit and math.isfinite(level)
    return f"{round(100 * level, 6):g}{main.unit}" if share else main.show(level)


def _finding(of, ours, base):
    """Judge a quantity, (seeds,) of both; times may be censored at the end of the run."""
    finding = RunFinding(of.name, None, of.margin, "no conclusion", points=of.points)
    if np.isnan([ours, base]).any():
        return replace(finding, note="is not measured in every run")
    if not np.isfinite([ours, base]).all():
        there = [int(np.isfinite(times).sum()) for times in (ours, base)]
        note = f"reached by {there[0]} of {len(ours)} runs against {there[1]} of {len(base)} (censored)"
        if len(ours) < LEAST_SEEDS or not any(there):
            return replace(finding, note=note)
        words = {"holds": "better", "refuted": "worse"}  # by a paired test of ranks
        return replace(finding, note=note, word=words.get(earlier(ours, base).verdict, "not distinguishable"))
    found = difference(np.where(np.abs(ours - base) < _NOTHING, base, ours), base)
    rounded = quantile(found.count) * math.sqrt(of.rounding / found.count) if found.count > 1 else 0.0
    found = replace(found, half=max(found.half, of.least, rounded))
    return replace(finding, difference=found, word=judged(found, of.margin, of.wanted))
