"""Studies: hypotheses are judged in pairs, and the studies' own rules do what their pages say."""

from itertools import chain

import pytest

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.replay import dealt
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.study import Study
from aoi_fl.lab.experiments.registry import known
from aoi_fl.lab.experiments.studies.fair_arena import write_available
from aoi_fl.lab.simulated_time.traces import drawn_start, read_trace
from aoi_fl.science.selection import RandomSelector
from tests.processes import ROOT

TRACE = ROOT.parent / "shared/data/availability_300.npz"
STUDIES = [experiment for experiment in known().values() if isinstance(experiment, Study)]


class Pairs(Study):
    """Two policies in one case."""

    about, planned, play = "Setting.", 4, None
    cases, policies = ("only",), ("base", "ours")


def judged(contrasts, gains, jain=0.9, **paper):
    """Return the claim on runs in which ours is so many minutes later than the base, seed by seed."""
    measures = {"time": {"label": "minutes", "scale": 1 / 60}, "jain": {"label": "index"}}
    hypothesis = {"claim": "ours is sooner", "contrasts": contrasts, **paper}
    rows = [
        {"seed": seed, "case": "only", "policy": policy, "time": 60.0 * (seed * 7 + late), "jain": jain}
        for seed, gain in enumerate(gains, 1)
        for policy, late in (("base", 0), ("ours", gain))
    ]
    return Pairs(measures=measures, hypotheses=[hypothesis]).conclude(rows, {}).claims[0]


LATER = {"policy": "ours", "column": "time", "base": "base"}
SOONER, AT_MOST_ONE, LEVEL = (LATER | side for side in ({"below": 0}, {"below": 1}, {"within": 1}))
EVEN = {"policy": "ours", "column": "jain", "base": "", "above": 0.8}


@pytest.mark.parametrize(
    ("contrasts", "gains", "jain", "verdict"),
    [
        ([SOONER], (-3, -2, -3, -2), 0.9, "holds"),
        ([SOONER], (3, 2, 3, 2), 0.9, "refuted"),
        ([SOONER], (3, -2, 3, -2), 0.9, "undecided"),
        ([AT_MOST_ONE, EVEN], (0.1, 0.3, 0.2, 0.1), 0.9, "holds"),
        ([AT_MOST_ONE, EVEN], (0.1, 0.3, 0.2, 0.1), 0.7, "refuted"),
        ([LEVEL], (0.1, -0.3, 0.2, 0.1), 0.9, "holds"),
        ([LEVEL], (-3.1, -3.3, -3.2, -3.1), 0.9, "refuted"),
    ],
)
def test_a_hypothesis_needs_every_contrast(contrasts, gains, jain, verdict):
    claim = judged(contrasts, gains, jain)
    assert claim.verdict == verdict and interval(gains).show(1) in claim.ours


def test_a_papers_claim_in_another_setting_is_judged_as_such():
    better, worse = (judged([SOONER], gains, source="A paper", setting="2NN") for gains in ((-3, -2) * 2, (3, 2) * 2))
    assert (better.verdict, worse.verdict, better.is_ours) == ("direction reproduced", "not reproduced", False)


def test_unfinished_hypotheses_are_undecided():
    claim = judged([SOONER], (-3, -2, -3))
    assert claim.verdict == "undecided" and "3 of 4 planned seeds" in claim.ours


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_contrasts_name_what_the_study_has(study):
    assert study.conclude([], study.settings(Options())).claims
    for contrast in chain.from_iterable(study.contrasts.values()):
        assert contrast.case in study.cases and {contrast.policy, contrast.base} <= {"", *study.policies}
        assert contrast.column in study.measures


@pytest.mark.skipif(not TRACE.is_file(), reason="../shared/data/availability_300.npz is not there")
@pytest.mark.parametrize("start", [40 * 3600.0, "of seed 45, whose last device stays to the end"])
def test_the_devices_of_the_hour_keep_their_times(tmp_path, start):
    start = drawn_start(str(TRACE), 45) if isinstance(start, str) else start
    path = tmp_path / "devices.npz"
    shares = write_available(TRACE, path, start, 3600.0)
    whole, part = read_trace(TRACE).starting(start), read_trace(path).starting(start)
    available = whole.availability.shares_by(3600.0)
    assert part.clients == len(shares) == (available > 0).sum() < 300
    assert shares.tolist() == available[available > 0].tolist() == part.availability.shares_by(3600.0).tolist()
    day = part.availability.shares_by(536263.0)
    assert day == pytest.approx(whole.availability.shares_by(536263.0)[available > 0])


def test_training_while_selecting_is_training_along_a_history():
    there = dealt("digits", "data", "lr", 3, 20, kind="iid")
    models = {}
    history = there.play(RandomSelector(4, 3), 5, "size", lambda t, arrays: models.update({t: arrays}))
    for t, arrays in enumerate(there.models(there.history(RandomSelector(4, 3), 5, "size"))):
        if t:
            assert all((arrays[name] == models[t][name]).all() for name in arrays)
    assert len(history.members) == 20
