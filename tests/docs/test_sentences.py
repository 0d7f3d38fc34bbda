"""The numbers in the guides' sentences: each is computed from a file of results, with its direction and its seeds.

A row of a table below has a page, a sentence with places for numbers, the seeds, and the numbers. The sentence must be
on the page with the numbers filled in. A number outside all sentences must be a setting, a version or a name.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import by_seed
from aoi_fl.lab.experiments.harness.stats import interval, paired_curves, ratio
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.harness.times import shift
from aoi_fl.lab.experiments.studies.unequal_page import later

ROOT = Path(__file__).parents[2]
README, CHOOSING, PRIVACY = "README.md", "docs/choosing.md", "docs/privacy.md"
PHONES, EQUAL_SPLIT = "arena-trace-dirichlet", "arena-trace-iid"


class Number(NamedTuple):
    """A mean over seeds; formats: ``2`` with interval, ``m2`` without, ``%2`` in percent, ``-2`` the other way."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values):
        found = interval([v for v in values if v is not None])
        return cls(found.mean, found.low, found.high, found.count)

    @classmethod
    def of_ratio(cls, above, below):
        found = ratio(above, below)
        return cls(found.value, found.low, found.high, len(above))

    def __format__(self, form):
        turned = form.startswith("-")
        kind, digits = re.fullmatch(r"-?([m%]?)(\d)", form).groups()
        mean, low, high = (-self.mean, -self.high, -self.low) if turned else self[:3]
        shown = f"{mean:.{digits}f}{' %' if kind == '%' else ''}"
        return shown if kind == "m" else f"{shown} [{low:.{digits}f}, {high:.{digits}f}]"


@cache
def table(file):
    return Store.recorded(ROOT / "docs/results", file).rows


def at(file, column, base=None, scale=1.0, **where):
    """Return a column of the last row of each run, above that of a base with other values in some columns."""

    def ends(chosen):
        return {s: run[-1][column] for s, run in by_seed(table(file), **chosen).items() if run[-1][column] is not None}

    own, others = ends(where), ends(where | base) if base else {}
    return Number.of([scale * (own[s] - others.get(s, 0.0)) for s in own if not base or s in others])


def arena(file, policy, what):
    """Return a measure of an entrant of the arena, over seeds."""
    runs = {s: run[-1] for s, run in by_seed(table(file), policy=policy).items()}
    base = {s: run[-1] for s, run in by_seed(table(file), policy="random").items()}
    there = {row["seed"]: row["present"] for row in table(file) if row["present"] is not None}
    measures = {
        "later": lambda r, b: (r["reached_lower"] - b["reached_lower"]) / 60,
        "points": lambda r, b: 100 * (r["final"] - b["final"]),
        "hours": lambda r, b: r["worked"] / 3600,
        "wasted": lambda r, b: 100 * r["wasted"] / r["worked"],
        "jain": lambda r, b: r["jain"] * 300 / there[r["seed"]],
        "never": lambda r, b: 100 * (1 - (1 - r["never"]) * 300 / there[r["seed"]]),
        "present": lambda r, b: there[r["seed"]],
    }
    return Number.of([measures[what](runs[s], base[s]) for s in runs])


def rounds_later(split, policy, data=False):
    runs = {p: by_seed(table("unequal"), split=split, policy=p) for p in (policy, "random")}
    found = later(runs[policy], runs["random"], at_equal_data=data)
    return Number(found.mean, found.low, found.high, found.count)


def reached_by_random(split):
    curves = [
        [row["accuracy"] for row in run] for run in by_seed(table("unequal"), split=split, policy="random").values()
    ]
    steps = [0.94 + 0.001 * i for i in range(30)]
    return Number.of([np.mean([1 + next(i for i, a in enumerate(c) if a >= s - 1e-9) for s in steps]) for c in curves])


def data_of(split):
    """Return the data of a round at rates by size, in those of k average clients."""
    runs = by_seed(table("unequal"), split=split, policy="systematic rates").values()
    return Number.of([np.mean([row["data"] for row in run]) for run in runs])


def share(ours, theirs):
    """Return by how many percent a sum of WICS's ages is above another: an instance counts once, with its mean."""
    runs = by_seed(table("wics-ages")).values()
    found = Number.of_ratio(*([np.mean([row[c] for row in run]) for run in runs] for c in (ours, theirs)))
    return Number(*(100 * (v - 1) for v in found[:3]), found.count)


