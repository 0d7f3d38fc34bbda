"""Every policy and coordination does what it did in the last release: same clients, same rows, same models."""

import gzip
import json

import pytest

from aoi_fl.config.policies import POLICIES
from tests.golden import runs

GOLDEN = json.loads((runs.HERE / "runs.json").read_text())
# A sample for every run of the tests: each class of strategies, each coordination, each kind of run.
FAST = {
    "plain": ("random-unbiased", "pow-d", "f3ast", "wics-bid", "markov-few poll", "markov-optimal broadcast"),
    "evaluating": ("wics-estimated", "markov-optimal poll", "markov-dropout reserve", "systematic-size broadcast"),
    "late": ("refl", "markov-few reserve", "systematic-absence broadcast"),
}


def kept():
    with gzip.open(runs.HERE / "checkpoints.json.gz") as file:
        return json.load(file)


def sampled(kinds):
    """Return rows and kinds; those out of the sample are slow."""
    return [
        pytest.param(row, kind, marks=() if row in FAST[kind] else pytest.mark.slow)
        for row in runs.POLICIES
        for kind in kinds
    ]


@pytest.mark.parametrize(("row", "kind"), sampled(runs.KINDS))
def test_run_is_the_golden_one(row, kind, tmp_path):
    _, lines = runs.play(row, kind, tmp_path)
    assert {str(round_): line for round_, line in lines.items()} == GOLDEN[row][kind]


@pytest.mark.parametrize(("row", "kind"), sampled(runs.RESUMED))
def test_golden_checkpoint_resumes(row, kind, tmp_path):
    """The run goes on from what the last release wrote down, as it went on then."""
    _, lines = runs.play(row, kind, tmp_path, after=kept()[row][kind])
    assert {str(round_): line for round_, line in lines.items()} == GOLDEN[row][f"{kind} resumed"]


def test_rows_cover_all_policies():
    assert {str(keys.get("policy", row.split()[0])) for row, keys in runs.POLICIES.items()} == set(POLICIES)
