"""The numbers in the guides' sentences: each is computed from a file of results, with its direction and its seeds.

A row of a table below has a page, a sentence with places for numbers, the seeds, and the numbers. The sentence must be
on the page with the numbers filled in. A number outside all sentences must be a setting, a version or a name.
"""

import json
import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from aoi_fl.lab.experiments.harness.base import by_seed
from aoi_fl.lab.experiments.harness.stats import interval, ratio
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.studies.unequal_page import later
from tests.processes import ROOT

WITHOUT = ", B = 4"
README, CHOOSING, PRIVACY = "README.md", "docs/choosing.md", "docs/privacy.md"


class Number(NamedTuple):
    """A mean over seeds; formats: ``2`` with interval, ``m2`` without, ``%2`` in percent, ``-2`` the other way."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, found):
        return cls(found.mean, found.low, found.high, found.count)

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
    return Number.of(interval([scale * (own[s] - others.get(s, 0.0)) for s in own if not base or s in others]))


def rounds_later(split, policy):
    runs = {p: by_seed(table("unequal"), split=split, policy=p) for p in (policy, "random")}
    return Number.of(later(runs[policy], runs["random"]))


def reached_by_random(split):
    runs = by_seed(table("unequal"), split=split, policy="random").values()
    steps = [0.94 + 0.001 * i for i in range(30)]
    reached = [[next(row["round"] for row in run if row["accuracy"] >= s - 1e-9) for s in steps] for run in runs]
    return Number.of(interval(np.mean(reached, axis=1).tolist()))


def share(ours, theirs):
    """Return by how many percent a sum of WICS's ages is above another: an instance counts once, with its mean."""
    runs = by_seed(table("wics-ages")).values()
    found = ratio(*([np.mean([row[c] for row in run]) for run in runs] for c in (ours, theirs)))
    return Number(*(100 * (v - 1) for v in (found.value, found.low, found.high)), len(runs))


def messages(mode, column, scale=1.0):
    runs = by_seed(table("modes"), clients=200, wire=mode).values()
    return Number.of(interval([scale * np.mean([row[column] for row in run][1:]) for run in runs]))


_ENTRANTS = {
    "random": "random",
    "oldest-age": "oldest-age",
    "markov-optimal": "markov, learned",
    "systematic": "systematic, learned",
}
_SPLITS = ("dirichlet 0.3", "dirichlet 0.6", "zipf", "iid")
_LEARNED = ("systematic, learned", "markov, learned")


def row_of_speed(name, policy):
    numbers = [rounds_later(split, policy) for split in _SPLITS if split != "iid" or policy != "markov equal"]
    return CHOOSING, f"| {name} |" + " {:1} |" * len(numbers), 10, numbers


def barrier(column, policy, base=None, scale=1.0):
    return at("barrier", column, base, scale, policy=policy)


def row_of_barrier(name, policy):
    """Return a row of the table of devices that come and go."""
    numbers = [barrier("reached_90", policy, None, 1 / 60), barrier("hours_90", policy, None, 1 / 3600)]
    above = [] if policy == "random" else [barrier("final", policy, {"policy": "random"}, 100)]
    text = f"| {name} | {{:2}} | {{:3}} |" + (" {:2} |" if above else " 0 |") + " {:2} |"
    return CHOOSING, text, 10, [*numbers, *above, barrier("jain", policy)]


def _private(cells):
    """Return a row of docs/privacy.md for each of a study's policies that it shows."""
    name, policy = cells
    numbers = [at("privacy", "final", None, 100, case=f"ε = {e}", policy=policy) for e in (2, 4, 8, 16)]
    return PRIVACY, f"| {name} |" + " {:2} |" * 4, 5, numbers