def mean_loss(model, ours, theirs=None, column="mean loss", file="wics-sensitivity", scale=1.0, **where):
    """Return a mean over all rounds, of a policy or above another's, on MNIST."""
    return at(file, column, theirs and {"policy": theirs}, scale, model=model, dataset="mnist", policy=ours, **where)


def started():
    """Return how many rounds later the Markov policy learns from age 0 than from the stationary law."""
    curves = paired_curves(table("start-learning"), "start", ("zero", "stationary"), "accuracy")
    found = shift(curves["zero"], curves["stationary"], 0.97)
    return Number(found.mean, found.low, found.high, found.count)


def from_zero(measure):
    return Number.of(
        [
            measure([row["clients"] for row in run])
            for run in by_seed(table("start"), case="optimal, k=15", start="zero").values()
        ]
    )


def messages(mode, column, scale=1.0):
    runs = by_seed(table("modes"), clients=200, wire=mode).values()
    return Number.of([scale * np.mean([row[column] for row in run][1:]) for run in runs])


def loss_share(*ends):
    """Return the largest end of the differences from random selection's loss in all federations, in percent."""
    found = []
    for case in {row["case"] for row in table("natural")}:
        runs = [by_seed(table("natural"), case=case, policy=p).values() for p in ("systematic", "random")]
        apart = Number.of_ratio(*([run[-1]["loss"] for run in of] for of in runs))
        found += [100 * abs(getattr(apart, end) - 1) for end in ends]
    return Number(max(found), max(found), max(found), apart.count)


_LATE, _FOUR = "random:late-rounds=5", "random:clients-per-round=4"
_AGE = {
    "systematic": "systematic:weights=size:compensate=availability",
    "markov-optimal": "markov-optimal:weights=size:compensate=availability",
}
_SPLITS = ("dirichlet 0.3", "dirichlet 0.6", "zipf", "iid")
_LEARNED = ("systematic, learned", "markov, learned")


def both(policy, what):
    return arena(PHONES, policy, what), arena(EQUAL_SPLIT, policy, what)


def row_of_speed(name, policy, data=False):
    numbers = [rounds_later(split, policy, data) for split in _SPLITS if split != "iid" or policy != "markov equal"]
    return CHOOSING, f"| {name} |" + " {:1} |" * len(numbers), 10, numbers


def row_of_arena(name, policy, never="{:m0} %"):
    later_, points, hours, wasted, missed = (
        both(policy, what) for what in ("later", "points", "hours", "wasted", "never")
    )
    start = " 0 | 0 |" if policy == "random" else " {:1}; {:1} | {:2}; {:2} |"
    numbers = [] if policy == "random" else [*later_, *points]
    numbers += [hours[0], wasted[0], hours[1], wasted[1], arena(PHONES, policy, "jain")]
    text = f"| {name} |{start} {{:m1}} ({{:m0}} %); {{:m1}} ({{:m0}} %) | {{:2}} | {never} |"
    return CHOOSING, text, 10, [*numbers, *sorted(missed)[: never.count("{")]]


def row_of_loss(name, theirs, form="{:4}"):
    numbers = [mean_loss(model, theirs, "wics, φ known") for model in ("lr", "svm", "cnn")]
    return CHOOSING, f"| {name} | {form} | {form} | {form} |", 10, numbers


def of_study(file, sentence, *numbers, seeds=10, page=CHOOSING):
    """Return a row whose numbers are of one study: each is a column, a policy, and more arguments of ``at``."""
    found = [at(file, column, base and {"policy": base}, **more) for column, base, more in numbers]
    return page, sentence, seeds, found


def _n(column, base=None, **more):
    return column, base, more


def _private(cells):
    """Return a row of docs/privacy.md for each of a study's policies that it shows."""
    name, policy = cells
    numbers = [at("privacy", "final", None, 100, case=f"ε = {e}", policy=policy) for e in (2, 4, 8, 16)]
    return PRIVACY, f"| {name} |" + " {:2} |" * 4, 5, numbers


_EQUAL = "equal-work"
_COHORTS = {"case": "n 105, gcd 15", "policy": "spread", "scale": 100}


