"""Results of learning curves: how much earlier or later a policy learns, how steadily, and a claim's verdict."""

import numpy as np

from aoi_fl.lab.experiments.harness.base import by_seed, grouped
from aoi_fl.lab.experiments.harness.findings import Table
from aoi_fl.lab.experiments.harness.stats import difference, interval, paired_curves, ratio
from aoi_fl.lab.experiments.harness.times import NOT_BY_ALL, earlier, levels, reached, shift, sooner
from aoi_fl.lab.experiments.harness.verdicts import side, undecided
from aoi_fl.lab.experiments.papers.paper_claims import HEADLINE, MEMORYLESS

POLICIES = ("random", "proportional", "oldest-age", "markov-optimal", "markov-increasing")
# Beside the papers' policies: names of units, with the run keys that they stand for.
OURS = {
    "markov size": {"policy": "markov-optimal", "weights": "size"},
    "systematic size": {"policy": "systematic", "weights": "size"},
}
VARIANTS = {MEMORYLESS: {"policy": "markov-optimal", "max-age": 0}, **OURS}
BASE = "random"  # what the others are compared with, seed by seed
_LAST = 10  # rounds, over which the accuracy at the end is a mean
_CENSORED = 6  # seeds, below which no paired test of censored times can decide
_LEAST = 6  # rounds, for the spread of the changes in the later half


def curves_of(rows, split, policies=(*POLICIES, *VARIANTS)):
    """Return the curves of some policies under one partition, in pairs, up to the last round that all have.

    A run whose model diverged has its last accuracy from then on.
    """
    these = [row for row in rows if row["partition"] == split and row["policy"] in policies]
    runs = grouped(these, "policy", "seed").values()
    longest = max((row["round"] for row in these), default=0)
    last = min((run[-1]["round"] for run in runs if not _lost(run)), default=longest)
    kept = [run[-1] | {"round": n} for run in runs if _lost(run) for n in range(run[-1]["round"] + 1, last + 1)]
    shown = [row for row in these if row["round"] <= last]
    return paired_curves(shown + kept, "policy", policies, "accuracy")


def _lost(run):
    """Return whether a run ended since its model had diverged, so that no update was valid."""
    return run[-1].get("trained") == 0


def diverged(rows, split, policies):
    """Return by policy with how many of its seeds the model diverged, so that at the end no update was valid."""
    found = {}
    for policy in policies:
        runs = by_seed(rows, partition=split, policy=policy).values()
        if lost := sum(map(_lost, runs)):
            found[policy] = f"{lost} of {len(runs)}"
    return found


def table_of(split, curves, target):
    """Return what each policy needs to learn under one partition, beside random selection in pairs."""
    span, last = levels(target), curves[BASE].shape[1]
    head = [
        "policy",
        f"rounds to {target:.0%}, mean",
        "these beside random's",
        f"rounds later than random at {span[0]:.1%} to {span[-1]:.1%}",
        "mean accuracy above random",
        f"accuracy after round {last}",
    ]
    rows = []
    for policy, curve in curves.items():
        times, gain = reached(curve, target), curve - curves[BASE]
        own = policy == BASE
        moved = shift(curve, curves[BASE], target)
        rows.append(
            [
                policy,
                f"{times.mean():.1f}"
                if np.isfinite(times).all()
                else f"reached by {np.isfinite(times).sum()} of {len(times)} seeds",
                "" if own else _later(times, reached(curves[BASE], target)),
                "" if own else NOT_BY_ALL if moved is None else moved.show(1),
                "" if own else interval(100 * gain.mean(axis=1)).show(2, " points"),
                interval(100 * curve[:, -1]).show(2, " %"),
            ]
        )
    return Table(f"{split}, {len(curves[BASE])} seed{'s' if len(curves[BASE]) > 1 else ''}", head, rows)


