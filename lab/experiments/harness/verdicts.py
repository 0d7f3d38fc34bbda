"""From intervals to verdicts: undecided is no refutation, and one rival ahead beyond chance refutes a superlative.

The meaning of each verdict is in :data:`aoi_fl.lab.experiments.harness.findings.REASONS`.
"""

from dataclasses import replace

_VACUOUS = 1e6  # times the error from which on a bound is vacuous
FEW = 3  # seeds up to which a comparison beyond chance is not to be expected
_TINY = 1e-12  # of a half width, where all seeds agree


def side(differences, wanted):
    """Judge a claim that every difference, one a comparison, lies above 0 (``wanted`` 1) or below (−1).

    To hold, each interval must lie there at its own 95 %: an intersection-union test, of level 5 % as a whole (Berger
    1982). To be refuted, one must lie on the other side at a share of 5 % of so many comparisons (Bonferroni). A claim
    that neither holds nor is refuted is underpowered if a comparison has three seeds or fewer.
    """
    if not differences:
        return "not run"
    if any(d.beyond(-wanted, len(differences)) for d in differences):
        return "refuted"
    if all(d.beyond(wanted) for d in differences):
        return "holds"
    return undecided(min(d.count for d in differences))


def below(values, bound):
    """Judge a claim that every value lies below a bound."""
    return side([replace(value, mean=value.mean - bound) for value in values], -1)


def undecided(seeds, needed=FEW + 1):
    """Return the verdict where chance may explain the result: underpowered below the number of seeds needed."""
    return "undecided" if seeds >= needed else "underpowered"


def erratum(verdict):
    """Return a verdict's meaning for a formula or an algorithm as it is printed."""
    return "erratum" if verdict == "refuted" else verdict


def elsewhere(verdict):
    """Return a verdict's meaning for a paper with another model or setting."""
    if verdict in ("holds", "holds weakly"):
        return "direction reproduced"
    return "not reproduced" if verdict == "refuted" else verdict


def equivalent(differences, margin):
    """Judge a claim that every difference is within a margin of 0: each whole 95 % interval must be.

    It is underpowered if an interval is wider than the margins allow, wherever it lies.

    >>> from aoi_fl.report.judging import Interval
    >>> near, wide = Interval(0.1, 0.3, 10), Interval(0.0, 0.6, 10)
    >>> equivalent([near], 0.5), equivalent([near], 0.3), equivalent([near, wide], 0.5)
    ('equivalent', 'undecided', 'underpowered')
    """
    if not differences:
        return "not run"
    if all(-margin <= d.low and d.high <= margin for d in differences):
        return "equivalent"
    return "underpowered" if any(d.half > margin for d in differences) else "undecided"


def tally(differences, wanted):
    """Count the differences on either side beyond chance, and name the worst, in half widths of its interval.

    >>> from aoi_fl.report.judging import Interval
    >>> tally([("a +1", Interval(1.0, 0.5, 9)), ("b -2", Interval(-2.0, 3.0, 9))], 1)
    'beyond chance in 1 of 2 comparisons, the other way in 0; at worst b -2'
    """
    sure, against = (beyond([d for _, d in differences], way) for way in (wanted, -wanted))
    worst, _ = min(differences, key=lambda of: wanted * of[1].mean / max(of[1].half, _TINY))
    return f"beyond chance in {sure} of {len(differences)} comparisons, the other way in {against}; at worst {worst}"


def beyond(differences, wanted):
    """Return how many differences lie beyond chance on one side of 0."""
    return sum(d.beyond(wanted) for d in differences)


def joint(parts):
    """Return the verdict on a claim of several parts: refuted if any part is; to hold, all must (weakly, if any does).

    >>> joint(["holds", "holds weakly"]), joint(["underpowered", "holds"]), joint(["undecided", "refuted"])
    ('holds weakly', 'underpowered', 'refuted')
    >>> joint(["not run", "refuted"]), joint(["not run", "holds"]), joint(["not run"]), joint([])
    ('refuted', 'undecided', 'not run', 'not run')
    """
    if "refuted" in parts:
        return "refuted"
    order = ("underpowered", "undecided", "holds weakly", "holds")
    if all(part == "not run" for part in parts):
        return "not run"
    return "undecided" if "not run" in parts else next(verdict for verdict in order if verdict in parts)


def every(count, total):
    """Judge a claim on all instances by exact computations: a single counterexample refutes it."""
    return "not run" if total == 0 else "holds" if count == total else "refuted"


def bounded(differences, idle, times):
    """Judge an upper bound by its difference from the error, case by case.

    It holds vacuously if all cases are ``idle``, at least the error before training, or it is a million ``times`` too
    large.
    """
    verdict = side(differences, 1)
    return "holds, vacuous" if verdict == "holds" and (all(idle) or times >= _VACUOUS) else verdict
