"""Verdicts follow the data: made-up rows with a known answer, and the rules that turn intervals into verdicts."""

import re
from pathlib import Path
from typing import get_args

import pytest

from aoi_fl.experiments.harness.findings import REASONS, Claim, Verdict
from aoi_fl.experiments.harness.store import Store
from aoi_fl.experiments.registry import experiments, known
from aoi_fl.experiments.summary import FRONT, concluded, write_summary

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("experiment", [e for e in experiments().values() if e.claims], ids=lambda e: e.name)
def test_every_claim_that_is_not_run_says_why(experiment):
    assert all(claim.ours and claim.verdict == "not run" for claim in experiment.claims)


@pytest.fixture(scope="module")
def judged() -> list[Claim]:
    """Return the claims of all recorded results, with their verdicts."""
    return [c for name, one in known().items() for c in concluded(one, Store.recorded(RESULTS, name)).claims]


def test_every_recorded_verdict_has_a_reason_of_ten_words(judged):
    assert len(judged) > 120
    assert [c.claim for c in judged if not 2 <= len(c.reason.split()) <= 10] == []
    assert all(0 < len(reason.split()) <= 10 for reason in REASONS.values()) and set(REASONS) == set(get_args(Verdict))


def test_the_first_page_refers_to_no_page_that_is_not_there(tmp_path):
    assert "policies.md" not in write_summary(tmp_path).read_text()


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
    assert [re.findall(r"\]\((.+)\.md\)", line) for line in results] == [[name] for name in known() if name in FRONT]