def measured(said, rows, model):
    """Judge a claim by the paired seeds of its two policies; None without any.

    Speed is judged by the time shift over the levels below the claim's target and by the rounds to it; for runs that
    end before, by the paired test of censored times. Steadiness is judged by the changes from round to round, the
    headline by the ratio of the rounds.
    """
    curves = curves_of(rows, said.partition, (said.policy, said.base))
    if len(curves) < 2:
        return None
    ours, base = curves[said.policy], curves[said.base]
    times, others = reached(ours, said.level), reached(base, said.level)
    if said.kind == "steadiness":
        told, verdict = _steadiness(said, ours, base)
    elif said.kind == "accuracy":
        more = interval(100 * (ours[:, -_LAST:] - base[:, -_LAST:]).mean(axis=1))
        end = f"{more.show(3)} points above {said.base}'s {100 * float(base[:, -_LAST:].mean()):.2f}"
        told, verdict = f"mean accuracy of the last {_LAST} rounds: {end}", side([more], 1)
    elif said.kind == "headline" and np.isfinite([times, others]).all():
        told, verdict = _headline(said, times, others)
    else:
        told, verdict = _sooner(said, rows, ours, base, times, others)
    return f"{model}, {len(ours)} seed{'s' if len(ours) > 1 else ''}, {told}", verdict


def _sooner(said, rows, ours, base, times, others):
    """Judge by how much sooner a policy learns."""
    all_there, some = np.isfinite([times, others]).all(), np.isfinite([times, others]).any()
    moved, span = shift(ours, base, said.level), levels(said.level)
    if said.kind == "headline":  # by which share is not known
        verdict = undecided(len(times), _CENSORED) if some else "not run"
    elif all_there and moved is not None:
        verdict = side([moved, difference(times, others)], -1)
    else:
        verdict = sooner(ours, base, said.level)
    told = [] if moved is None else [f"{span[0]:.1%} to {span[-1]:.1%}: {moved.show(1)} rounds later"]
    if all_there:
        told.append(f"{said.level:.0%}: {_later(times, others)} against {said.base}'s {others.mean():.1f}")
    else:
        counts = [f"{int(np.isfinite(t).sum())} of {len(t)}" for t in (times, others)]
        test = f", paired test of censored times p = {earlier(times, others).chance:.2g}" if some else ""
        told.append(
            f"{said.level:.0%} within {ours.shape[1]} rounds: {said.policy} with {counts[0]} seeds, {said.base} with "
            f"{counts[1]}{test}; mean accuracy {interval(100 * (ours - base).mean(axis=1)).show(2)} points higher"
        )
    if said.judged and said.kind == "rounds":
        theirs = [reached(curve, said.target) for curve in (ours, base)]
        if np.isfinite(theirs).all():
            means = " rounds against ".join(f"{each.mean():.1f}" for each in theirs)
            told.append(f"the paper's {said.target:.0%}: {means}")
    control = curves_of(rows, said.partition, (said.policy, MEMORYLESS))
    alike = shift(control[said.policy], control[MEMORYLESS], said.level) if len(control) == 2 else None
    if alike and said.base != MEMORYLESS:
        told.append(f"{alike.show(1)} rounds against the control, of equal weights too, but without ages")
    return "; ".join(told), verdict


def _steadiness(said, ours, base):
    if ours.shape[1] < _LEAST:
        return f"{ours.shape[1]} rounds are too few", "not run"
    more = interval(100 * (jumps(ours) - jumps(base)))
    return (
        "standard deviation of the change from round to round, later half: "
        f"{more.show(3)} points more than {said.base}'s {100 * float(jumps(base).mean()):.3f}",
        side([more], -1),
    )


def _headline(said, times, others):
    """Judge the share of the rounds by which a target is reached earlier: within the claim, or outside."""
    found = ratio(times, others)
    least, most = (1 - share for share in reversed(HEADLINE))
    verdict = undecided(len(times))
    if least <= found.low and found.high <= most:
        verdict = "holds"
    elif found.low > most or found.high < least:
        verdict = "refuted"
    return f"rounds to {said.level:.0%}: {found.percent()} against {said.base}'s", verdict


def jumps(curve):
    """Return (seeds,) the standard deviation of the accuracy's change from round to round, in the later half."""
    later = curve[:, curve.shape[1] // 2 :]
    return np.diff(later, axis=1).std(axis=1)


def _later(times, others):
    """Write by how many rounds, and by what share, times are later than others."""
    if not np.isfinite([times, others]).all():
        return f"{NOT_BY_ALL}, p = {earlier(times, others).chance:.2g}"
    return f"{difference(times, others).show(1)} rounds, {ratio(times, others).percent()}"
