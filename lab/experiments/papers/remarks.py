"""Remarks, lemmas and asides of the papers that an enumeration or an exact law can check; nothing is trained."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from aoi_fl.lab.experiments.harness.base import Experiment, Row
from aoi_fl.lab.experiments.harness.drawing import Panel
from aoi_fl.lab.experiments.harness.findings import GLOBECOM, JOURNAL, WICS, Claim, Conclusion, Verdict
from aoi_fl.lab.experiments.harness.verdicts import EXACT, erratum, every
from aoi_fl.lab.experiments.oracles.lemmas import (
    comparisons,
    curvatures,
    equal_sizes,
    freshness,
    heard,
    noise,
    sampled,
    smoothness,
    smoothness_of_losses,
    starved,
)

_BATCH = 50  # random instances a unit
_TINY = 1e-9


class Statement(NamedTuple):
    """A claim, and the test that each of its rows, with a left and a right side, must pass.

    Attributes
    ----------
    what : name of its rows, or its beginning
    ours : sentence with the numbers of the rows that pass and of all, the largest ratio, and the words on each row
    test : passed by a row; None: the left sides in all are as many as the right ones
    each : words on a row
    printed : whether a failure is an erratum
    """

    what: str
    claim: str
    source: str
    theirs: str
    ours: str
    test: Callable[[Row], bool] | None
    part: str = "exact"
    each: str = ""
    printed: bool = False
    reasons: Mapping[Verdict, str] = EXACT

    def judged(self, rows, **more):
        """Judge it by the rows of all statements; ``more`` are numbers of its sentence."""
        found = [row for row in rows if row["what"].startswith(self.what)]
        held, count = _passing(found, self.test)
        most = max((row["left"] / row["right"] for row in found if row["right"]), default=0.0)
        each = "; ".join(self.each.format(**row | {"what": row["what"].removeprefix(self.what)}) for row in found)
        verdict = every(held, count)
        return Claim(
            self.claim,
            self.source,
            self.theirs,
            self.ours.format(held=held, count=count, most=most, each=each, **more),
            erratum(verdict) if self.printed else verdict,
            {"part": {self.part}},
            reasons=self.reasons,
        )


def _passing(found, test):
    if test is None:
        return tuple(sum(row[side] for row in found) for side in ("left", "right"))
    return sum(map(test, found)), len(found)


def _equal(row):
    return abs(row["left"] - row["right"]) < _TINY


def _bounded(row):
    return row["left"] <= row["right"] * (1 + _TINY) + _TINY


def _less(row):
    return row["left"] < row["right"]


def _more(row):
    return row["left"] > row["right"]


def _bent(row):
    return row["left"] > 1e-6 * row["right"]


_ENUMERATED = "equal to the enumeration in {held} of {count} pairs of n and k"
_NEVER = "in {held} of {count} instances; the left side is never more than {most:.3g} of the right side"
_HEARD = "With p_i > 0 at all ages {} is more likely to be heard before it drops out"
_CHANCE = "“increasing the chance of getting an update”"
_LIKELIER = "more likely than under the optimal table at {held} of {count} leaving rates, exact"
_CONVEX = "LR and SVM “adhere to Assumption 2”; no penalty on ω is named"
_BENDS = "its second difference along {} is above 0 in {{held}} of {{count}} instances"
_QUOTED = (
    "“all three loss functions (mean absolute loss, mean squared loss, or cross-entropy loss) satisfy” Assumptions 1–4"
)
_STATEMENTS = (
    Statement(
        "random",
        "With equal sizes Σ of random selection is 1/m − 1/n",
        f"{JOURNAL}, Remark 4",
        "1/m − 1/n; its m is the number of those selected, our k",
        _ENUMERATED,
        _equal,
    ),
    Statement(
        "proportional",
        "With equal sizes Σ of proportional selection is (1 − 1/n)/m",
        f"{JOURNAL}, Remark 5",
        "(1 − 1/n)/m; its m is the number of those selected, our k",
        _ENUMERATED,
        _equal,
    ),
    Statement(
        "lemma 1",
        "Lemma 1",
        f"{JOURNAL}, appendix, Lemma 1",
        "‖∇F‖² ≤ 2L(F − F*)",
        _NEVER,
        _bounded,
        "instances",
    ),
    Statement(
        "lemma 2, over S",
        "Lemma 2",
        f"{JOURNAL}, appendix, Lemma 2",
        "eq. (38), the right side summed over S",
        "under random selection in {held} of {count} instances, the left side up to {most:.2g} times the right one's "
        "expectation; summed over all clients in {whole} of {clients}",
        _bounded,
        "instances",
        printed=True,
    ),
    Statement(
        "lemma 3",
        "Lemma 3",
        f"{JOURNAL}, appendix, Lemma 3",
        "eq. with 16 G²η²K²m(Σ+1)",
        f"under random selection {_NEVER}",
        _bounded,
        "instances",
    ),
    Statement(
        "lemma 4",
        "Lemma 4",
        f"{JOURNAL}, appendix, Lemma 4",
        "eq. (24)",
        f"under random selection {_NEVER}",
        _bounded,
        "instances",
    ),
    Statement(
        "age, ",
        "Where age decides, clients with lower age are chosen more often",
        f"{JOURNAL}, Section IV",
        "“clients with lower AoI (fresher updates) are chosen more frequently”",
        "mean age of those who take part, exact: {each}",
        _less,
        each="{what}: {left:.2f} rounds, all clients {right:.2f}",
    ),
    Statement(
        "heard, zero",
        _HEARD.format("a newcomer of age 0"),
        f"{GLOBECOM}, Remark 1",
        _CHANCE,
        _LIKELIER,
        _more,
    ),
    Statement(
        "heard, stationary",
        _HEARD.format("a client in its steady state"),
        f"{GLOBECOM}, Remark 1",
        _CHANCE,
        _LIKELIER,
        _more,
    ),
    Statement(
        "starved",
        "Algorithm 1 as printed spends a budget that constraint (8) allows it to spend",
        f"{WICS}, Algorithm 1",
        "payments that sum to less than B; constraint (8) has no more than B",
        "with payments of 5, 5 and 5 and B = 5 it makes {held} selections in {count} rounds, each of which could pay "
        "for one",
        None,
        printed=True,
    ),
    Statement(
        "LR is",
        "The loss of LR is strongly convex",
        f"{WICS}, Assumption 2",
        _CONVEX,
        _BENDS.format("the direction that raises all classes' scores alike"),
        _bent,
        "instances",
    ),
    Statement(
        "SVM is",
        "The loss of SVM is strongly convex",
        f"{WICS}, Assumption 2",
        _CONVEX,
        _BENDS.format("a random step too short to cross a hinge's corner"),
        _bent,
        "instances",
    ),
    Statement(
        "noise",
        "E[B_noise] = 0, as the stochastic gradients are unbiased",
        f"{JOURNAL}, appendix, eq. (49)",
        "“E[B_noise] = 0 due to the unbiased gradient”",
        "{each}",
        _equal,
        each="F(θ) = θ²/2, exact gradients, K = 2, η = 0.1, θ = 1: E[B_noise] = {left:.3g}",
        reasons={"refuted": "local steps move the point where the gradient is taken"},
    ),
    Statement(
        "squared",
        "Assumption 4 holds for mean squared loss",
        f"{WICS}, Assumption 4",
        _QUOTED,
        "F'(ω)² stays below its bound at ω = 1 in {held} of {count} points ω = 1 to 10⁵; a strongly convex loss, of "
        "Assumption 2, has no such bound",
        _bounded,
        reasons={"refuted": "its gradient grows without bound, as under strong convexity"},
    ),
    Statement(
        "absolute",
        "The mean absolute loss is smooth",
        f"{WICS}, Assumption 1",
        _QUOTED,
        "eq. holds from −h to h with β = 1/(2h) in {held} of {count} steps h = 1 to 10⁻⁵",
        _bounded,
        reasons={"refuted": "it has a corner at 0"},
    ),
)
_FIG2 = Claim(
    "Algorithm 1's example",
    f"{WICS}, Fig. 2",
    "three rounds with B = 5",
    "its ages, payments and indices are in a picture alone, which could not be read",
    "not run",
    {"part": ()},
    reasons={"not run": "its numbers are in a picture, not in text"},
)


class Remarks(Experiment):
    """The papers' statements beside their theorems."""

    name = "remarks"
    title = "Remarks, lemmas and asides"
    source = f"{GLOBECOM}, abstract and Remark 1; {JOURNAL}, Remarks 4–5, Section IV and appendix; {WICS}, Section 4"
    charts = tuple(
        Panel(("left", "right"), f"chance of taking part, {start}", "leaving", where={"what": f"heard, {start}"})
        for start in ("zero", "stationary")
    )
    minutes = 0.3
    version = 2

    def settings(self, options):
        return {}

    def units(self, options):
        count = options.seeds or (50 if options.quick else 200)
        firsts = range(1, count + 1, _BATCH)
        return [{"part": "exact", "first": 1}] + [{"part": "instances", "first": first} for first in firsts]

    def play(self, unit, options):
        """Compute one part: rows of a statement, its left side and its right side."""
        if unit["part"] == "exact":
            exact = [*equal_sizes(), *freshness(), *heard(), *comparisons(), starved()]
            return [*exact, noise(), *smoothness_of_losses()]
        rows = []
        for seed in range(unit["first"], unit["first"] + _BATCH):
            rows += [smoothness(seed), *sampled(seed), *curvatures(seed)]
        return rows

    def conclude(self, rows, settings):
        whole, clients = _passing([row for row in rows if row["what"] == "lemma 2, over all clients"], _bounded)
        claims = [statement.judged(rows, whole=whole, clients=clients) for statement in _STATEMENTS]
        paragraph = (
            "Enumerated is every round that a policy can bring: of random selection (Policy 1) for Remark 4 and Lemmas "
            "2 to 4, of proportional selection (Policy 2) for Remark 5; the remarks with 3 to 8 clients of equal "
            "sizes, the lemmas with 3 to 7 of random sizes and updates, and under no other policy. Lemma 2 as printed "
            "has an expectation over S on its left and S itself on its right; its proof needs the sum over all "
            "clients. A client's chance to be heard is exact, n=100, k=15, m=10, under p_a > 0 at all ages (ours, the "
            "papers print none)."
        )
        claims.insert(10, _sorting(rows))
        return Conclusion(paragraph, (*claims, _FIG2))


def _sorting(rows):
    times = [row["left"] / row["right"] for row in rows if row["what"] == "sorting"]
    return Claim(
        "Algorithm 1 takes O(N log N)",
        f"{WICS}, Section 4.3",
        "O(N log N)",
        f"{min(times):.2f} to {max(times):.2f} N log₂ N comparisons for N = 100 to 100,000" if times else "",
        "not run" if not times else "holds" if max(times) < 2 * min(times) else "refuted",
        {"part": {"exact"}},
        reasons=EXACT,
    )