@cache
def sentences():
    """Return the table: page, sentence, seeds, numbers."""
    final = [at("fair-arena", "final", {"policy": "random"}, 100, policy=p) for p in _LEARNED]
    return [
        (
            README,
            "accuracy after an hour equals random selection's](docs/results/fair-arena.md) within {:m1} points, "
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
        row_of_speed("`markov-optimal`, `weights=size`", "markov size"),
        row_of_speed("`markov-optimal`, `weights=equal`", "markov equal"),
        row_of_speed("`systematic`, `rates=size`, `weights=unbiased`", "systematic rates"),
        *(
            row_of_barrier(f"`{shown}`{more}", entrant + suffix)
            for shown, entrant in _ENTRANTS.items()
            for more, suffix in (("", ""), (", `buffer=4`", WITHOUT))
            if (shown, more) != ("markov-optimal", "")
        ),
        row_of_barrier("`random`, `late-rounds=5`", "random, late updates"),
        (
            CHOOSING,
            "lose {:-m2} and {:-m2} of Jain's index",
            10,
            [barrier("jain", p + WITHOUT, {"policy": p}) for p in ("random", "oldest-age")],
        ),
        (CHOOSING, "updates are {:m1} models old on average", 10, [barrier("stale", "random" + WITHOUT)]),
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
        *(
            (
                CHOOSING,
                f"| `{mode}` | {{:m0}} | {{:m1}} MB |",
                3,
                [messages(mode, "messages"), messages(mode, "bytes", 1e-6)],
            )
            for mode in ("reserve", "poll", "broadcast")
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
    (CHOOSING, f"{_LONG}systematic", "pairs_met 100", "Within 100 rounds {:.0%} of the pairs meet under `systematic`"),
    (CHOOSING, f"{_LONG}markov-optimal", "round_deviation", "| 0.2222 | {:.1f} |"),
    (CHOOSING, f"{_LONG}markov-optimal", "pairs_met 100", "and {:.0%} under `markov-optimal`."),
    (CHOOSING, f"{_LONG}systematic --jitter 0.2", "pairs_met 100", "{:.0%} with this jitter"),
    (CHOOSING, f"{_LONG}systematic --rates size{_ZIPF}", "weight_variance", "rates in proportion to size: Σ {:.4f}"),
    (CHOOSING, f"{_LONG}markov-optimal{_ZIPF}", "weight_variance", "on very unequal sizes: Σ {:.3f}"),
    (CHOOSING, "policy --max-age 0", "interval_variance", "| `random` | 0.0356 | {:.1f} | 0 |"),
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


# Of docs/privacy.md: the table that test_privacy.py computes, formulas, settings and borders.
PRIVATE = re.compile(
    r"""(?:white|six\ bands)\ (?:\|\ [\d.]+\ )+|error\ 20\ \|\ 11\.7\ \|\ 6\ \|\ 3\.5
    |\#\#\ References\ .*|\d\.\ \*\*|w_t\ =\ .*4\^j|μ\ =\ 1/M|\+\ 1\ if|\ 1/n\ on|every\ other\ \|\ 1|b\ =\ 1
    |3,000\ clients|ε\ ≤\ 8|T\ =\ 100|δ\ (?:=|below)\ 10[⁻¹⁵³⁴]+|100?\ a\ round
    |of\ 10⁻⁹\ at\ most|\|\ 4\ \|\ 8\ \|\ 16\ \|""",
    re.VERBOSE,
)


@pytest.mark.parametrize("page", [README, CHOOSING, PRIVACY])
def test_no_other_number_is_in_a_sentence(page):
    text = text_of(page)
    known = [re.escape(form.format(*numbers)) for where, form, _, numbers in sentences() if where == page]
    played = [re.escape(re.sub(r"(\d)%", r"\1 %", form)) for where, *_, form in PLAYED if where == page]
    known += [re.sub(r"\\{:.*?\\}", r"[\\d.]+( ?%)?", form) for form in played]
    left = [*text]
    for span in (
        match.span()
        for form in [*known, NUMBERLESS, *[PRIVATE] * (page == PRIVACY)]
        for match in re.finditer(form, text)
    ):
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