def sentences():
    """Return the table: page, sentence, seeds, numbers."""
    final, jain = (
        [at("fair-arena", column, {"policy": "random"}, scale, policy=p) for p in _LEARNED]
        for column, scale in (("final", 100), ("jain", 1))
    )
    fair = {p: at("fair-arena", "jain", policy=p) for p in ("random", "fedcs, speeds", "oort, speeds")}
    sooner = [
        at("fair-arena", "reached_90", {"policy": "random"}, 1 / 60, policy=f"{p}, speeds") for p in ("fedcs", "oort")
    ]
    present = arena(PHONES, "random", "present")
    counted = sorted({row["present"] for row in table(PHONES) if row["present"]})
    return [
        (
            README,
            "accuracy after an hour is that of random selection](docs/results/fair-arena.md) within {:m1} points, "
            "and the load is fairer",
            10,
            [max(final, key=lambda n: abs(n.low))._replace(mean=max(abs(n.low) for n in final))],
        ),
        *(
            (CHOOSING, f"| `{p}` | {{:m{digits}}} |", 20, [at("windows", "deviation", policy=p, window=100)])
            for p, digits in (("markov-optimal", 4), ("random", 4), ("proportional", 4))
        ),
        (
            CHOOSING,
            "| random reaches the levels at round | {:1} | {:1} | {:1} | {:1} |",
            10,
            [reached_by_random(split) for split in _SPLITS],
        ),
        row_of_speed("`systematic`, `weights=size`", "systematic size"),
        row_of_speed("the same after as much data", "systematic size", data=True),
        row_of_speed("`markov-optimal`, `weights=size`", "markov size"),
        row_of_speed("`markov-optimal`, `weights=equal`", "markov equal"),
        row_of_speed("`systematic`, `rates=size`, `weights=unbiased`", "systematic rates"),
        row_of_speed("the same after as much data", "systematic rates", data=True),
        (
            CHOOSING,
            "| its data in a round, in those of 15 average clients | {:2} | {:2} | {:2} |",
            10,
            [data_of(split) for split in _SPLITS[:3]],
        ),
        row_of_arena("`random`", "random"),
        row_of_arena("`random`, `late-rounds=5`", _LATE),
        row_of_arena("`random`, `clients-per-round=4`", _FOUR),
        row_of_arena(
            "`random`, `clients-per-round=4`, `over-selection=1`", f"{_FOUR}:over-selection=1", "{:m0} to {:m0} %"
        ),
        *(row_of_arena(f"`{p}`, `weights=size`, `compensate=availability`", _AGE[p], "{:m0} to {:m0} %") for p in _AGE),
        (CHOOSING, "| `f3ast`, its own weights | | {:2}; {:2} |", 10, both("f3ast", "points")),
        (
            CHOOSING,
            f"About {{:m0}} devices are available in the hour, from {counted[0]} to {counted[-1]} by seed",
            10,
            [present],
        ),
        (
            CHOOSING,
            "the weighted age P2 is {:-%1} below MaxPack's, {:-%1} below ABS's",
            200,
            [share("p2 meant wics", "p2 meant maxpack"), share("p2 meant wics", "p2 meant abs")],
        ),
        (CHOOSING, "| `wics` | {:-%1} below MaxPack's |", 200, [share("p2 wics", "p2 maxpack")]),
        (
            CHOOSING,
            "the weighted Δ² is {:-%1} below the linear index's",
            200,
            [share("quadratic quadratic", "quadratic linear")],
        ),
        (CHOOSING, "the weighted √Δ is {:-%1} below the linear index's", 200, [share("root root", "root linear")]),
        (
            CHOOSING,
            "the mean age by size is {:-%1} lower than with `wics`",
            200,
            [share("weighted_age maxpack", "weighted_age wics")],
        ),
        (
            CHOOSING,
            "| MaxPack's | {:4}, of {:m2} | {:4}, of {:m2} | {:4}, of {:m2} |",
            10,
            [
                number
                for model in ("lr", "svm", "cnn")
                for number in (mean_loss(model, "maxpack", "wics, φ known"), mean_loss(model, "maxpack"))
            ],
        ),
        row_of_loss("random's", "random-budget"),
        row_of_loss("ABS's", "abs, φ known"),
        (
            CHOOSING,
            "| *its accuracy is above MaxPack's, points* | {:2} | {:2} | {:2} |",
            10,
            [
                mean_loss(model, "wics, φ known", "maxpack", "mean accuracy", scale=100)
                for model in ("lr", "svm", "cnn")
            ],
        ),
        (CHOOSING, "{:4} above the loss with known φ", 10, [mean_loss("lr", "wics, φ estimated", "wics, φ known")]),
        (
            CHOOSING,
            "eq. (10) of the paper | {:4} above it",
            10,
            [mean_loss("lr", "wics, φ by eq. (10)", "wics, φ known")],
        ),
        (
            CHOOSING,
            "only refreshed clients train, the default | {:4} above MaxPack's",
            10,
            [mean_loss("lr", "wics", "maxpack", file="wics-learning", trains="selected")],
        ),
        (
            CHOOSING,
            "| random φ | {:4} above MaxPack's",
            10,
            [mean_loss("lr", "wics", "maxpack", "loss", "wics-budget", budget=40)],
        ),
        *(
            (
                CHOOSING,
                f"| `{mode}` | {{:m0}} | {{:m1}} MB |",
                3,
                [messages(mode, "messages"), messages(mode, "bytes", 1e-6)],
            )
            for mode in ("reserve", "poll", "broadcast")
        ),
        (CHOOSING, "in each empty round | {:1} rounds later on MNIST than from the stationary law", 10, [started()]),
        (
            CHOOSING,
            "{:m0} of the first 200 rounds are empty, and {:m0} clients train in one of them",
            20,
            [from_zero(lambda clients: clients.count(0)), from_zero(max)],
        ),
        (
            CHOOSING,
            "{:m3} of the rounds in place of {:m2}, if a tenth leaves after each round",
            20,
            [at("churn", "rate", policy="markov-optimal", kind=kind, leaving=0.1) for kind in ("zero", "stationary")],
        ),
        of_study(
            "rare-classes",
            "`f3ast` is {:1} points better on them, `systematic` with `compensate=availability` {:1}",
            _n("rare", "random", policy="f3ast", scale=100),
            _n("rare", "random", policy="systematic, learned", scale=100),
            seeds=20,
        ),
        of_study(
            "client-accuracy",
            "with the papers' weights its spread over clients changes by {:2} points",
            _n("spread", "random, size weights", policy="markov-optimal, equal weights", scale=100),
            seeds=5,
        ),
        of_study(
            _EQUAL,
            "90 % sooner by {:-1} minutes with random clients, by {:-1} with systematic ones. Between the two: "
            "{:1} minutes, and a Jain's index higher by {:2}",
            _n("reached_90", "random, k = 4", policy="random, k = 4, both", scale=1 / 60),
            _n("reached_90", "systematic", policy="systematic, both", scale=1 / 60),
            _n("reached_90", "random, k = 4, both", policy="systematic, both", scale=1 / 60),
            _n("jain", "random, k = 4, both", policy="systematic, both"),
        ),
        of_study(
            "open-arena",
            "is {:2} points above random selection after an hour, {:2} after three and {:2} after six, at an index "
            "higher by {:3}",
            *(_n(f"accuracy_{hour}", "random", policy="systematic", scale=100) for hour in (1, 3, 6)),
            _n("jain", "random", policy="systematic"),
        ),
        of_study(
            "natural",
            "with students, always on, by {:1} thousandths",
            _n("loss", "random", policy="systematic", case="students, always available", scale=1000),
        ),
        (
            CHOOSING,
            "differ by {:m1} % at most, the intervals by {:m1} %",
            10,
            [loss_share("mean"), loss_share("low", "high")],
        ),
        of_study(
            "natural",
            "raises Jain's index by {:2}, with speakers by {:2}",
            *(
                _n("jain", "random", policy="systematic", case=f"{who}, phone trace")
                for who in ("students", "speakers")
            ),
        ),
        of_study(
            "headline",
            "On MNIST yes, in twenty seeds: {:1} rounds, IID {:1}.",
            *(
                _n("rounds", "random", policy="systematic size", case=f"MNIST, {split}")
                for split in ("Dirichlet 0.3", "IID")
            ),
            seeds=20,
        ),
        of_study(
            "headline",
            "On Fashion-MNIST not beyond chance: {:1}",
            _n("rounds", "random", policy="systematic size", case="Fashion-MNIST, Dirichlet 0.3"),
            seeds=20,
        ),
        of_study(
            "cohorts",
            "in rounds 16 to 30 cohorts of 15 are {:2} points above random selection, and {:2} at the end",
            _n("accuracy", "random", **_COHORTS),
            _n("final", "random", **_COHORTS),
        ),
        (
            CHOOSING,
            "Phases sorted by label cost {:m1} to {:m1} points",
            10,
            sorted(
                at("cohorts", "accuracy", {"policy": "spread"}, -100, policy="sorted by label", case=case)
                for case in {row["case"] for row in table("cohorts")}
            )[::2],
        ),
        of_study(
            "privacy",
            "at ε = 2, 4, 8 and 16 `systematic` with banded noise ends {:2}, {:2}, {:2} and {:2} points above "
            "random selection with white noise. As independent coins, for which there is no bound, random selection is "
            "{:-2} points above it at ε = 2, and {:2} below it at ε = 8",
            *(
                _n("final", base, policy="systematic, banded", case=f"ε = {e}", scale=100)
                for base, epsilons in (
                    ("random, white, every round counted", (2, 4, 8, 16)),
                    ("random, white, counted as coins", (2, 8)),
                )
                for e in epsilons
            ),
            seeds=5,
        ),
        (
            CHOOSING,
            "under Dirichlet 0.1 and 0.3 the accuracy of `systematic` differs by {:m1} to {:m1} points from random "
            "selection",
            10,
            sorted(
                at("regularity", "accuracy", {"policy": "random"}, 100, policy="systematic", case=case)
                for case in {row["case"] for row in table("regularity")}
                if "Dirichlet" in case
            )[::5],
        ),
        (
            CHOOSING,
            "`fedcs` with the devices' speeds: 90 % sooner by {:-1} minutes than random selection, which needs {:m1}, "
            "at a Jain's index of {:m2} against {:m2}; `oort` with them by {:-1}, at {:m2}.",
            10,
            [
                sooner[0],
                at("fair-arena", "reached_90", scale=1 / 60, policy="random"),
                fair["fedcs, speeds"],
                fair["random"],
                sooner[1],
                fair["oort, speeds"],
            ],
        ),
        (
            CHOOSING,
            "end {:2} and {:2} points above random selection, at an index higher by {:3} and {:3}",
            10,
            [*reversed(final), *reversed(jain)] if _LEARNED[0].startswith("markov") else [*final, *jain],
        ),
        *map(
            _private,
            (("`systematic`, banded", "systematic, banded"), ("`random`, white", "random, white, every round counted")),
        ),
    ]


