"""What the runs on unequal data show: who is later or earlier than random selection, and at what load."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aoi_fl.experiments.harness import setting
from aoi_fl.experiments.harness.base import Conclusion, Row, Table
from aoi_fl.experiments.harness.drawing import COLOURS, SIZE
from aoi_fl.experiments.harness.pages import listed
from aoi_fl.experiments.harness.stats import Interval, interval, ratio
from aoi_fl.experiments.harness.times import earlier, levels, reached, shift, shifts

_BASE = "random"
_TARGET = 0.97  # the levels below it, 94 to 96.9 %, were fixed after a pilot on other seeds
_EQUAL = "iid"  # the partition whose data are equal
_PANEL = 4.0  # inches that a panel is high
_HEAD = (
    "policy and weights",
    "seeds",
    "later than random at 94.0 % to 96.9 %",
    "against random at 97 %",
    "accuracy at the end above random",
    "Var[X] of intervals within the rounds, rounds²",
    "clients a round, SD",
    "pairs that met",
)


def concluded(
    rows: Sequence[Row], settings: Mapping[str, Any], policies: Sequence[str], splits: Sequence[str], seeds: int
) -> Conclusion:
    """Return a table for each partition; each policy is compared over the seeds that it and random have finished.

    The headline is of those of which all ``seeds`` that are planned have been played, under a partition.
    """
    tables = []
    moved: dict[str, dict[str, Interval]] = {}
    played = {split: {policy: _curves(rows, split, policy) for policy in policies} for split in splits}
    for split, found in played.items():
        if not found[_BASE]:
            continue
        moves = {policy: _shift(found[policy], found[_BASE]) for policy in policies}
        lines = [_line(rows, split, p, found[p], found[_BASE], moves[p]) for p in policies if found[p]]
        tables.append(Table(split, _HEAD, lines))
        if told := {p: m for p, m in moves.items() if m and p != _BASE and np.isfinite(m.half)}:
            moved[split] = told
    stride = setting.CLIENTS / setting.PER_ROUND
    sentences = (
        f"{settings['dataset']}, {settings['model']}, n=100, k=15, m=10, {settings['num-server-rounds']} rounds, seeds "
        f"from 6 on; the levels were fixed after a pilot on seeds 1 to 5. {_nearest(rows, moved, splits)}"
    ).rstrip()
    points = [
        "Trained along the selections that the simulator makes, which are those of a real run with the same seed. Ages "
        "start from the stationary law, not at 0 as in the papers.",
        "Weights: equal is 1/|S|, size d_i/Σ_S d_j, unbiased q_i/r_i on updates. Rates are in proportion to size, "
        "capped at 1; jitter is 0.2 strides.",
        "Var[X] is over the intervals that began and ended within the rounds, which leaves out long ones: random "
        f"selection's over many rounds is {stride * (stride - 1):.1f}.",
    ]
    if any(len(curves) < seeds for found in played.values() for curves in found.values()):
        points.append("What is missing was not reached, and can be played on.")
    best = [
        f"{', '.join(complete)} ({split})"
        for split, told in moved.items()
        if (complete := [f"{p} {_sooner(m).show(1)}" for p, m in told.items() if m.count >= seeds])
    ]
    headline = ""
    if best:
        headline = f"Rounds sooner than random selection at the same accuracy, MNIST, {seeds} seeds: {'; '.join(best)}."
    return Conclusion(listed(sentences, points), (), tuple(tables), headline)


def drawn(
    rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure, policies: Sequence[str], splits: Sequence[str]
) -> None:
    """Draw each policy's time shift with its interval, and each seed's as a dot, a panel for each partition."""
    found = {split: {p: c for p in policies if (c := _curves(rows, split, p))} for split in splits}
    there = [split for split in splits if _BASE in found[split]]
    names = [p for p in policies if p != _BASE and any(p in found[split] for split in there)]
    lines = max(1, -(-len(there) // 2))
    figure.set_figheight(_PANEL * lines)
    panels = figure.subplots(lines, min(len(there), 2) or 1, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[len(there) :]:
        axes.set_visible(False)
    for axes, split in zip(panels, there, strict=False):
        base = found[split][_BASE]
        axes.axvline(0, color="#404040", linewidth=1.2)
        for place, policy in enumerate(names):
            mean = _shift(found[split].get(policy, {}), base)
            if mean is None:
                continue
            colour = COLOURS[place % len(COLOURS)]
            late = shifts(*_pairs(found[split][policy], base), _TARGET)
            axes.plot(late, np.full(len(late), place + 0.2), ".", color=colour, alpha=0.6)
            axes.errorbar([mean.mean], [place], xerr=[mean.bar], capsize=3, marker="o", color=colour)
        axes.set_title(split)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("rounds later than random at 94 to 96.9 %, 95 % interval; dots: seeds", fontsize=SIZE)


def _nearest(rows: Sequence[Row], moved: Mapping[str, Mapping[str, Interval]], splits: Sequence[str]) -> str:
    """Say who comes near to the goal: no later than random anywhere, earlier on unequal data, the load even.

    Of those that were played under every partition there is and are later under none beyond chance, the one with the
    least Var[X] as it is written, under the partition where it is largest, and of several the earliest; before it the
    same of those that are earlier beyond chance, too, wherever data are unequal.

    Parameters
    ----------
    moved : by partition and policy, how many rounds later than random it is
    """
    if not moved:
        return ""

    def variance(policy: str) -> float:
        return round(max(interval(_ends(rows, split, policy, "wait_variance")).mean for split in moved), 2)

    def rank(policy: str) -> tuple[float, float]:
        return variance(policy), sum(told[policy].mean for told in moved.values())

    def shown(policy: str) -> str:
        each = (f"{_sooner(told[policy]).show(1)} ({s}, {told[policy].count} seeds)" for s, told in moved.items())
        return f"Var[X] {variance(policy):.2f} at most; rounds sooner than random: {', '.join(each)}"

    everywhere = sorted(set.intersection(*(set(told) for told in moved.values())))
    never_later = [policy for policy in everywhere if not any(told[policy].beyond(1) for told in moved.values())]
    unequal = [told for split, told in moved.items() if split != _EQUAL]
    sooner = [p for p in never_later if unequal and all(told[p].beyond(-1) for told in unequal)]
    said = [
        "The goal is a policy that is no later than random selection under any partition, earlier under the unequal "
        "ones, at the least Var[X]."
    ]
    if sooner:
        soonest = min(sooner, key=rank)
        said.append(f"Earlier wherever data are unequal, beyond chance, is {soonest} ({shown(soonest)}).")
    if never_later and (evenest := min(never_later, key=rank)) not in sooner:
        said.append(f"Later nowhere beyond chance, with the least Var[X], is {evenest} ({shown(evenest)}).")
    if not never_later:
        said.append("Each is later beyond chance under one of those played.")
    if unplayed := [split for split in splits if split not in moved]:
        said.append(f"Not played yet: {', '.join(unplayed)}.")
    return " ".join(said)


def _line(
    rows: Sequence[Row], split: str, policy: str, ours: "_Curves", base: "_Curves", moved: Interval | None
) -> list[str]:
    own, theirs = _pairs(ours, base)
    times, others = reached(own, _TARGET), reached(theirs, _TARGET)
    all_there = np.isfinite(times).all() and np.isfinite(others).all()
    at = ratio(times, others).percent() if all_there else f"not all there, p = {earlier(times, others).chance:.2g}"
    end = interval((100 * (own[:, -1] - theirs[:, -1])).tolist())
    spread = [float(np.std([r["trained"] for r in rows if _is(r, split, policy, seed)])) for seed in ours]
    same = policy == _BASE
    return [
        policy,
        str(len(ours)),
        "" if same else "not all there" if moved is None else f"{moved.show(1)} rounds",
        "" if same else at,
        "" if same else end.show(2, " points"),
        interval(_ends(rows, split, policy, "wait_variance")).show(2),
        interval(spread).show(1),
        interval([100 * met for met in _ends(rows, split, policy, "met")]).show(0, " %"),
    ]


_Curves = Mapping[int, NDArray[np.float64]]


def _curves(rows: Sequence[Row], split: str, policy: str) -> dict[int, NDArray[np.float64]]:
    """Return each seed's accuracies."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if (row["split"], row["policy"]) == (split, policy):
            found.setdefault(row["seed"], []).append(row["accuracy"])
    return {seed: np.array(curve) for seed, curve in sorted(found.items())}


def _pairs(ours: _Curves, base: _Curves) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the curves of the seeds that both have, (seeds, rounds) each."""
    both = [seed for seed in ours if seed in base]
    return np.array([ours[s] for s in both]), np.array([base[s] for s in both])


def _shift(ours: _Curves, base: _Curves) -> Interval | None:
    own, theirs = _pairs(ours, base)
    return shift(own, theirs, _TARGET) if len(own) and own.shape[1] >= len(levels(_TARGET)) else None


def _sooner(late: Interval) -> Interval:
    return replace(late, mean=-late.mean)


def _is(row: Row, split: str, policy: str, seed: int) -> bool:
    return bool((row["split"], row["policy"], row["seed"]) == (split, policy, seed))


def _ends(rows: Sequence[Row], split: str, policy: str, column: str) -> list[float]:
    """Return a column's value after the last round, seed by seed."""
    return list({row["seed"]: row[column] for row in rows if (row["split"], row["policy"]) == (split, policy)}.values())
