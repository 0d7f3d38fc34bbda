"""The page of an arena: each policy's learning, work and load beside random selection, in tables and a picture."""

import math

import numpy as np

from aoi_fl.lab.experiments.harness.base import by_seed, grouped
from aoi_fl.lab.experiments.harness.findings import Table
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.times import NOT_BY_ALL, earlier

BASE = "random"
_LATE = ("refl:late-rounds=5", "random:late-rounds=5")
_NONE = "–"
_ABOVE = "points above random"
_WORK = (
    "policy",
    "updates a round",
    "device-hours",
    "% in vain (least to most)",
    "% never reached of those there",
    "Var[X], rounds² (E[X], rounds; √Var[X]/E[X])",
    "Jain's index of those there",
    "seconds a round",
)


def tables_of(rows, levels, clients):
    """Return each policy's learning, in pairs with random selection, and its work and load.

    ``levels`` are the accuracies of ``reached_lower`` and ``reached_upper``; ``clients`` is n, available or not.
    """
    lower, upper = (f"{100 * level:g} %" for level in levels)
    usual, there = runs_of(rows, BASE), _there(rows)
    learning, work = [], []
    for policy in grouped(rows, "policy"):
        runs, against, entrant = runs_of(rows, policy), () if policy == BASE else usual, policy.replace(":", ", ")
        final, above = interval([100 * final for final in _told(runs, "final")]), interval(_points_above(runs, against))
        updates, hours, missed, jain, seconds = (
            interval(values).show(digits)
            for values, digits in (
                ([run["updates"] for run in runs], 1),
                ([run["worked"] / 3600 for run in runs], 1),
                ([_missed(run, clients, there) for run in runs], 1),
                ([run["jain"] * clients / there[run["seed"]] for run in runs], 2),
                ([run["seconds_a_round"] for run in runs], 1),
            )
        )
        reached = _minutes(runs, "reached_lower"), _later(runs, against), _minutes(runs, "reached_upper", against)
        learning.append([entrant, *reached, final.show(2), above.show(2)])
        work.append([entrant, updates, hours, _wasted(runs), missed, _waits(runs), jain, seconds])
    about = ", means over seeds with 95 % intervals"
    head = (f"minutes to {lower}", "minutes later than random", f"minutes to {upper}", "final accuracy, %", _ABOVE)
    return Table(f"Learning{about}", ("policy", *head), learning), Table(f"Work and load{about}", _WORK, work)


def beside_refl(rows):
    """Return REFL's delay against random selection with late updates, the worth of its choice."""
    later = _later(*(runs_of(rows, policy) for policy in _LATE), " minutes")
    return "" if later == _NONE else f"Than random selection with late updates too, REFL is later by {later}."


def within_reach(rows, sent):
    """Return how many devices are ever available, and the reachable part of each one's share of the rounds."""
    there, reach = _there(rows), {row["seed"]: row["reach"] for row in rows}
    return (
        f"Within the time {_mean(list(there.values()), 0)} of the devices ({min(there.values())} to "
        f"{max(there.values())}) are ever there, and {_mean(list(reach.values()))} of the {sent} clients a round "
        f"that are wanted ({min(reach.values()):.1f} to {max(reach.values()):.1f}) are the most that can take part "
        "where each has the same rate, since nobody can more often than it is there: Σ min(rate, share of the time "
        "there)."
    )


def _minutes(runs, level, usual=()):
    """Return the minutes to a level, or the number of runs that reach it; with a test against the usual runs."""
    reached = [seconds / 60 for seconds in _told(runs, level)]
    there = interval(reached).show(1) if len(reached) == len(runs) else f"{len(reached)} of {len(runs)}"
    if len(runs) / 2 < len(reached) < len(runs):
        there += f", median {np.median([*reached, *[math.inf] * (len(runs) - len(reached))]):.1f}"
    return there + _chance(_pairs(runs, usual, level))


def _wasted(runs):
    """Return the wasted share of the device-hours, in percent: far from normal, so from the least to the most."""
    shares = [100 * run["wasted"] / run["worked"] for run in runs if run["worked"]]
    spread = f" ({min(shares):.1f} to {max(shares):.1f})" if len(shares) > 1 else ""
    return _mean(shares) + spread


def _waits(runs):
    """Return Var[X] of the rounds between two updates of a client, and its ratio to the mean, which falls with k."""
    spread = [math.sqrt(run["variance"]) / run["interval"] for run in runs if run.get("interval")]
    return f"{interval(_told(runs, 'variance')).show(1)} ({_mean(_told(runs, 'interval'))}; {_mean(spread, 2)})"


def _mean(values, digits=1):
    return f"{sum(values) / len(values):.{digits}f}" if values else _NONE


def _there(rows):
    """Return for each seed the number of devices that are ever available."""
    return {row["seed"]: row["present"] for row in rows}


def _missed(run, clients, there):
    """Return the share of the available devices that was never reached, in percent."""
    return 100 * (1 - (1 - run["never"]) * clients / there[run["seed"]])


def _points_above(runs, usual):
    """Return by how many points of accuracy runs end above the usual of the same seed."""
    return [100 * (final - other) for final, other in _pairs(runs, usual, "final") if math.isfinite(final - other)]


def _later(runs, usual, unit=""):
    """Return the delay to the lower level against the usual of the same seed, in minutes, with a test."""
    pairs = _pairs(runs, usual, "reached_lower")
    if not pairs:
        return _NONE
    minutes = interval([(ours - theirs) / 60 for ours, theirs in pairs])
    return (minutes.show(1, unit) if np.isfinite(pairs).all() else NOT_BY_ALL) + _chance(pairs)


def _pairs(runs, usual, column):
    """Return a column of runs, ours and the usual, of the seeds that both have; infinite where it is missing."""
    ours, theirs = ({r["seed"]: math.inf if r[column] is None else r[column] for r in of} for of in (runs, usual))
    return [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]


def _chance(pairs):
    """Write the p of the paired test of censored times, for which it takes two pairs."""
    return f", p = {earlier(*np.array(pairs).T).chance:.2g}" if len(pairs) > 1 else ""


def _told(runs, column):
    """Return a column of the runs that have it."""
    return [run[column] for run in runs if run.get(column) is not None]


def runs_of(rows, policy):
    """Return a row for each run of a policy."""
    return [run[-1] for run in by_seed(rows, policy=policy).values()]
