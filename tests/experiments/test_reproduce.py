import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aoi_fl.lab.experiments.harness import federation
from aoi_fl.lab.experiments.harness.account import behind
from aoi_fl.lab.experiments.harness.base import Experiment, Options
from aoi_fl.lab.experiments.harness.federation import marked
from aoi_fl.lab.experiments.harness.findings import Conclusion
from aoi_fl.lab.experiments.harness.stats import agreement, run_means
from aoi_fl.lab.experiments.harness.store import Store
from aoi_fl.lab.experiments.oracles.weight_laws import markov_law, proportional_law, random_law, systematic_law
from aoi_fl.lab.experiments.registry import experiments, find
from aoi_fl.lab.experiments.runner import MissingDataError, check_data, reproduce
from aoi_fl.lab.experiments.studies.churn import expected_rate
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.markov import MarkovPolicy
from tests.refusals import refused

# Exact laws of the weights


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1, 1], [1, 2, 3, 4, 50, 1, 2], [7, 7, 1]])
def test_theorem_3_equals_the_enumeration_of_all_subsets(sizes):
    sizes = np.array(sizes, dtype=np.int64)
    n = len(sizes)
    for k in range(1, n + 1):
        subsets = list(itertools.combinations(range(n), k))
        weights = np.zeros((len(subsets), n))
        for row, subset in zip(weights, subsets, strict=True):
            row[list(subset)] = sizes[list(subset)] / sizes[list(subset)].sum()
        law, sigma = random_law(sizes, k)
        assert sigma == pytest.approx(weights.var(axis=0).sum(), abs=1e-12)
        assert law.square == pytest.approx((weights**2).sum(axis=1).mean(), abs=1e-12)
        # Two independent rounds: the estimate about their mean has half the variance in expectation.
        assert law.estimate(2) == pytest.approx(sigma / 2, abs=1e-12)


def test_theorem_4_equals_the_enumeration_of_all_draws():
    sizes, k = np.array([1, 2, 5], dtype=np.int64), 3
    shares = sizes / sizes.sum()
    mean, square = np.zeros(3), np.zeros(3)
    for drawn in itertools.product(range(3), repeat=k):
        chance, weight = shares[list(drawn)].prod(), np.bincount(drawn, minlength=3) / k
        mean += chance * weight
        square += chance * weight**2
    law, sigma = proportional_law(sizes, k)
    assert sigma == pytest.approx((square - mean**2).sum())
    assert law.square == pytest.approx(square.sum())


def test_the_systematic_law_equals_the_enumeration_of_all_phases():
    n, k, lags = 8, 3, 12
    phases = (np.arange(n) + 0.5) / n  # one within each stretch on which all rounds are the same
    there = np.diff(np.floor(k / n * np.arange(lags + 2)[:, None] + phases), axis=0)  # (rounds, phases)
    law, sigma = systematic_law(n, k, lags)
    assert law.products == pytest.approx([n * (there[0] * there[h]).mean() / k**2 for h in range(1, lags + 1)])
    assert (law.square, sigma) == pytest.approx((1 / k, 1 / k - 1 / n)) and (there.sum(axis=1) == k).all()


def test_the_markov_law_equals_the_enumeration_of_two_rounds():
    policy = MarkovPolicy.increasing(3, 1, 2)
    rate, (_, again) = 1 / policy.interval_mean, policy.renewals(1)
    # A client's part in two rounds running: both, only the first, only the second, neither.
    chance = {(1, 1): rate * again, (1, 0): rate * (1 - again), (0, 1): rate * (1 - again)}
    chance[0, 0] = 1 - sum(chance.values())
    product = 0.0
    for parts in itertools.product(chance, repeat=3):
        both = math.prod(chance[part] for part in parts)
        first, second = (sum(part[i] for part in parts) for i in (0, 1))
        product += both * sum(a * b for a, b in parts) / max(first * second, 1)
    law, _ = markov_law(policy, 4)
    assert law.products[0] == pytest.approx(product, abs=1e-14)


@pytest.mark.parametrize("leaving", [0.01, 0.2, 0.7])
def test_a_systematic_client_catches_up_after_an_absence(leaving):
    # Every state and its probability: ticks accrued (3 more of 20 a round), whether a round is owed, whether present.
    law = dict.fromkeys(itertools.product(range(20), (False, True), (False, True)), 1 / 80)
    for _ in range(4000):
        after, present, took_part = dict.fromkeys(law, 0.0), 0.0, 0.0
        for (ticks, owing, here), chance in law.items():
            owed = owing or ticks + 3 >= 20
            present += chance * here
            took_part += chance * (here and owed)
            for moves, share in ((True, leaving), (False, 1 - leaving)):
                after[(ticks + 3) % 20, owed and not here, here != moves] += chance * share
        law = after
    assert expected_rate("systematic", "returning", leaving) == pytest.approx(took_part / present, rel=1e-9)
    assert expected_rate("systematic", "gap", leaving) == 0.15


