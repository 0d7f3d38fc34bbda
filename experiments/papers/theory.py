"""The papers' theorems, checked where an exact or independent computation can check them; nothing is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aoi_fl.experiments.harness.base import (
    GLOBECOM,
    JOURNAL,
    WICS,
    Claim,
    Conclusion,
    Experiment,
    Options,
    Row,
    Unit,
    Verdict,
)
from aoi_fl.experiments.harness.drawing import COLOURS, STYLES
from aoi_fl.experiments.harness.verdicts import EXACT, every
from aoi_fl.experiments.oracles.quadratic import ageing, federated_averaging
from aoi_fl.experiments.papers.theorems import (
    BUDGETS,
    grouped,
    judge_ageing,
    judge_averaging,
    judge_index,
    judge_load,
    judge_ratio,
    load_variances,
    mean,
    ratio,
    thresholds,
)
from aoi_fl.protocol.clients import section5_instance

_SHOWN = (100, 15)
_CLIENTS = (10, 20, 30, 40)
_BATCH = 20  # instances or seeds a unit
_MARKS = (1, 5, 20, 50, 100, 200)
_NAMES = {
    "table": ("The printed table p* gives the least Var[X]", f"{GLOBECOM}, Theorems 1–2; {JOURNAL}, Theorem 1"),
    "remark": (
        "The least Var[X] falls as m grows, down to m = ⌊n/k⌋, and is below random selection's for every m",
        f"{GLOBECOM}, Remark 2",
    ),
    "oldest": ("The optimal Markov policy resembles oldest-age selection", f"{GLOBECOM}, Remark 1"),
    "fedavg": ("Theorem 2 bounds the error of federated averaging", f"{JOURNAL}, Theorem 2"),
    "aged": ("Theorem 1 bounds the error of training on ageing data", f"{WICS}, Theorem 1"),
    "index": (
        "Refreshing a client's data from the age H of eq. (25) on is optimal for the single client",
        f"{WICS}, Theorem 2",
    ),
    "ratio": ("WICS is ρ-optimal with the ρ printed", f"{WICS}, Theorem 3"),
}
_THEIRS = {
    "table": "p* and minimum (n/k−m)(n/k−m−1), or c(1−c)",
    "remark": "smaller with m, minimum for all m ≥ ⌊n/k⌋; better than random for all choices of m",
    "oldest": "resembles the oldest-age method",
    "fedavg": "eq. (27)",
    "aged": "eq. (9)",
    "index": "select iff Δ > H − 1; print has lost eq. (25)'s bracket, which is a floor",
    "ratio": "ρ < 2M(9N−1)Σφ/(N²φ_min − MΣφ); M = ⌊B/p_max⌋ is not the number of clients that B affords",
}
_UNTESTED = Claim(
    "A larger selection skew ρ_ makes federated averaging converge faster",
    f"{JOURNAL}, Remark 2",
    "a larger ρ_ contributes to faster convergence",
    "takes policies that differ in ρ_ alone; under all of these E[ω] = q, and ρ is 1 at any fixed model",
    "not run",
    {"part": ()},
    reasons={"not run": "no two policies differ in ρ_ alone"},
)
_SCHEME = Claim(
    "Theorem 2 bounds the error under any client selection scheme",
    f"{JOURNAL}, Theorem 2",
    "“any client selection scheme”",
    "given the ages, clients below the first age with p > 0 are sure to stay out; where all others are at their own "
    "optimum the numerator of eq. (24) is 0, so ρ_ is 0 and the bound is infinite",
    "holds, vacuous",
    {"part": ()},
    reasons={"holds, vacuous": "under a Markov policy ρ_ is 0, the bound infinite"},
)
_LOSS = Claim(
    "WICS is at least ρ-optimal for Problem P1, the loss",
    f"{WICS}, Section 4.3",
    "“WICS algorithm is at least ρ-optimal for Problem P1”, as P2 derives from Theorem 1's bound",
    "P2 is one term of an upper bound on the loss; a ratio of that term says nothing about a ratio of losses, and "
    "where Theorem 3's denominator is ≤ 0 there is no ρ",
    "not testable",
    {"part": ()},
    reasons={"not testable": "a ratio of bounds implies no ratio of losses"},
)
_REASONS: Mapping[str, Mapping[Verdict, str]] = {
    "oldest": {"holds": "its Var[X] is the printed minimum, up to simulation"},
    "fedavg": {},
    "aged": {},
    "ratio": {"refuted": "its lower bound exceeds what WICS attains in some instances"},
}
_PART = {"table": "load", "remark": "load", "oldest": "load"}


def _slots() -> Claim:
    """Judge that Theorem 3 has one M: the theorem and its proof print two, which an instance tells apart."""
    table, budget = section5_instance(_CLIENTS[0], 1), BUDGETS[1]
    text, appendix = int(budget / table.payments.max()), int(budget / table.sensitivities.min())
    return Claim(
        "Theorem 3 and its proof use the same M",
        f"{WICS}, Theorem 3 and its proof",
        "M = ⌊B/p_max⌋ in the theorem, M = ⌊B/φ_min⌋ in the proof",
        f"on the first instance of Section 5, N = {_CLIENTS[0]}, B = {budget}, they are {text} and {appendix}",
        every(int(text == appendix), 1),
        {"part": ()},
        reasons={"refuted": "two formulas for M; one instance gives two values"},
    )


class Theory(Experiment):
    """Theorems and remarks of all three papers."""

    name = "theory"
    title = "Theorems against exact computations"
    source = f"{GLOBECOM}, Theorems 1–2; {JOURNAL}, Theorems 1–2; {WICS}, Theorems 1–3"
    minutes = 0.5
    claims = (
        *(
            Claim(name, source, _THEIRS[key], "not played here yet", "not run")
            for key, (name, source) in _NAMES.items()
        ),
        _UNTESTED,
        *(replace(claim, ours="not played here yet", verdict="not run") for claim in (_SCHEME, _LOSS, _slots())),
    )

    def settings(self, options: Options) -> Mapping[str, Any]:
        """Return the rounds of the quadratic problems and of WICS on an instance."""
        return {"rounds": _MARKS[-1], "p2 rounds": 400}

    def units(self, options: Options) -> list[Unit]:
        """Return a unit for each part and batch; ``--seeds`` counts instances and paired seeds."""
        count = options.seeds or (20 if options.quick else 60)
        firsts = range(1, count + 1, _BATCH)
        return [{"part": "load", "first": 1}] + [
            {"part": part, "first": first} for part in ("index", "ratio", "fedavg", "aged") for first in firsts
        ]

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Compute one part."""
        numbers = range(unit["first"], unit["first"] + _BATCH)
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
            case _:
                return ageing(numbers, _MARKS)

    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        """Judge each theorem by the computations of its part."""
        parts: dict[str, list[Row]] = {}
        for row in rows:
            parts.setdefault(row["part"], []).append(row)
        judged = [
            (keys, judge(parts[part]))
            for part, (keys, judge) in {
                "load": (("table", "remark", "oldest"), judge_load),
                "fedavg": (("fedavg",), judge_averaging),
                "aged": (("aged",), judge_ageing),
                "index": (("index",), judge_index),
                "ratio": (("ratio",), judge_ratio),
            }.items()
            if part in parts
        ]
        claims = [
            Claim(
                *_NAMES[key],
                _THEIRS[key],
                ours,
                verdict,
                {"part": {_PART.get(key, key)}},
                reasons=_REASONS.get(key, EXACT),
            )
            for keys, found in judged
            for key, (ours, verdict) in zip(keys, found, strict=True)
        ]
        paragraph = (
            "The least Var[X] comes from a linear programme in P(X > a) for each p_m; the single client's "
            "problem is solved by relative value iteration; instances are those of Section 5 of Xu et al. Federated "
            "averaging is played on 40 quadratics on the line (k=6, K=2 steps, L=2, μ=1, equal sizes), where Γ, Σ, G² "
            "and F* are known; ρ_ and ρ̄ are taken as 1, what E[ω] = q gives. Under the Markov policies that is so on "
            "average over ages only: given the ages, ρ_ can be 0, and then Theorem 2 says nothing. Ages start from "
            "the stationary law, and the increasing policy's p_a is ours, since none is printed. The ageing data are "
            "10 quadratics under N=10, B=40, τ=10, η=0.005. Intervals are 95 % t-intervals over seeds."
        )
        vacuous = [claim.source for claim in claims if claim.verdict == "holds, vacuous"]
        headline = ""
        if vacuous:
            headline = (
                f"Bounds that hold and say nothing, above the error that training starts with: {'; '.join(vacuous)}."
            )
        return Conclusion(paragraph, (*claims, _UNTESTED, _SCHEME, _LOSS, _slots()), headline=headline)

    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        """Draw a panel for the load metric, for the threshold, for the ratio and for the bounds."""
        figure.set_size_inches(10, 8)
        load, index, ratios, bounds = figure.subplots(2, 2).flat
        there = {row["part"] for row in rows}
        for part, axes, draw in (
            ("load", load, _draw_load),
            ("index", index, _draw_index),
            ("ratio", ratios, _draw_ratio),
            ("fedavg", bounds, _draw_bounds),
        ):
            if part in there:
                draw(axes, rows)