_LONG = "simulate --rounds 6000 --policy "
_ZIPF = " --weights unbiased --sizes zipf:2.0"
PLAYED = (  # a page, a command, the number that it prints, and its place
    (CHOOSING, f"{_LONG}systematic", "interval_variance", "| `systematic` | 0 | {:.4f} | 0 |"),
    (CHOOSING, f"{_LONG}systematic", "window_deviation 100", "| `systematic` | {:.0f} | 0.2222 | 0 |"),
    (CHOOSING, f"{_LONG}systematic", "round_deviation", "| `systematic` | 0 | 0.2222 | {:.0f} |"),
    (CHOOSING, f"{_LONG}systematic", "pairs_met 6000", "| `systematic` | {:.0%}, and no more ever |"),
    (CHOOSING, f"{_LONG}systematic", "interval_variance", "and no more ever | {:.4f} |"),
    (CHOOSING, f"{_LONG}markov-optimal", "round_deviation", "| 0.2222 | {:.1f} |"),
    (CHOOSING, f"{_LONG}markov-optimal", "pairs_met 100", "| `markov-optimal` | {:.0%} |"),
    (CHOOSING, f"{_LONG}random", "pairs_met 100", "| `random` | {:.0%} |"),
    (
        CHOOSING,
        f"{_LONG}systematic --jitter 0.2",
        "pairs_met 100",
        "| `systematic`, `jitter=0.2` | {:.0%} |",
    ),
    (CHOOSING, f"{_LONG}systematic --jitter 0.2", "interval_variance", "45% | {:.3f} |"),
    (CHOOSING, f"{_LONG}systematic --rates size{_ZIPF}", "weight_variance", "rates in proportion to size: Σ {:.4f}"),
    (CHOOSING, f"{_LONG}markov-optimal{_ZIPF}", "weight_variance", "on very unequal sizes: Σ {:.3f}"),
    (CHOOSING, f"{_LONG}random{_ZIPF.replace('unbiased', 'size')}", "weight_variance", "Random selection has {:.4f}"),
    (CHOOSING, "policy --max-age 0", "interval_variance", "| 0, memoryless, as random | {:.1f} |"),
    (CHOOSING, "policy --max-age 0", "interval_variance", "| `random` | 0.0356 | {:.1f} | 0 |"),
    (CHOOSING, "policy --max-age 0", "interval_variance", "| 88% | {:.1f} |"),
    (CHOOSING, "policy --max-age 6", "interval_variance", "| 63% | {:.4f} |"),
    (CHOOSING, "policy --max-age 3", "interval_variance", "| 3 | {:.2f} |"),
    (CHOOSING, "policy --max-age 5", "interval_variance", "| 5 | {:.2f} |"),
    (CHOOSING, "policy --max-age 6", "interval_variance", "| ⌊n/k⌋ = 6, or more | {:.3f} |"),
    (README, "simulate --rounds 60 --policy random", "participation min", "{:.0f} to 16 under random selection"),
    (README, "simulate --rounds 60 --policy random", "participation max", "4 to {:.0f} under random selection"),
    (README, "simulate --rounds 60 --policy markov-optimal", "participation min", "{:.0f} to 10 by age"),
    (README, "simulate --rounds 60 --policy markov-optimal", "participation max", "8 to {:.0f} by age"),
)


