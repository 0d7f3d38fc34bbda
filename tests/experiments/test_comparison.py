"""`aoi compare`: its statistics against SciPy and NumPy, and the command with real runs."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import MetricRecord
from scipy import stats

from aoi_fl.lab.experiments import comparing
from aoi_fl.lab.experiments.harness.comparison import TIME, compare
from aoi_fl.report.runs import RecordedRun, load
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.record import record
from aoi_fl.strategies import OldestAge, RandomSelection, RoundOptions
from tests.learning.test_changed_files import model, table
from tests.server.test_record import play

SMALL = "--clients 6 --per-round 2 --rounds 3"
TWO = "compare random,systematic"
CLIENTS = [0, 1, 0, 1, 1, 0]


def run(policy, seed, accuracies, **config):
    """Return a complete run in which one client takes part each round."""
    keys = {"policy": policy, "seed": seed, "num-clients": 2, "num-server-rounds": len(accuracies), "dataset": "digits"}
    rounds = [{"round": i + 1, "test_accuracy": a} for i, a in enumerate(accuracies)]
    parts = [
        {"round": i + 1, "client": c, "outcome": "trained", "weight": 1.0, "age": 0, "forced": 0}
        for i, c in enumerate(CLIENTS[: len(accuracies)])
    ]
    about = {"config": keys | config, "status": "completed"}
    return RecordedRun(f"{policy}-{seed}", about, [], rounds, parts)


def runs(base, ours):
    """Return runs of two policies by their accuracies, one list a seed."""
    return [run(p, s, a) for p, of in (("a", base), ("b", ours)) for s, a in enumerate(of, start=1)]


BASE = [[0.1, 0.2, 0.5, 0.60], [0.1, 0.3, 0.4, 0.62], [0.0, 0.2, 0.3, 0.58]]
OURS = [[0.3, 0.5, 0.6, 0.71], [0.3, 0.6, 0.7, 0.74], [0.2, 0.5, 0.6, 0.70]]


def rounds_to_half():
    """Return by hand, (seeds,) each, the rounds in which ours and the base reach one half."""
    return (np.array([1 + next(i for i, x in enumerate(a) if x >= 0.5) for a in of]) for of in (OURS, BASE))


def findings(result):
    return {f.quantity: f for f in result.pairs[0].findings}


def at_the_end(base, ours):
    return findings(compare(runs(base, ours), 0.5))["test accuracy at the end"]


def test_differences_are_scipys_paired_t_intervals():
    found = at_the_end(BASE, OURS)
    ends = [np.array([a[-1] for a in of]) for of in (OURS, BASE)]
    low, high = stats.ttest_rel(*ends).confidence_interval(0.95)
    assert found.difference.low == pytest.approx(low) and found.difference.high == pytest.approx(high)
    assert found.word == "better"
    assert at_the_end(OURS, BASE).word == "worse"


def test_equal_needs_the_whole_interval_within_the_margin():
    near = [[*a[:-1], a[-1] + d] for a, d in zip(BASE, (0.001, 0.0, 0.002), strict=True)]
    assert at_the_end(BASE, near).word == "equal"
    far = [[*a[:-1], a[-1] + d] for a, d in zip(BASE, (0.1, -0.1, 0.0), strict=True)]
    assert at_the_end(BASE, far).word == "not distinguishable"


def test_whole_rounds_do_not_make_two_seeds_certain():
    found = findings(compare(runs(BASE[:2], OURS[:2]), 0.3))["rounds to 30 %"]
    assert found.difference.half >= stats.t.isf(0.025, 1) * np.sqrt(1 / 6 / 2) * 0.999
    assert found.word != "better"


def test_a_target_that_runs_miss_is_censored_and_named():
    never = findings(compare(runs(BASE, OURS), 0.99))["rounds to 99 %"]
    assert (never.difference, never.word) == (None, "no conclusion") and "0 of 3" in never.note
    some = findings(compare(runs(BASE * 2, OURS * 2), 0.7))["rounds to 70 %"]
    assert (some.difference, some.word) == (None, "better") and "0 of 6" in some.note
    assert compare(runs(BASE, OURS), 0.99).rows[0][TIME] is None
    assert "rounds to 99.9 %" in findings(compare(runs(BASE, OURS), 0.999))


@pytest.mark.parametrize("other", [{"dataset": "mnist"}, {"num-server-rounds": 9}, {"clock": "generated"}])
def test_runs_that_do_not_go_together_are_refused(other):
    pair = [run("a", 1, [0.5] * 4), run("b", 1, [0.5] * 4, **other)]
    with pytest.raises(ConfigError, match=next(iter(other))):
        compare(pair)


def test_the_command_plays_what_is_missing_and_compares(told, tmp_path):
    line = f"{TWO} --seeds 2 {SMALL}"
    found = told(line)
    (pair,) = found["pairs"]
    assert (pair["first"], pair["second"], pair["seeds"]) == ("random", "systematic", [1, 2])
    with open(found["csv"]) as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and {row["setting"] for row in rows} == {"random", "systematic"}
    for row in rows:
        recorded = load(tmp_path / "runs" / row["run"], "r")
        assert float(row["Jain's index"]) == pytest.approx(recorded.measured.participation.jain)
    text = Path(found["page"]).read_text()
    assert "Conclusions" in text and pair["findings"][0]["quantity"] in text and "<script src" not in text
    gone, *kept = [tmp_path / "runs" / row["run"] / "ledger.sqlite" for row in rows]
    before = [ledger.stat().st_mtime_ns for ledger in kept]
    shutil.rmtree(gone.parent)
    assert told(line) == found and [ledger.stat().st_mtime_ns for ledger in kept] == before
    assert told("compare --runs compare-*")["pairs"] == found["pairs"]


def test_recordings_of_one_policy_are_its_seeds(told):
    """Runs of ``record`` have no seed; three of each strategy are three pairs."""
    for make in (RandomSelection, OldestAge):
        for seed in (1, 2, 3):
            options = RoundOptions(run="r", seed=seed)
            end = MetricRecord({"accuracy": seed / 10 + (make is RandomSelection) / 2})
            play(make(2, options=options, observer=record(make.__name__)), 2, lambda *_, end=end: end)
    (pair,) = told("compare --runs *")["pairs"]
    means = {found["quantity"]: found["mean"] for found in pair["findings"]}
    assert pair["seeds"] == [1, 2, 3] and means["test accuracy at the end"] == pytest.approx(0.5)


def test_a_clock_alone_compares_the_arenas_policies():
    policies, keys = comparing.arena({"clock": "always", "num-clients": "50", "dataset": "digits", "model": "lr"})
    plan = comparing.plan(policies, 1, keys)
    shared = {"clock": "always", "num-clients": 50, "until": 3600.0, "num-server-rounds": 1_000_000}
    assert {c["policy"] for c in plan} >= {"random", "oort", "markov-optimal", "fedcs"} and len(plan) > 12
    assert all(shared.items() <= c.items() for c in plan)


def test_no_setting_is_left_without_a_pair():
    entrants = (("random", "none"), ("markov-optimal", "none"), ("systematic", "availability"))
    groups = [run(policy, 1, BASE[0], compensate=kind) for policy, kind in entrants]
    assert {name for pair in compare(groups).pairs for name in (pair.first, pair.second)} == {
        "random",
        "markov-optimal, compensate none",
        "systematic, compensate availability",
    }


def test_the_cost_of_a_level_is_counted_by_hand():
    """One update a round, and in setting b one more that is refused, one that fails, and int8."""
    pair = runs(BASE, OURS)
    for one in pair:
        one.about["model_bytes"] = 1_000_000
        for row in [*one.rounds] if one.config["policy"] == "b" else []:
            for client, outcome in ((5, "refused"), (6, "failed")):
                part = {"round": row["round"], "client": client, "outcome": outcome, "weight": None, "age": 0}
                one.participations.append(part | {"forced": 0})
            one.about["config"]["compression"] = "int8"
    found = findings(compare(pair, 0.5))
    ours, base = rounds_to_half()
    assert found["updates to 50 %"].difference.mean == pytest.approx((2 * ours - base).mean())
    assert found["MB to 50 %"].difference.mean == pytest.approx(((3 + 2 / 4) * ours - 2 * base).mean())
    for one in pair:
        one.about["config"]["coordination"] = "broadcast"
        for row in one.rounds:
            row["asked"] = 7
    found = findings(compare(pair, 0.5))["MB to 50 %"]
    assert found.difference.mean == pytest.approx(((7 + 2 / 4) * ours - 8 * base).mean())


def test_effective_values_that_a_name_hides_are_named():
    keys = {"num-clients": "6", "clients-per-round": "2", "num-server-rounds": "4"}

    def differences(policies, **more):
        configs = comparing.plan(policies, 1, keys | more)
        played = [
            run(
                c["policy"],
                1,
                BASE[0],
                **{k: v for k, v in c.items() if k not in ("policy", "seed", "clients")},
            )
            for c in configs
        ]
        return compare(played).pairs[0].differences

    assert differences("random,systematic") == {}  # both by size
    assert differences("random,systematic", preset="papers") == {"weights": ("equal", "size")}
    assert differences("markov-optimal,systematic:weights=equal") == {"weights": ("equal", "size")}
    assert differences("systematic", weights="size,equal") == {}  # the name shows it


def test_simulated_time_is_compared_in_minutes():
    pair = runs(BASE, OURS)
    for each in pair:
        each.about["config"] |= {"clock": "always", "until": 480.0}
        slow = 2 if each.config["policy"] == "b" else 1
        for row in each.rounds:
            row["clock"] = 60.0 * slow * row["round"]
        for part in each.participations:
            part["device_seconds"] = 1800.0 * slow
    found = findings(compare(pair, 0.5))
    work, found = found["device-hours to 50 %"], found["minutes to 50 %"]
    ours, base = rounds_to_half()
    assert found.difference.mean == 2 * work.difference.mean == pytest.approx((2 * ours - base).mean())


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (f"{TWO},nosuch", "nosuch"),
        (f"{TWO} -c nosuch=1", "nosuch"),
        (f"{TWO} -c seed=1", "--seeds"),
        (f"{TWO} -c num-server-rounds=3,4", "num-server-rounds"),
        ("compare random,oldest-age -c max-age=4", "max-age"),
        (f"{TWO} -c learning-rate=0.1,x", "learning-rate"),
        ("compare random,python:nosuch:Mine", "policy"),
        (f"{TWO} --target -1", "target"),
        (f"{TWO} --target 95", "target"),
        (f"{TWO} --runs x-*", "policies"),
        ("compare", "policies"),
        ("compare --runs x-* -c model=lr", "model"),
        (f"{TWO} --workers 999", "workers"),
        ("compare --runs nothing-*", "nothing-*"),
    ],
)
def test_a_comparison_that_cannot_be_runs_nothing(line, key, refusal, tmp_path):
    assert key in refusal(line) and not list(tmp_path.glob("runs/*/ledger.sqlite"))


BROKEN = {
    "raises": "class Mine:\n    def __init__(self, clients): raise OSError(clients)",
    "signature": "class Mine:\n    def select(self): return None",
    "rates": "class Mine:\n    def select(self, round_, population): return None",  # none, as unbiased weights need
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_comparison_with_a_broken_policy_plays_no_other(kind, refusal, tmp_path):
    sound = "from aoi_fl.science.selection import RandomSelector\nclass Sound(RandomSelector):\n"
    sound += "    def __init__(self, per_round, seed): super().__init__(per_round, seed)\n"
    (tmp_path / f"own_{kind}.py").write_text(sound + BROKEN[kind])
    policies = f"random,python:own_{kind}:Sound,python:own_{kind}:Mine"
    more, named = ("-c weights=unbiased", "weights") if kind == "rates" else ("", f"own_{kind}:Mine")
    assert named in refusal(f"compare {policies} --seeds 1 {SMALL} {more}")
    assert {path.parent.name.split("-")[1] for path in tmp_path.glob("runs/*/ledger.sqlite")} <= {"Sound", "Mine"}
    if kind != "signature":  # which shows in round 1
        assert not list(tmp_path.glob("runs/*/ledger.sqlite"))


@pytest.mark.parametrize("seeds", [2, 3])
def test_a_verdict_needs_three_seeds_and_an_interval_one_test_example(seeds):
    """Two seeds with one difference gave an interval of no width, and a verdict."""
    alike = runs([BASE[0]] * seeds, [OURS[0]] * seeds)
    found = compare([replace(one, about=one.about | {"test_examples": 50}) for one in alike], 0.5)
    end = findings(found)["test accuracy at the end"]
    assert end.difference.half >= 1 / 50 and end.word == ("better" if seeds == 3 else "no conclusion")
    noise = [[*BASE[0][:-1], BASE[0][-1] + s * 1e-12] for s in range(seeds)]
    assert at_the_end([BASE[0]] * seeds, noise).difference.mean == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "data"])
def test_changed_files_are_run_again(kind, told, tmp_path):
    """The table equals that of a fresh folder."""
    own = "-c model=python:net_7:make" if kind == "model" else "-c dataset=csv:o.csv -c target=y"

    def written(content):
        model(tmp_path / "net_7.py", content)
        table(tmp_path / "o.csv", content)

    def ends(folder):
        found = told(f"{TWO} -c local-epochs=1 {SMALL} --seeds 1 {own} -c runs-dir={folder}")
        return [row["at the end"] for row in found["runs"]]

    written(2)
    first = ends("runs")
    written(64)
    assert ends("runs") == ends("fresh") != first


def test_the_worst_tenth_of_clients_is_named(told, tmp_path):
    """Eleven clients, of which two have labels of chance: one of them and another make the worst tenth."""
    rng = np.random.default_rng(0)
    lines = [
        f"{x:.3f},{(x > 0) ^ (c in (3, 7) and rng.random() < 0.5)},Ward {c}"
        for c in range(11)
        for x in rng.normal(size=40)
    ]
    Path("own.csv").write_text("x,y,ward\n" + "\n".join(lines))
    keys = "--dataset csv:own.csv --model lr -c target=y -c client-column=ward"
    compared = told(f"{TWO} {keys} --per-round 5 --seeds 1 --rounds 10 -q")
    assert {tuple(sorted(names)) for names in compared["worst"].values()} == {("Ward 3", "Ward 7")}
    headline = Path(compared["page"]).read_text().partition('class="headline"')[2].partition("</")[0]
    assert "systematic" in headline and not any(row["run"] in headline for row in compared["runs"])
    first, second = compared["runs"]
    recorded = load(tmp_path / "runs" / first["run"], "r").about
    assert np.mean(list(recorded["test_by_client"].values())) == pytest.approx(first["at the end"])  # 8 each
    assert 0.4 < compared["yardstick"] == recorded["yardstick"] < 0.65
    (worst,) = [f for f in compared["pairs"][0]["findings"] if "worst tenth" in f["quantity"]]
    column = "of the worst tenth of clients"
    assert worst["mean"] == pytest.approx(second[column] - first[column])
    private = "-c privacy=banded -c noise-multiplier=0.8 -c clip=0.5 -c delta=1e-3"
    told(f"run {keys} {private} --per-round 2 --rounds 4 --run-name p")
    assert "test_by_client" not in load(tmp_path / "runs" / "p", "p").about