# Panels


def _draw_load(axes: Axes, rows: Sequence[Row]) -> None:
    shown = [r for r in rows if r["part"] == "load" and (r["clients"], r["per_round"]) == _SHOWN]
    m = [r["max_age"] for r in shown]
    axes.plot(m, [r["printed"] for r in shown], color=COLOURS[0], label="Theorem 2")
    axes.plot(m, [r["programme"] for r in shown], "ko", label="linear programme")
    axes.plot(m, [r["random"] for r in shown], color=STYLES["random"]["color"], linestyle="--", label="random")
    axes.set(xlabel="largest age m, rounds", ylabel="least Var[X], rounds²", title=f"n={_SHOWN[0]}, k={_SHOWN[1]}")
    axes.set_ylim(bottom=0)
    axes.legend()


def _draw_index(axes: Axes, rows: Sequence[Row]) -> None:
    shown = [r for r in rows if r["part"] == "index"]
    top = max(r["root"] for r in shown) + 1
    grid = np.linspace(0, top, 400)
    axes.plot(grid, np.floor(grid), color=COLOURS[0], linewidth=1.2, label="floor")
    axes.plot([r["root"] for r in shown], [r["optimal"] for r in shown], "k.", label="value iteration")
    axes.set(
        xlabel="eq. (25) without its bracket, rounds", ylabel="refreshed from age, rounds", title="WICS, Theorem 2"
    )
    axes.legend()