def text_of(page):
    """Return a page on one line, with the hyphen as minus."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").replace("−", "-").split())


@pytest.mark.parametrize("page", [README, CHOOSING, PRIVACY])
def test_sentences_are_those_of_the_results(page):
    text = text_of(page)
    wrong = [
        said
        for where, form, seeds, numbers in sentences()
        if where == page and ((said := form.format(*numbers)) not in text or {n.count for n in numbers} != {seeds})
    ]
    assert not wrong


# What a number may be besides: a setting or a condition, a name, a version, or of the test of docs/privacy.md.
NUMBERLESS = re.compile(
    r"""```.*?```|`[^`]*`|\]\([^)]*\)                          # code and links
    |\*[^*]*\*\ (?:\w+\ )*20\d\d\.|\b2NN\b|\bP2\b|1/\\\|S\\\|     # papers and names
    |Flower\ 1\.\d+|Python\ 3\.11|License\ 2\.0|\b1\ GB\ of\ disk    # versions and what is needed
    |95\ %\ intervals|U\(0,\ 1\)|(?:Dirichlet|over\ [kn]\ =|[knε]\ =|index\ of)\ \d[\d.]*|eq\.\ \(10\)   # conditions
    |\b\d+\ (?:clients|rounds|devices|of\ them\ in|average\ clients|updates\ a\ round)\b|k\ at\ 15\ %|1\.3\ times\ k
    |levels\ from\ 94\ to\ 96\.9\ %|at\ 90\ %|\bage\ 0\b|or\ 10\ if\ that|Groups\ of\ 15|over\ 100\ rounds|\b90\ %""",
    re.VERBOSE | re.DOTALL,
)


@pytest.mark.parametrize("page", [README, CHOOSING])
def test_no_other_number_is_in_a_sentence(page):
    text = text_of(page)
    known = [re.escape(form.format(*numbers)) for where, form, _, numbers in sentences() if where == page]
    played = [re.escape(re.sub(r"(\d)%", r"\1 %", form)) for where, *_, form in PLAYED if where == page]
    known += [re.sub(r"\\{:.*?\\}", r"[\\d.]+( ?%)?", form) for form in played]
    left = [*text]
    for span in (match.span() for form in [*known, NUMBERLESS] for match in re.finditer(form, text)):
        left[slice(*span)] = " " * (span[1] - span[0])
    assert not re.findall(r".{0,40}\d[\d.,]*.{0,12}", "".join(left))


@pytest.mark.slow
@pytest.mark.parametrize("command", dict.fromkeys(command for _, command, *_ in PLAYED))
def test_numbers_match_their_commands(command, aoi):
    found = json.loads(aoi(*command.split(), "--json")[1])
    for page, _, name, form in [row for row in PLAYED if row[1] == command]:
        field, _, part = name.partition(" ")
        value = found[field][part] if part else found[field]
        assert form.format(value).replace("%", " %") in text_of(page), (name, value)
