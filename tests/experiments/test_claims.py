"""Verdicts follow the data: made-up rows with a known answer, and the rules that turn intervals into verdicts."""

import itertools
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy import stats as scipy_stats

from aoi_fl.lab.experiments.harness.findings import REASONS, Claim, Verdict
from aoi_fl.lab.experiments.harness.stats import Interval, agreement, interval, share
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.harness.verdicts import bounded, elsewhere, equivalent, every, joint, side, tally
from aoi_fl.lab.experiments.registry import experiments, known
from aoi_fl.lab.experiments.summary import FRONT, concluded

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("experiment", [e for e in experiments().values() if e.claims], ids=lambda e: e.name)
def test_every_claim_without_a_run_says_why(experiment):
    assert all(claim.ours and claim.verdict in ("not run", "not testable") for claim in experiment.claims)


@pytest.fixture(scope="module")
def judged() -> list[Claim]:
    """Return the claims of all recorded results, with their verdicts."""
    return [c for name, one in known().items() for c in concluded(one, Store.recorded(RESULTS, name)).claims]


def test_every_recorded_verdict_has_a_reason_of_ten_words(judged):
    assert len(judged) > 120
    assert [c.claim for c in judged if not 2 <= len(c.reason.split()) <= 10] == []
    assert all(0 < len(reason.split()) <= 10 for reason in REASONS.values()) and set(REASONS) == set(get_args(Verdict))


def test_the_first_page_counts_our_own_claims_apart(judged):
    """A slow test compares the committed page with the one that is written."""
    text = (RESULTS / "README.md").read_text()
    bar = text.split("\n## ")[0]
    ours = sum(claim.is_ours for claim in judged)
    assert f"{len(judged) - ours} claims of three papers" in bar and f"{ours} of our own" in bar
    lines = [line for line in text.split("## How to read")[0].splitlines() if line.startswith("<details")]
    assert len(lines) == sum(claim.verdict != "not run" for claim in judged)
    assert max(len(re.sub(r"<[^>]+>", "", line)) for line in lines) < 220  # one line at 1440 pixels
    results = text.split("<summary>Main results</summary>")[1].split("</details>")[0].strip().splitlines()
    assert [re.findall(r"\]\((.+)\.md\)", line) for line in results] == [
        [one.home.removesuffix(".md")] for name, one in known().items() if name in FRONT
    ]
    assert len(text[: text.index("<details")].encode()) < 12_000 and len([*RESULTS.glob("*.md")]) <= 30


def test_most_claims_of_the_papers_are_decided(judged):
    theirs = Counter(claim.verdict for claim in judged if not claim.is_ours)
    open_ = theirs["undecided"] + theirs["not testable"] + theirs["not run"]
    assert theirs["not run"] <= 15 and theirs.total() - open_ >= 45


# Rules


def test_one_seed_is_not_tested():
    met = agreement([([1.0], 2.0), ([1.0], 1.0)])
    assert "one seed: not tested" in str(met) and not met.holds
    assert met.verdict("holds") == "undecided"
    assert agreement([([1.0, 1.0], 1.0)]).verdict("holds") == "holds"
    assert "not tested" in str(agreement([]))


def test_a_side_needs_every_interval():
    above, leaning = Interval(2, 1, 5), Interval(1, 2, 5)
    assert [side([above, above], 1), side([above, above], -1)] == ["holds", "refuted"]
    assert side([leaning, leaning], 1) == side([leaning, leaning], -1) == "undecided"
    assert side([Interval(4, 1, 5), leaning], 1) == "undecided" and side([], 1) == "not run"
    assert side([interval([3.0])], 1) == side([interval([3.0])], -1) == "underpowered"  # a single seed
    assert side([Interval(4, 1, 5), Interval(1, 2, 3)], 1) == "underpowered" and side([Interval(4, 1, 3)], 1) == "holds"


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "refuted"], "refuted"),
        (["not run", "refuted"], "refuted"),
        (["holds", "undecided"], "undecided"),
        (["holds weakly", "holds"], "holds weakly"),
        (["underpowered", "holds"], "underpowered"),
        (["not run", "holds"], "undecided"),
        (["undecided", "undecided"], "undecided"),
        (["undecided", "not run"], "undecided"),
        (["not run", "not run"], "not run"),
        ([], "not run"),
    ],
)
def test_a_claim_of_parts(parts, verdict):
    assert joint(parts) == verdict == joint(parts[::-1])


def test_an_exact_counterexample_refutes():
    assert [every(3, 3), every(2, 3), every(0, 0)] == ["holds", "refuted", "not run"]


def test_comparisons_are_counted_and_the_worst_is_named():
    better, worse, unclear = Interval(3, 1, 10), Interval(-3, 1, 10), Interval(-5, 9, 10)
    named = [("better", better), ("worse", worse), ("unclear", unclear)]
    assert tally(named, 1) == "beyond chance in 1 of 3 comparisons, the other way in 1; at worst worse"
    assert tally(named, -1).endswith("; at worst better")
    assert tally([("even", interval([3.0])), ("sure", interval([-1.0, -1.0]))], 1).endswith("at worst sure")


def test_a_bound_that_no_training_meets_is_vacuous():
    above, below = [Interval(5, 1, 5)] * 2, [Interval(5, 1, 5), Interval(-5, 1, 5)]
    assert bounded(above, [True, False], 10) == "holds"
    assert bounded(above, [True, True], 10) == bounded(above, [False, False], 2e6) == "holds, vacuous"
    assert bounded(below, [True, True], 2e6) == "refuted"


@pytest.mark.parametrize("seed", range(20))
def test_beyond_chance_is_a_t_test_at_a_share_of_five_percent(seed):
    values = np.random.default_rng(seed).normal(0.9, 1, 2 + seed % 6)
    for wanted, comparisons in itertools.product((1, -1), (1, 2, 12)):
        test = scipy_stats.ttest_1samp(wanted * values, 0)
        expected = bool(test.statistic > 0 and test.pvalue < 0.05 / comparisons)
        assert interval(values.tolist()).beyond(wanted, comparisons) is expected
    assert not interval([3.0]).beyond(1)


@pytest.mark.parametrize(("count", "total"), [(0, 20), (13, 1000), (52, 100), (100, 100)])
def test_a_share_has_wilsons_interval(count, total):
    low, high = scipy_stats.binomtest(count, total).proportion_ci(method="wilson")
    assert share(count, total) == f"{100 * count / total:.1f} [{100 * low:.1f}, {100 * high:.1f}] %"


def test_a_verdict_elsewhere_is_no_refutation():
    found = [elsewhere(v) for v in get_args(Verdict)]
    assert "refuted" not in found and found.count("not reproduced") == 2 and found.count("direction reproduced") == 3
    claim = Claim("c", "p", "t", "o", elsewhere("refuted"), setting="2NN")
    assert claim.judgement == "not reproduced (2NN)" and replace(claim, verdict="refuted").judgement == "refuted"


def test_equivalent_needs_every_interval_within_the_margin():
    inside, wide = Interval(0.1, 0.3, 10), Interval(0.0, 0.6, 10)
    assert equivalent([inside, inside], 0.5) == "equivalent" and equivalent([], 0.5) == "not run"
    assert equivalent([inside, wide], 0.5) == "underpowered" and equivalent([inside], 0.3) == "undecided"
