"""Verdicts on how fast policies learn follow made-up curves with a known answer."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.federation import complete_run
from aoi_fl.lab.experiments.papers.curves import draw
from aoi_fl.lab.experiments.papers.paper_claims import PaperClaim
from aoi_fl.lab.experiments.papers.speed import curves_of
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.ledger import read


def _learned(rounds, seeds=4, dataset="mnist", best=0.98):
    """Return rows in which a policy jumps from 50 % to ``best`` in the given round, give or take one."""
    return [
        {"seed": s, "partition": "iid", "policy": p, "round": t}
        | {"accuracy": best if there and t >= there + s % 2 else 0.5, "loss": 1.0, "trained": 15}
        for s in range(1, seeds + 1)
        for p, there in rounds.items()
        for t in range(1, 41)
    ]


def _claimed(said, rows):
    from aoi_fl.lab.experiments.papers.learning import Learning

    experiment = Learning("x", "x", "x", "cifar10", 40, 1, claimed=[said], model="cnn", why="no time")
    (claim,) = experiment.conclude(rows, experiment.settings(Options())).claims
    return claim


def test_a_claim_names_its_base_and_is_judged_by_its_pair_alone():
    said = PaperClaim(None, "markov-optimal", "paper", "95 against 105", 0.75, "markov-increasing")
    claim = _claimed(said, _learned({"random": None, "markov-optimal": 20, "markov-increasing": 25}))
    assert claim.claim == "markov-optimal reaches 75% before markov-increasing (cifar10, iid, cnn)"
    assert claim.verdict == "direction reproduced" and "-5.0 [-5.0, -5.0] rounds, -19.6 [" in claim.ours
    assert "against markov-increasing's 25.5" in claim.ours
    later = _claimed(said, _learned({"markov-optimal": 25, "markov-increasing": 20}))
    assert later.verdict == "not reproduced"


def test_a_run_that_diverged_counts_with_its_last_model():
    rows = _learned({"random": 20, "markov-optimal": 22}, seeds=3)
    end = {"accuracy": 0.1, "trained": 0}
    lost = [row | (end if row["round"] == 30 else {}) for row in rows if row["policy"] == "random"]
    short = [row for row in lost if row["seed"] < 3 and row["round"] <= 30]
    kept = [row for row in rows if row["policy"] != "random" or row["seed"] == 3]
    claim = _claimed(PaperClaim(None, "markov-optimal", "paper", "", 0.75, "random"), kept + short)
    assert claim.verdict == "undecided" and claim.ours.endswith("diverged: random with 2 of 3 seeds")
    curves = curves_of(kept + short, "iid")["random"]
    assert curves.shape == (3, 40) and (curves[:2, 29:] == 0.1).all() and curves[2, 29] > 0.1


def test_a_run_that_stopped_as_its_model_diverged_is_a_result(tmp_path):
    lines = [f"{x},{1000 * x}.5" for x in range(60)]
    (tmp_path / "steep.csv").write_text("\n".join(["x,y", *lines]))
    values = {
        "dataset": f"csv:{tmp_path / 'steep.csv'}",
        "target": "y",
        "model": "lr",
        "num-clients": 4,
        "clients-per-round": 2,
        "learning-rate": 2.0,
        "runs-dir": str(tmp_path),
        "run-name": "run",
        "seed": 1,
        "policy": "random",
        "num-server-rounds": 30,
    }
    with pytest.raises(ConfigError) as refused:
        complete_run(values)
    assert refused.value.key == "run"
    rows = read(complete_run(values, stopped=True), "rounds")
    assert rows[-1]["trained"] == 0 and rows[-1]["round"] < 30


def test_the_picture_has_a_line_a_seed_and_the_shifts_below():
    rows = _learned({"random": 20, "markov-optimal": 15, "markov-increasing": None})
    figure = Figure()
    draw(figure, "", {"iid": curves_of(rows, "iid")}, {"iid": 0.75})
    above, below = figure.axes
    assert len([line for line in above.lines if len(line.get_xdata()) == 40]) == 3 * 4
    dots = [line.get_xdata().tolist() for line in below.lines if line.get_marker() == "."]
    assert dots == [[-5.0] * 4] and [text.get_text() for text in below.texts] == ["not reached by all seeds"]


def test_speed_is_judged_by_the_shift_and_by_the_target():
    """Two rounds earlier at every level below the target, and as late at the target itself."""
    rows = _learned({"random": 20, "markov-optimal": 20}, best=0.75)
    climbing = [
        row | {"accuracy": 0.749 if row["policy"] == "markov-optimal" and 18 <= row["round"] < 20 else row["accuracy"]}
        for row in rows
    ]
    claim = _claimed(PaperClaim(None, "markov-optimal", "p", "t", 0.75), climbing)
    assert (
        claim.verdict == "undecided"  # the shift holds, and the target must, too
        and "72.0% to 74.9%: -2.5 [" in claim.ours
        and "75%: 0.0 [0.0, 0.0]" in claim.ours
    )


def test_a_target_that_is_not_reached_is_never_said_to_hold():
    said = PaperClaim(None, "markov-optimal", "p", "t", 0.75)
    higher = _learned({"random": None, "markov-optimal": 20}, best=0.7)
    claim = _claimed(said, higher)
    assert claim.verdict == "not run" and "0 of 4 seeds" in claim.ours and "points higher" in claim.ours
    few = _claimed(said, _learned({"random": None, "markov-optimal": 20}))
    assert (
        few.verdict == "underpowered" and "with 4 of 4 seeds, random with 0 of 4" in few.ours and "p = 0.12" in few.ours
    )
    six = _claimed(said, _learned({"random": None, "markov-optimal": 20}, seeds=6))
    assert six.verdict == "direction reproduced" and "p = 0.031" in six.ours
    assert _claimed(said, []).ours == "no time"


@pytest.mark.parametrize(
    ("there", "verdict"), [(44, "direction reproduced"), (50, "not reproduced"), (30, "not reproduced")]
)
def test_the_headline_is_a_share_of_the_rounds(there, verdict):
    rows = [
        {
            "seed": s,
            "partition": "iid",
            "policy": p,
            "round": t,
            "trained": 15,
            "accuracy": 0.8 if t >= at + s % 3 - 1 else 0.5,
        }
        for s in range(1, 7)
        for p, at in (("random", 50), ("markov-optimal", there))
        for t in range(1, 61)
    ]
    claim = _claimed(PaperClaim(None, "markov-optimal", "p", "t", 0.75, kind="headline"), rows)
    assert claim.verdict == verdict and "by 7.5 % to 20 %" in claim.claim


def test_steadiness_is_the_spread_of_the_changes():
    rows = _learned({"random": 1, "markov-optimal": 1})
    rng = np.random.default_rng(2)
    shaken = [r | {"accuracy": 0.9 + rng.normal(0, 0.05 if r["policy"] == "random" else 0.01)} for r in rows]
    said = PaperClaim(None, "markov-optimal", "p", "t", 0.75, kind="steadiness")
    assert _claimed(said, shaken).verdict == "direction reproduced"
    swapped = [r | {"policy": {"random": "markov-optimal"}.get(r["policy"], "random")} for r in shaken]
    assert _claimed(said, swapped).verdict == "not reproduced"
    short = _claimed(said, [r for r in shaken if r["round"] <= 5])
    assert short.verdict == "not run" and short.ours == "5 rounds are too few"
    random = np.array(
        [[r["accuracy"] for r in shaken if (r["policy"], r["seed"]) == ("random", s)] for s in range(1, 5)]
    )
    expected = 100 * np.mean([np.std(np.diff(curve[20:])) for curve in random])
    assert f"random's {expected:.3f}" in _claimed(said, shaken).ours