# Statistics


def test_agreement_sees_a_point_that_is_off():
    rng = np.random.default_rng(1)
    points = [(rng.normal(j, 1, 20), float(j)) for j in range(50)]
    assert agreement(points).holds
    assert not agreement([*points, (rng.normal(0, 1, 20), 2.0)]).holds
    assert not agreement([([3.0, 3.0], 4.0)]).holds
    assert agreement([([3.0, 3.0], 3.0)]).holds


# Results on disk


def test_a_store_keeps_what_is_complete_and_drops_what_is_not(tmp_path):
    store = Store(tmp_path, "x", {"rounds": 5}, "here")
    store.add({"seed": 1, "policy": "a"}, [{"v": 0.1}, {"v": None}], 1.5)
    (tmp_path / "x.csv").write_text((tmp_path / "x.csv").read_text() + "2,a,0.7\n")
    again = Store(tmp_path, "x", {"rounds": 5}, "elsewhere")
    assert again.rows == [{"seed": 1, "policy": "a", "v": 0.1}, {"seed": 1, "policy": "a", "v": None}]
    assert again.has({"seed": 1, "policy": "a"}) and not again.has({"seed": 2, "policy": "a"})
    assert (again.seconds, again.machine) == (1.5, "here")


def test_a_store_has_a_line_for_each_run(tmp_path):
    curve = [{"round": t, "accuracy": 0.1 * t, "loss": None if t == 2 else -1e-09, "n": 5} for t in range(1, 5)]
    apart = [{"what": "a 1", "v": 1}, {"what": "a 1", "v": 1}, {"what": "b", "v": 2.5}, {"what": "b", "v": math.inf}]
    store = Store(tmp_path, "x", {}, "")
    for unit, rows in (({"seed": 1, "name": "dirichlet 0.3"}, curve), ({"seed": 2, "name": "iid"}, apart)):
        store.add(unit, rows, 0)
    head, first, *others = (tmp_path / "x.csv").read_text().splitlines()
    assert head == "seed,name,round,accuracy,loss,n,what,v"
    assert first == "1,dirichlet 0.3,1..4,0.1 0.2 0.30000000000000004 0.4,-1e-09 - -1e-09 -1e-09,5,,"
    assert others == ["2,iid,,,,,a 1,1", "2,iid,,,,,a 1,1", "2,iid,,,,,b,2.5 inf"]
    columns = dict.fromkeys(head.split(","))
    assert Store(tmp_path, "x", {}, "").rows == [{**columns, **row} for row in store.rows]


def test_a_store_reads_a_line_for_each_row(tmp_path):
    store = Store(tmp_path, "x", {}, "")
    store.add({"seed": 1}, [{"round": 1, "v": 0.5}, {"round": 2, "v": 0.5}], 0)
    assert (tmp_path / "x.csv").read_text() == "seed,round,v\n1,1..2,0.5\n"
    (tmp_path / "x.csv").write_text("seed,round,v\n1,1,0.5\n1,2,0.5\n")
    assert Store(tmp_path, "x", {}, "").rows == store.rows
    (tmp_path / "x.csv").write_text("seed,round,v\n1,1..2,0.5 0.6 0.7\n")
    with refused("--out", "x.csv", "equal length"):
        Store(tmp_path, "x", {}, "")


@pytest.mark.parametrize(("rounds", "kept"), [(200, range(10, 201, 10)), (7, range(1, 8))])
def test_marks_keep_the_end_and_the_means(rounds, kept):
    run = [{"round": t, "accuracy": t / 1000, "loss": 1 / t, "policy": "wics", "seed": 1} for t in range(1, rounds + 1)]
    marks = marked([{key: row[key] for key in ("round", "accuracy", "loss")} for row in run])
    assert [row["round"] for row in marks] == list(kept)
    assert marks[-1]["loss"] == run[-1]["loss"]
    of_marks = run_means(({**row, "policy": "wics", "seed": 1} for row in marks), "policy", ("wics",), "loss")
    assert of_marks["wics"] == pytest.approx([np.mean([row["loss"] for row in run])], abs=1e-15)
    assert run_means(run, "policy", ("wics",), "loss")["wics"] == pytest.approx(of_marks["wics"], abs=1e-15)