def _draw_ratio(axes: Axes, rows: Sequence[Row]) -> None:
    for colour, marker, budget in zip(COLOURS, "osv^", BUDGETS, strict=False):
        shares = []
        for n in _CLIENTS:
            found = [r for r in rows if r["part"] == "ratio" and (r["clients"], r["budget"]) == (n, budget)]
            shares.append(100 * sum(r["denominator printed"] <= 0 for r in found) / len(found))
        axes.plot(_CLIENTS, shares, f"{marker}-", color=colour, label=f"B={budget}")
    axes.set(xlabel="clients N", xticks=_CLIENTS, ylabel="instances with denominator ≤ 0, %", title="WICS, Theorem 3")
    axes.set_ylim(0, 103)
    axes.legend()


def _draw_bounds(axes: Axes, rows: Sequence[Row]) -> None:
    for part, policy, title, colour, marker in (
        ("fedavg", "random", "journal, Theorem 2", COLOURS[0], "o"),
        ("aged", "wics", "WICS, Theorem 1", COLOURS[3], "v"),
    ):
        found = [r for r in rows if r["part"] == part and r["policy"] == policy]
        chosen = [r for r in found if r.get("rate") in (None, "theorem")]  # WICS's rate is constant
        groups = grouped(chosen, ("round",))
        rounds = [group[0]["round"] for group in groups]
        axes.plot(rounds, [mean(g, "bound") for g in groups], f"{marker}--", color=colour, label=f"{title}: bound")
        axes.plot(rounds, [mean(g, "excess") for g in groups], f"{marker}-", color=colour, label=f"error, {policy}")
    axes.set(xscale="log", yscale="log", xlabel="round", ylabel="F − F*", title="Quadratic problems")
    axes.legend(fontsize="small")
