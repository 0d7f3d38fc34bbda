"""The papers' theorems, checked where an exact or independent computation can check them; nothing is trained."""

import math
from itertools import pairwise, product

import numpy as np

from aoi_fl.lab.experiments.harness.base import Experiment, by_seed, grouped, pick
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.store import rests_on
from aoi_fl.lab.experiments.harness.verdicts import bounded, erratum, every, joint, side
from aoi_fl.lab.experiments.oracles.exact import printed_variance
from aoi_fl.lab.experiments.oracles.quadratic import CANDIDATES, ageing, choosing_by_loss, federated_averaging
from aoi_fl.lab.experiments.oracles.theorems import BUDGETS, load_variances, ratio, thresholds
from aoi_fl.protocol.clients import section5_instance

# A judge returns from the rows of a part what was found, and the verdict.


def judge_table(rows):
    """Judge Theorem 2 of the first paper."""
    scale = [1 + row["random"] for row in rows]
    off, own = (
        max(abs(row["printed"] - row[other]) / s for row, s in zip(rows, scale, strict=True))
        for other in ("programme", "table")
    )
    return (
        f"in {len(rows)} settings of (n, k, m), n ≤ 100, the linear programme's minimum and the printed one differ "
        f"by at most {off:.0e} of 1 + random's, and the table's own Var[X] by {own:.0e}",
        "holds" if max(off, own) < 1e-7 else "refuted",
    )


def judge_remark(rows):
    """Judge its second remark."""
    below = sum(row["printed"] < row["random"] for row in rows)
    steps = [(a, b) for a, b in pairwise(rows) if (a["clients"], a["per_round"]) == (b["clients"], b["per_round"])]
    falling = [
        a["printed"] > b["printed"] or a["printed"] == b["printed"] == printed_variance(*pair, pair[0])
        for a, b in steps
        if (pair := (a["clients"], a["per_round"]))
    ]
    return (
        f"below random's in {below} of {len(rows)} settings; from one m to the next it falls, or is at its minimum, "
        f"in {sum(falling)} of {len(steps)} steps",
        joint([every(below, len(rows)), every(sum(falling), len(steps))]),
    )