# Experiments


@pytest.mark.parametrize("name", ["load-variance", "intervals", "windows"])
def test_theory_and_simulation_agree_and_more_seeds_only_add(name, tmp_path, capsys):
    options = Options(quick=True, seeds=8)
    page = reproduce(find(name), options, tmp_path, 1).read_text()
    assert " agree at all " in page and "NOT agree" not in page
    assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    before = (tmp_path / f"{name}.csv").read_text()
    capsys.readouterr()
    reproduce(find(name), Options(quick=True, seeds=9), tmp_path, 1)
    assert (tmp_path / f"{name}.csv").read_text().startswith(before)
    played = len(find(name).policies)
    assert f"{8 * played} of {9 * played} units are there already" in capsys.readouterr().err


def test_every_experiment_is_well_formed():
    for name, experiment in experiments().items():
        assert experiment.name == name and experiment.title and experiment.source and experiment.minutes > 0
        for options in (Options(), Options(quick=True)):
            units = experiment.units(options)
            assert len({tuple(unit.items()) for unit in units}) == len(units) > 0
            # Results are kept under their settings; all that the remarks depend on is in their units.
            assert experiment.settings(options) or name == "remarks"


def test_a_missing_data_set_is_named_with_the_remedy(tmp_path):
    with pytest.raises(MissingDataError, match="--data-dir") as error:
        check_data(("digits", "cifar10"), tmp_path)
    assert error.value.key == "data set cifar10"


# Pages and command


def test_the_command(tmp_path):
    from aoi_fl.cli.main import app

    runner = CliRunner()
    assert "wics-ages" in runner.invoke(app, ["reproduce", "list"]).output
    unknown = runner.invoke(app, ["reproduce", "nope"])
    assert isinstance(unknown.exception, ConfigError) and "load-variance, intervals" in str(unknown.exception)
    done = runner.invoke(app, ["reproduce", "start", "--quick", "--seeds", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0 and (tmp_path / "start.md").is_file() and (tmp_path / "README.md").is_file()
    other = runner.invoke(app, ["reproduce", "intervals", "--quick", "--seeds", "2", "--out", str(tmp_path)])
    assert other.exit_code == 0
    refused = runner.invoke(app, ["reproduce", "intervals", "--seeds", "2", "--out", str(tmp_path)])
    assert isinstance(refused.exception, ConfigError) and "rounds=200" in str(refused.exception)


class Tiny(Experiment):
    """A run that is always complete; its only row has the folder that it lies in."""

    name, title, source, minutes = "tiny", "title", "source", 1.0

    def settings(self, options):
        return {"rounds": 2}

    def units(self, options):
        return [{"seed": 1}]

    def play(self, unit, options):
        ledger = federation.played(self.name, {"policy": "random", "num-server-rounds": 2, **unit}, options)
        return [{"folder": ledger.parents[1].name}]

    def conclude(self, rows, settings):
        return Conclusion("")

    def plot(self, rows, settings, figure):
        figure.subplots()


@pytest.fixture
def tiny(monkeypatch):
    experiment = Tiny()
    monkeypatch.setattr("aoi_fl.lab.experiments.runner.find", lambda name: experiment)
    place = lambda values, **_: Path(values["runs-dir"], values["run-name"], "ledger.sqlite")  # noqa: E731
    monkeypatch.setattr(federation, "complete_run", place)
    return experiment


def test_results_and_runs_of_another_version_are_left_alone(tiny, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    reproduce(tiny, Options(), old, 1)
    about = json.loads((old / "tiny.json").read_text())
    tiny.version = 2
    with refused("--out"):
        reproduce(tiny, Options(), old, 1)
    shown = behind(tiny, Store.recorded(old, "tiny"))
    assert "`aoi reproduce tiny` (these are of an earlier version) · " in shown
    reproduce(tiny, Options(), new, 1)
    reproduce(tiny, Options(), new, 1)  # of its own version, they are taken up
    assert "`aoi reproduce tiny` · " in behind(tiny, Store.recorded(new, "tiny"))
    rows = [Store.recorded(folder, "tiny").rows[0]["folder"] for folder in (old, new)]
    assert rows[0] != rows[1]
    assert about["settings"] == {"rounds": 2} and rows[0] == "1d472738"  # as before there were versions
