"""Remarks, lemmas and asides of the papers that an enumeration or an exact law can check; nothing is trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from aoi_fl.lab.experiments.harness.base import Experiment, Options, Row, Unit, grouped
from aoi_fl.lab.experiments.harness.drawing import COLOURS
from aoi_fl.lab.experiments.harness.findings import GLOBECOM, JOURNAL, WICS, Claim, Conclusion, Verdict
from aoi_fl.lab.experiments.harness.verdicts import EXACT, erratum, every
from aoi_fl.lab.experiments.oracles.lemmas import (
    LEAVING,
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

# What the headline calls claims.
_SHORT = {
    "Where age decides, clients with lower age are chosen more often": "that clients with lower age come more often",
    "With p_i > 0 at all ages a client in its steady state is more likely to be heard before it drops out": (
        "that p_i > 0 at all ages helps a client that leaves"
    ),
    "Algorithm 1 as printed spends a budget that constraint (8) allows it to spend": (
        "that WICS's Algorithm 1 as printed spends its budget"
    ),
    "The loss of LR is strongly convex": "that LR's loss is strongly convex",
    "The loss of SVM is strongly convex": "that SVM's is",
    "E[B_noise] = 0, as the stochastic gradients are unbiased": "that E[B_noise] = 0 in the proof of Theorem 2",
    "Assumption 4 holds for mean squared loss": "that mean squared loss has bounded gradients",
    "The mean absolute loss is smooth": "that mean absolute loss is smooth",
}
_BATCH = 50  # random instances a unit
_TINY = 1e-9

_FIG2 = Claim(
    "Algorithm 1's example",
    f"{WICS}, Fig. 2",
    "three rounds with B = 5",
    "its ages, payments and indices are in a picture alone, which could not be read",
    "not run",
    {"part": ()},
    reasons={"not run": "its numbers are in a picture, not in text"},
)


def _exact(
    claim: str,
    source: str,
    theirs: str,
    ours: str,
    verdict: Verdict,
    part: str = "exact",
    reasons: Mapping[Verdict, str] = EXACT,
) -> Claim:
    return Claim(claim, source, theirs, ours, verdict, {"part": {part}}, reasons=reasons)


class Remarks(Experiment):
    """The papers' statements beside their theorems."""

    name = "remarks"
    title = "Remarks, lemmas and asides"
    source = f"{GLOBECOM}, abstract and Remark 1; {JOURNAL}, Remarks 4–5, Section IV and appendix; {WICS}, Section 4"
    minutes = 0.3
    version = 2

    def settings(self, options: Options) -> Mapping[str, Any]:
        return {}

    def units(self, options: Options) -> list[Unit]:
        count = options.seeds or (50 if options.quick else 200)
        firsts = range(1, count + 1, _BATCH)
        return [{"part": "exact", "first": 1}] + [{"part": "instances", "first": first} for first in firsts]

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Compute one part: rows of a statement, its left side and its right side."""
        if unit["part"] == "exact":
            exact = [*equal_sizes(), *freshness(), *heard(), *comparisons(), starved()]
            return [*exact, noise(), *smoothness_of_losses()]
        rows: list[Row] = []
        for seed in range(unit["first"], unit["first"] + _BATCH):
            rows += [smoothness(seed), *sampled(seed), *curvatures(seed)]
        return rows

    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        by = grouped(rows, "what")
        claims = [
            *(claim for number, what in ((4, "random"), (5, "proportional")) for claim in _remark(by, number, what)),
            *_lemmas(by),
            *_ages(by),
            *_algorithm(by),
            *_assumptions(by),
        ]
        paragraph = (
            "Enumerated is every round that a policy can bring: of random selection (Policy 1) for Remark 4 and Lemmas "
            "2 to 4, of proportional selection (Policy 2) for Remark 5; the remarks with 3 to 8 clients of equal "
            "sizes, the lemmas with 3 to 7 of random sizes and updates, and under no other policy. Lemma 2 as printed "
            "has an expectation over S on its left and S itself on its right; its proof needs the sum over all "
            "clients. A client's chance to be heard is exact, n=100, k=15, m=10, under p_a > 0 at all ages (ours, the "
            "papers print none)."
        )
        failing = [_SHORT.get(claim.claim, claim.claim) for claim in claims if claim.verdict in ("refuted", "erratum")]
        headline = f"Refuted by exact counterexamples: {'; '.join(failing)}." if failing else ""
        return Conclusion(paragraph, (*claims, _FIG2), headline=headline)

    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        axes = figure.subplots()
        for colour, markers, start in zip(COLOURS, ("os", "^v"), ("zero", "stationary"), strict=False):
            found = [row for row in rows if row["what"] == f"heard, {start}"]
            x = [row["leaving"] for row in found]
            name = {"zero": "newcomer of age 0", "stationary": "in the steady state"}[start]
            for side, line, marker, law in zip(
                ("left", "right"), "-:", markers, ("p_i > 0", "optimal table"), strict=True
            ):
                axes.plot(x, [row[side] for row in found], f"{marker}{line}", color=colour, label=f"{name}, {law}")
        axes.set(
            xlabel="chance of leaving after a round", ylabel="chance of taking part before leaving", xticks=LEAVING
        )
        axes.set_ylim(0, 1)
        axes.legend()


def _remark(by: Mapping[str, list[Row]], number: int, what: str) -> list[Claim]:
    found = by.get(what, [])
    equal = sum(abs(row["left"] - row["right"]) < _TINY for row in found)
    printed = {4: "1/m − 1/n", 5: "(1 − 1/n)/m"}[number]
    return [
        _exact(
            f"With equal sizes Σ of {what} selection is {printed}",
            f"{JOURNAL}, Remark {number}",
            f"{printed}; its m is the number of those selected, our k",
            f"equal to the enumeration in {equal} of {len(found)} pairs of n and k",
            every(equal, len(found)),
        )
    ]


def _lemmas(by: Mapping[str, list[Row]]) -> list[Claim]:
    def below(what: str) -> tuple[int, int, float]:
        rows = by.get(what, [])
        held = sum(row["left"] <= row["right"] * (1 + _TINY) + _TINY for row in rows)
        return held, len(rows), max((row["left"] / row["right"] for row in rows), default=0.0)

    claims = []
    for what, printed in (
        ("lemma 1", "‖∇F‖² ≤ 2L(F − F*)"),
        ("lemma 3", "eq. with 16 G²η²K²m(Σ+1)"),
        ("lemma 4", "eq. (24)"),
    ):
        held, count, most = below(what)
        under = "" if what == "lemma 1" else "under random selection "
        ours = f"{under}in {held} of {count} instances; the left side is never more than {most:.3g} of the right side"
        name = what.capitalize()
        claims.append(_exact(name, f"{JOURNAL}, appendix, {name}", printed, ours, every(held, count), part="instances"))
    held, count, most = below("lemma 2, over S")
    whole = below("lemma 2, over all clients")
    claims.insert(
        1,
        _exact(
            "Lemma 2",
            f"{JOURNAL}, appendix, Lemma 2",
            "eq. (38), the right side summed over S",
            f"under random selection in {held} of {count} instances, the left side up to {most:.2g} times the right "
            f"one's expectation; summed over all clients in {whole[0]} of {whole[1]}",
            erratum(every(held, count)),
            part="instances",
        ),
    )
    return claims


def _ages(by: Mapping[str, list[Row]]) -> list[Claim]:
    fresher = [row for what, found in by.items() if what.startswith("age, ") for row in found]
    ours = "; ".join(
        f"{row['what'].removeprefix('age, ')}: {row['left']:.2f} rounds, all clients {row['right']:.2f}"
        for row in fresher
    )
    heard_ = {start: by.get(f"heard, {start}", []) for start in ("zero", "stationary")}
    better = {start: sum(row["left"] > row["right"] for row in found) for start, found in heard_.items()}
    return [
        _exact(
            "Where age decides, clients with lower age are chosen more often",
            f"{JOURNAL}, Section IV",
            "“clients with lower AoI (fresher updates) are chosen more frequently”",
            f"mean age of those who take part, exact: {ours}",
            every(sum(row["left"] < row["right"] for row in fresher), len(fresher)),
        ),
        *(
            _exact(
                f"With p_i > 0 at all ages {who} is more likely to be heard before it drops out",
                f"{GLOBECOM}, Remark 1",
                "“increasing the chance of getting an update”",
                f"more likely than under the optimal table at {better[start]} of {len(heard_[start])} leaving rates, "
                "exact",
                every(better[start], len(heard_[start])),
            )
            for start, who in (("zero", "a newcomer of age 0"), ("stationary", "a client in its steady state"))
        ),
    ]


def _assumptions(by: Mapping[str, list[Row]]) -> list[Claim]:
    """Judge an equality in a proof and two inequalities in an assumption."""
    biased = by.get("noise", [])
    zero = sum(abs(row["left"] - row["right"]) < _TINY for row in biased)
    held = {
        what: sum(row["left"] <= row["right"] for row in by.get(what, []))
        for what in ("absolute loss is smooth", "squared loss has bounded gradients")
    }
    quoted = "“all three loss functions (mean absolute loss, mean squared loss, or cross-entropy loss) satisfy”"
    return [
        _exact(
            "E[B_noise] = 0, as the stochastic gradients are unbiased",
            f"{JOURNAL}, appendix, eq. (49)",
            "“E[B_noise] = 0 due to the unbiased gradient”",
            "; ".join(
                f"F(θ) = θ²/2, exact gradients, K = 2, η = 0.1, θ = 1: E[B_noise] = {row['left']:.3g}" for row in biased
            ),
            every(zero, len(biased)),
            reasons={"refuted": "local steps move the point where the gradient is taken"},
        ),
        _exact(
            "Assumption 4 holds for mean squared loss",
            f"{WICS}, Assumption 4",
            f"{quoted} Assumptions 1–4",
            f"F'(ω)² stays below its bound at ω = 1 in {held['squared loss has bounded gradients']} of "
            f"{len(by.get('squared loss has bounded gradients', []))} points ω = 1 to 10⁵; a strongly convex loss, of "
            "Assumption 2, has no such bound",
            every(held["squared loss has bounded gradients"], len(by.get("squared loss has bounded gradients", []))),
            reasons={"refuted": "its gradient grows without bound, as under strong convexity"},
        ),
        _exact(
            "The mean absolute loss is smooth",
            f"{WICS}, Assumption 1",
            f"{quoted} Assumptions 1–4",
            f"eq. holds from −h to h with β = 1/(2h) in {held['absolute loss is smooth']} of "
            f"{len(by.get('absolute loss is smooth', []))} steps h = 1 to 10⁻⁵",
            every(held["absolute loss is smooth"], len(by.get("absolute loss is smooth", []))),
            reasons={"refuted": "it has a corner at 0"},
        ),
    ]


def _algorithm(by: Mapping[str, list[Row]]) -> list[Claim]:
    times = [row["left"] / row["right"] for row in by.get("sorting", [])]
    curved = {name: by.get(f"{name} is strongly convex", []) for name in ("LR", "SVM")}
    bent = {name: sum(row["left"] > 1e-6 * row["right"] for row in found) for name, found in curved.items()}
    spent = [
        _exact(
            "Algorithm 1 as printed spends a budget that constraint (8) allows it to spend",
            f"{WICS}, Algorithm 1",
            "payments that sum to less than B; constraint (8) has no more than B",
            f"with payments of 5, 5 and 5 and B = 5 it makes {row['left']} selections in {row['right']} rounds, each "
            "of which could pay for one",
            erratum(every(row["left"], row["right"])),
        )
        for row in by.get("starved", [])
    ]
    return [
        *spent,
        _exact(
            "Algorithm 1 takes O(N log N)",
            f"{WICS}, Section 4.3",
            "O(N log N)",
            f"{min(times):.2f} to {max(times):.2f} N log₂ N comparisons for N = 100 to 100,000" if times else "",
            "not run" if not times else "holds" if max(times) < 2 * min(times) else "refuted",
        ),
        *(
            _exact(
                f"The loss of {name} is strongly convex",
                f"{WICS}, Assumption 2",
                "LR and SVM “adhere to Assumption 2”; no penalty on ω is named",
                f"its second difference along {along} is above 0 in {bent[name]} of {len(found)} instances",
                every(bent[name], len(found)),
                part="instances",
            )
            for (name, found), along in zip(
                curved.items(),
                (
                    "the direction that raises all classes' scores alike",
                    "a random step too short to cross a hinge's corner",
                ),
                strict=True,
            )
        ),
    ]