def judge_oldest(rows):
    """Judge its first remark."""
    settled = [row for row in rows if row["max_age"] >= row["clients"] // row["per_round"]]
    like = max(abs(row["oldest"] - row["printed"]) for row in settled)
    return (
        f"Var[X] of oldest-age selection over 2000 rounds is within {like:.1e} of the printed minimum for all "
        f"{len({(row['clients'], row['per_round']) for row in settled})} pairs of n and k, with any m ≥ ⌊n/k⌋",
        "holds" if like < 0.01 else "refuted",
    )


def _judge_bound(rows, groups):
    """Compare bound and error in each group of seeds: the interval of their difference, and how many times as large."""
    differences = [interval([row["bound"] - row["excess"] for row in group]) for group in groups]
    last = max(row["round"] for row in rows)
    end = [group for group in groups if group[0]["round"] == last]
    loose = [mean(group, "bound") / mean(group, "excess") for group in end]
    idle = [mean(group, "bound") >= mean(group, "start") for group in groups]
    above = sum(d.low > 0 for d in differences)
    return (
        f"above the error in {above} of {len(groups)} cases (policy and round, 1 to {last}), {_round(min(loose))} to "
        f"{_round(max(loose))} times as large after {last} rounds; in {sum(idle)} of them above the error that "
        "training starts with",
        bounded(differences, idle, min(loose)),
    )


def judge_averaging(rows):
    """Judge the journal's Theorem 2."""
    ours, verdict = _judge_bound(rows, [*grouped(rows, "policy", "rate", "round").values()])
    return f"with the theorem's learning rate and its proof's, {ours}", verdict


def judge_ageing(rows):
    """Judge Theorem 1 of Xu et al."""
    return _judge_bound(rows, [*grouped(rows, "policy", "round").values()])


def judge_skew(rows):
    """Judge the journal's Remark 2: from each number of candidates to the next, ρ_ rises and the error falls sooner."""
    runs = {d: by_seed(rows, candidates=d) for d in CANDIDATES}

    def change(column, few, more):
        return interval([runs[more][s][0][column] - runs[few][s][0][column] for s in runs[few]])

    steps = [*pairwise(CANDIDATES)]
    rises, later = ([change(column, *step) for step in steps] for column in ("skew", "tenth"))
    of = {d: [run[0] for run in runs[d].values()] for d in CANDIDATES}
    shown = "; ".join(
        f"d={d}: ρ_ {mean(of[d], 'skew'):.2f}, {mean(of[d], 'tenth'):.1f} rounds, error "
        f"{_round(mean(of[d], 'excess') / mean(of[d], 'start') * 1e4)} at the end"
        for d in CANDIDATES
    )
    return (
        f"the {CANDIDATES[0]} largest losses of d candidates train; rounds to a tenth of the starting error, and "
        f"the error after {_MARKS[-1]} rounds in its ten-thousandths: {shown}; from each d to the next "
        f"{', '.join(d.show(1) for d in later)} rounds later",
        side(later, -1) if all(rise.low > 0 for rise in rises) else "undecided",
    )


def judge_index(rows):
    """Judge their Theorem 2."""
    agree = {
        "floor": sum(r["floor"] == r["optimal"] for r in rows),
        "rounding": sum(math.floor(r["root"] + 0.5) == r["optimal"] for r in rows),
        "ceiling": sum(math.ceil(r["root"]) == r["optimal"] for r in rows),
    }
    structured, count = sum(r["structured"] for r in rows), len(rows)
    return (
        f"value iteration selects from an age on in {structured} of {count} single clients; that age is the floor "
        f"of (25) in {agree['floor']}, its rounding in {agree['rounding']}, its ceiling in {agree['ceiling']}",
        joint([every(structured, count), every(agree["floor"], count)]),
    )


def judge_ratio(rows):
    """Judge their Theorem 3."""
    count = len(rows)
    vacuous = {
        m: [100 * np.mean([r[f"denominator {m}"] <= 0 for r in of_one]) for of_one in by_seed(rows).values()]
        for m in ("printed", "affordable")
    }
    bounds = sorted(r["ratio printed"] for r in rows if r["ratio printed"] is not None)
    known = [r for r in rows if r["p2"] is not None]
    wrong = sum(r["floor printed"] > r["p2"] for r in known)
    least = f"; elsewhere it is {bounds[0]:.0f} or more, {np.median(bounds):.0f} in the median" if bounds else ""
    refuted = (
        f"; there the lower bound on P2 that it rests on exceeds what WICS attains in {wrong} of {len(known)}"
        if known
        else ""
    )
    usable = sum(r["denominator printed"] > 0 for r in rows) - wrong
    return (
        f"its denominator is ≤ 0 in {interval(vacuous['printed']).show(1, ' %')} of {count} instances of Section 5 "
        f"(N = 10 to 40, B = 25 to 70){least}{refuted}; with M the most clients that B affords, it is ≤ 0 "
        f"in {interval(vacuous['affordable']).show(1, ' %')}",
        every(usable, count),
    )


def mean(rows, column):
    """Return a column's mean."""
    return np.mean(pick(rows, column))


def _round(value):
    """Write a number with two digits: ``1,300``, ``3.4``."""
    return f"{float(f'{value:.1e}'):,.0f}" if value >= 10 else f"{value:.1f}"


_CLIENTS = (10, 20, 30, 40)
_MARKS = (1, 5, 20, 50, 100, 200)
_JUDGES = {  # of each claim, by the rows of the part that it rests on
    "table": judge_table,
    "remark": judge_remark,
    "oldest": judge_oldest,
    "averaging": judge_averaging,
    "skew": judge_skew,
    "ageing": judge_ageing,
    "index": judge_index,
    "ratio": judge_ratio,
}


def _slots():
    """Judge that Theorem 3 has one M: the theorem and its proof print two, and an instance separates them."""
    table, budget = section5_instance(_CLIENTS[0], 1), BUDGETS[1]
    text, appendix = int(budget / table.payments.max()), int(budget / table.sensitivities.min())
    return (
        f"on the first instance of Section 5, N = {_CLIENTS[0]}, B = {budget}, they are {text} and {appendix}",
        erratum(every(int(text == appendix), 1)),
    )


class Theory(Experiment):
    """Theorems and remarks of all three papers."""

    def units(self, options):
        parts = product(("index", "ratio", "fedavg", "skew", "aged"), self.firsts(options))
        return [{"part": part, "first": first} for part, first in (("load", 1), *parts)]

    def play(self, unit, options):
        """Compute one part."""
        numbers = range(unit["first"], unit["first"] + self.batch)
        match unit["part"]:
            case "load":
                return load_variances()
            case "index":
                return thresholds(numbers)
            case "ratio":
                return [
                    ratio(n, b, s, self.settings(options)["p2 rounds"])
                    for s in numbers
                    for n in _CLIENTS
                    for b in BUDGETS
                ]
            case "fedavg":
                return federated_averaging(numbers, _MARKS)
            case "skew":
                return choosing_by_loss(numbers, _MARKS[-1])
            case _:
                return ageing(numbers, _MARKS)

    def conclude(self, rows, settings):
        parts = {key: [row for row in rows if rests_on(row, self.claims[key].units)] for key in _JUDGES}
        found = {key: _JUDGES[key](part) for key, part in parts.items() if part}
        return self.concluded(found | {"slots": _slots()})
