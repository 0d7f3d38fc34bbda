"""Reports: numbers in the figures against direct computations, and pages that stand on their own."""

import base64
import gzip
import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aoi_fl.report import page, theory
from aoi_fl.report.figures import figures
from aoi_fl.report.runs import Run, load_all
from aoi_fl.report.summary import key_numbers, sentence
from aoi_fl.report.template import plotly
from aoi_fl.science.interval_law import MixedLaw, window_deviation
from aoi_fl.science.load import measure
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population, RandomSelector
from aoi_fl.science.simulate import simulate
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.server.folder import only_player
from aoi_fl.server.ledger import Ledger
from aoi_fl.strategies.records import ClientRecord, Participation, RoundRecord
from tests.refusals import refused

N, K, ROUNDS = 12, 5, 40
MARKOV = MarkovPolicy.increasing(N, K, 3)


def record(folder: Path, rounds: list[RoundRecord], clients: list[ClientRecord], **about: object) -> Path:
    folder.mkdir(parents=True)
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.note(**({"status": "completed"} | about))
    ledger.add_clients(clients)
    for row in rounds:
        ledger.add_round(row)
    ledger.close()
    return folder


def play(folder: Path, rounds: int = ROUNDS, policy: str = "markov", **about: object) -> list[list[int]]:
    """Record a run of the simulator and return who took part, a list of client numbers a round."""
    people = Population(np.zeros(N, np.int64), np.ones(N, np.int64), np.ones(N, np.bool_))
    history = simulate(MARKOV if policy == "markov" else RandomSelector(K, 3), people, max(rounds, 1), 3)
    chosen = [history.selection(t).clients.tolist() for t in range(1, rounds + 1)]
    table = {"kind": "markov-increasing", "clients": N, "per_round": K, "probabilities": MARKOV.probabilities}
    notes = {
        "policy": table if policy == "markov" else {"kind": "RandomSelection"},
        "config": {"policy": policy, "clients-per-round": K, "num-server-rounds": ROUNDS, "dataset": "digits"},
        "initial_accuracy": 0.1,
    }
    rows = [
        RoundRecord(
            t,
            test_accuracy=t / 100,
            test_loss=float("nan") if t == 2 else 1 / t,
            participations=[Participation(c, str(c), "trained", weight=1 / len(who)) for c in who],
        )
        for t, who in enumerate(chosen, 1)
    ]
    record(folder, rows, [ClientRecord(c, str(c), 1) for c in range(N)], **(notes | about))
    return chosen


def charts_of(*folders: Path) -> dict:
    return {chart.name: chart for chart in figures(load_all([str(folder) for folder in folders]))}


def test_learning_curves_are_the_ledgers_numbers(tmp_path: Path) -> None:
    play(tmp_path / "a")
    charts = charts_of(tmp_path / "a")
    accuracy = charts["test-accuracy"].data[0]
    assert accuracy["x"] == list(range(ROUNDS + 1))
    assert accuracy["y"] == pytest.approx([10, *range(1, ROUNDS + 1)])
    assert charts["test-accuracy"].rows[1] == [1, pytest.approx(1.0)]
    loss = charts["test-loss"].data[0]
    assert loss["x"] == [1, *range(3, ROUNDS + 1)]  # no loss before the first round; NaN in the second
    assert loss["y"][1] == pytest.approx(1 / 3, rel=1e-5)


def test_heat_map_and_counts_show_who_took_part(tmp_path: Path) -> None:
    chosen = play(tmp_path / "a")
    charts = charts_of(tmp_path / "a")
    cells = np.array(charts["participation-0"].data[0]["z"])
    assert cells.shape == (N, ROUNDS)
    for client, t in product(range(N), range(ROUNDS)):
        assert (cells[client, t] == 1.5) == (client in chosen[t])
    counts = [sum(client in who for who in chosen) for client in range(N)]
    assert charts["counts"].data[0]["y"] == sorted(counts, reverse=True)
    assert {(name, count) for _, name, count in charts["counts"].rows} == {(str(c), n) for c, n in enumerate(counts)}


def test_interval_histogram_and_its_theory(tmp_path: Path) -> None:
    chosen = play(tmp_path / "a")
    times = [[t for t, who in enumerate(chosen) if client in who] for client in range(N)]
    waits = [b - a for mine in times for a, b in pairwise(mine)]
    measured, expected = charts_of(tmp_path / "a")["intervals"].data
    lengths = range(1, max(waits) + 1)
    assert measured["x"] == pytest.approx(list(lengths))
    assert measured["y"] == pytest.approx([waits.count(x) / len(waits) for x in lengths], rel=1e-5)
    p = [MARKOV.probabilities[min(age, 3)] for age in range(max(waits))]
    assert expected["y"] == pytest.approx([p[x - 1] * np.prod(1 - np.array(p[: x - 1])) for x in lengths], rel=1e-5)


def test_random_selection_has_the_geometric_law(tmp_path: Path) -> None:
    play(tmp_path / "r", policy="random")
    charts = charts_of(tmp_path / "r")
    expected = charts["intervals"].data[1]
    assert expected["y"] == pytest.approx([K / N * (1 - K / N) ** (x - 1) for x in expected["x"]], rel=1e-5)
    expected = charts["deviation"].data[1]
    assert expected["y"] == pytest.approx([np.sqrt(K / N * (1 - K / N) / t) for t in expected["x"]], rel=1e-5)


@pytest.mark.parametrize("policy", [MARKOV, MarkovPolicy.optimal(20, 3, 10), MarkovPolicy.optimal(12, 3, 2)])
def test_window_deviation_equals_the_exact_law_of_the_count(policy: MarkovPolicy) -> None:
    windows = [1, 2, 5, 9]
    m, p = policy.max_age, policy.probabilities
    for window, deviation in zip(windows, window_deviation(policy, windows), strict=True):
        law = np.zeros((m + 1, window + 1))  # P(age, rounds taken part in so far)
        law[:, 0] = policy.stationary
        for _ in range(window):
            after = np.zeros_like(law)
            for age in range(m + 1):
                after[0, 1:] += p[age] * law[age, :-1]
                after[min(age + 1, m)] += (1 - p[age]) * law[age]
            law = after
        y, weights = np.arange(window + 1), law.sum(axis=0)
        variance = weights @ y**2 - (weights @ y) ** 2
        assert deviation == pytest.approx(np.sqrt(variance) / window, abs=1e-9)


@pytest.mark.parametrize("jitter", [0.0, 0.2])
@pytest.mark.parametrize("rates", ["equal", [0.5, 0.25, 0.25, 1.0, 0.4, 0.6]])
def test_systematic_participation_shows_its_law(tmp_path: Path, jitter: float, rates: str | list[float]) -> None:
    """The law of all clients together, against a long play of the policy with that record."""
    notes = {"kind": "systematic", "clients": 6, "per_round": 3, "rates": rates, "jitter": jitter}
    folder = record(tmp_path / "s", [RoundRecord(1)], [], policy=notes, config={"policy": "systematic"})
    promised = theory.law(load_all([str(folder)])[0])
    each = np.full(6, 0.5) if isinstance(rates, str) else np.array(rates)
    policy = SystematicPolicy.rated(np.repeat(each, 1000), "random", jitter, 1)  # phases stay: many clients
    shows_its_law(policy, promised)


def shows_its_law(policy: SystematicPolicy | MarkovPolicy, promised: MarkovPolicy | MixedLaw | None) -> None:
    assert isinstance(promised, MixedLaw)
    everyone = Population(np.zeros(6000, np.int64), np.ones(6000, np.int64), np.ones(6000, np.bool_))
    shown = measure(simulate(policy, everyone, 200, 1))
    count = sum(shown.interval_counts.values())
    for x, p in enumerate(promised.interval_pmf(), 1):
        assert shown.interval_counts.get(x, 0) / count == pytest.approx(p, abs=0.01)
    assert shown.interval_mean == pytest.approx(promised.interval_mean, rel=0.01)
    assert shown.interval_variance == pytest.approx(promised.interval_variance, rel=0.03, abs=0.01)
    for window, deviation in zip([1, 2, 10, 50], window_deviation(promised, [1, 2, 10, 50]), strict=True):
        assert shown.window_deviation[window] == pytest.approx(deviation, abs=0.02 / window**0.5)


def test_tables_of_the_clients_own_show_their_law(tmp_path: Path) -> None:
    rates = [0.5, 0.25, 0.25, 1.0, 0.4, 0.6]
    notes = {"kind": "markov-optimal", "clients": 6, "per_round": 3, "probabilities": [0.0, 1.0], "rates": rates}
    folder = record(tmp_path / "m", [RoundRecord(1)], [], policy=notes, config={"policy": "markov-optimal"})
    shows_its_law(MarkovPolicy.rated(np.repeat(rates, 1000)), theory.law(load_all([str(folder)])[0]))


_OWN = [0.5, 0.5, 0.25, 0.75]


@pytest.mark.parametrize("kind", ["markov-optimal", "systematic"])
@pytest.mark.parametrize(
    "what",
    [
        {"rates": "size"},
        {"rates": _OWN, "absence": "learned"},
        {"rates": "equal", "absence": "learned"},
        {"rates": [*_OWN, 0.5, 0.5]},  # two have left, and the others share k out: rates have not always been these
        {"rates": [1.0, 1 - 1e-9, 1e-9, 1e-15]},
    ],
)
def test_rates_that_are_not_those_of_the_whole_run_show_no_law(
    tmp_path: Path, kind: str, what: dict[str, object]
) -> None:
    of_tables = {"probabilities": [0.0, 1.0]} if kind == "markov-optimal" else {"jitter": 0.0}
    notes = {"kind": kind, "clients": 4, "per_round": 2, **of_tables}
    record(tmp_path / "m", [RoundRecord(1)], [], policy=notes | what, config={"policy": kind})
    record(tmp_path / "all", [RoundRecord(1)], [], policy=notes | {"rates": _OWN}, config={"policy": kind})
    changing, steady = load_all([str(tmp_path / "m"), str(tmp_path / "all")])
    assert theory.law(changing) is None and theory.law(steady) is not None


def test_a_dropout_that_is_learned_shows_no_law(tmp_path: Path) -> None:
    notes = {"kind": "markov-optimal", "clients": 4, "per_round": 2, "probabilities": [0.0, 1.0], "rates": "equal"}
    record(tmp_path / "m", [RoundRecord(1)], [], policy=notes | {"adaptive_dropout": True}, config={})
    assert theory.law(load_all([str(tmp_path / "m")])[0]) is None


@pytest.mark.parametrize("policy", ["markov", "random"])
def test_who_is_chosen_and_may_not_count_shows_no_law(tmp_path: Path, policy: str) -> None:
    sent = {"kind": "markov-increasing", "clients": N, "per_round": K + 2, "probabilities": MARKOV.probabilities}
    sent = sent if policy == "markov" else {"kind": "RandomSelection", "per_round": K + 2}
    own = {"clients-per-round": K, "num-clients": N, "over-selection": 1.0}
    for name, more, known in (
        ("over", {"clock": "always", "over-selection": 1.3}, False),
        ("away", {"clock": "generated"}, False),
        ("here", {"clock": "always"}, True),
        ("none", {"clock": ""}, True),
    ):
        record(tmp_path / name, [RoundRecord(1)], [], policy=sent, config=own | more)
        (run,) = load_all([str(tmp_path / name)])
        assert (theory.law(run) is not None) == known
        assert f"{K} of {N} clients a round" in sentence(run)


def test_measured_window_deviation(tmp_path: Path) -> None:
    chosen = play(tmp_path / "a")
    measured = charts_of(tmp_path / "a")["deviation"].data[0]
    took_part = np.array([[client in who for who in chosen] for client in range(N)])
    assert measured["x"] == [1, 2, 5, 10, 20]
    for window, value in zip(measured["x"], measured["y"], strict=True):
        blocks = took_part.reshape(N, ROUNDS // window, window).sum(axis=2)
        assert value == pytest.approx(blocks.std() / window, rel=1e-5)


def test_runs_overlay_in_their_own_colours(tmp_path: Path) -> None:
    play(tmp_path / "a")
    play(tmp_path / "b", policy="random", rounds=10)
    charts = charts_of(tmp_path / "a", tmp_path / "b")
    assert [trace["line"]["color"] for trace in charts["test-accuracy"].data] == ["--run0", "--run1"]
    assert [trace["line"]["color"] for trace in charts["intervals"].data] == ["--run0", "--run0", "--run1", "--run1"]
    assert "--run1" in [colour for _, colour in charts["participation-1"].data[0]["colorscale"]]
    assert [len(row) for row in charts["test-accuracy"].rows] == [3] * (ROUNDS + 1)
    assert charts["test-accuracy"].rows[-1][2] is None


def dropped_run(folder: Path) -> Path:
    parts = [
        Participation(0, "berlin", "trained", forced=True, weight=1.0),
        Participation(1, "rome & co", "refused", reason="layer <w> holds NaN"),
        Participation(2, "oslo", "late", reason="no reply in 5 s"),
    ]
    rounds = [RoundRecord(1, forced=True, participations=parts), RoundRecord(2, empty=True)]
    clients = [ClientRecord(c, name, 1) for c, name in enumerate(["berlin", "rome & co", "oslo", "paris"])]
    return record(folder, rounds, clients, policy={"kind": "OldestAge"}, config={"policy": "oldest-age"})


def test_forced_and_dropped_are_told_apart_and_listed(tmp_path: Path) -> None:
    folder = dropped_run(tmp_path / "d")
    chart = charts_of(folder)["participation-0"]
    assert chart.columns == ["round", "forced by the server", "dropped"]
    assert chart.rows == [[1, "0", "1, 2"], [2, "", ""]]
    assert chart.layout["yaxis"]["ticktext"] == ["berlin", "rome &amp; co", "oslo", "paris"]
    (run,) = load_all([str(folder)])
    assert run.history.counts.tolist() == [1, 1, 0, 0]  # a refused update was work; a late one may not have been
    text = page.render([run])
    assert "<td>rome &amp; co</td><td>refused</td><td>layer &lt;w&gt; holds NaN</td>" in text
    assert "<td>oslo</td><td>late</td><td>no reply in 5 s</td>" in text


def budgeted_run(
    folder: Path, trains: str = "selected", estimates: Sequence[Sequence[float]] | None = None, **more: str
) -> Path:
    """Record four rounds of three clients; ``estimates`` are (4, 3) the sensitivities that the server went by."""
    refreshed = [{0}, {1}, {0, 1}, set()]
    went_by = estimates or [[None] * 3] * 4
    rounds = [
        RoundRecord(
            t,
            spent=float(5 * len(who)),
            participations=[
                Participation(c, str(c), "trained", refreshed=c in who, sensitivity=went_by[t - 1][c]) for c in range(3)
            ],
        )
        for t, who in enumerate(refreshed, 1)
    ]
    clients = [
        ClientRecord(c, str(c), 1, size, 5.0, sensitivity)
        for c, (size, sensitivity) in enumerate(zip([5, 10, 15], [0.5, 1.0, 2.0], strict=True))
    ]
    policy = {"kind": "BudgetedRefresh", "budget": 10.0, "index": "whittle", "trains": trains, **more}
    return record(folder, rounds, clients, policy=policy, config={"policy": "wics", "budget": 10.0})


def test_what_wics_minimises_is_shown_where_ageing_is_not_linear(tmp_path: Path) -> None:
    """By hand: ages after rounds 1 to 4 are 0 1 0 1, 1 0 0 1 and 1 2 3 4; φ is 0.5, 1 and 2."""
    runs = [load_all([str(budgeted_run(tmp_path / "q", ageing="quadratic"))])[0]]
    runs += load_all([str(budgeted_run(tmp_path / "l"))])
    (row,) = [row for row in key_numbers(runs)[1] if row[0].startswith("ageing cost")]
    assert row[1:] == [f"{(0.5 * 2 + 1 * 2 + 2 * 30) / 12:.4g} (quadratic)", ""]


def test_budget_ages_and_objective(tmp_path: Path) -> None:
    charts = charts_of(budgeted_run(tmp_path / "w"))
    ages = np.array([[0, 1, 0, 1], [1, 0, 0, 1], [1, 2, 3, 4]])  # by hand: +1 a round, 0 where refreshed
    assert charts["ages-0"].data[0]["z"] == ages.tolist()
    assert charts["ages-0"].rows == [
        [t, pytest.approx(ages[:, t - 1].mean(), rel=1e-5), ages[:, t - 1].max()] for t in range(1, 5)
    ]
    spent, budget = charts["spending"].data
    assert charts["spending"].rows == [[t, s, 10] for t, s in enumerate([5, 5, 10, 0], 1)]
    assert spent["y"] == [5, 5, 10, 0]
    assert budget["y"] == [10, 10]
    running, floor = charts["objective"].data
    costs = np.array([0.5, 1.0, 2.0]) @ ages / 3
    assert running["y"] == pytest.approx(np.cumsum(costs) / np.arange(1, 5), rel=1e-5)
    assert all(low <= value for low, value in zip(floor["y"], running["y"], strict=True))
    assert floor["y"][-1] > 0
    # A refresh is what the policy hands out: training on old data is no part in the load.
    assert charts["counts"].data[0]["y"] == [2, 2, 0]
    assert charts["participation-0"].rows[0] == [1, "1, 2", "0"]


def test_estimated_sensitivities_are_shown_and_enter_p2(tmp_path: Path) -> None:
    """By hand: the sums of ages after rounds 1 to 4 are 2, 2 and 10, so that P2 is (0.1·2 + 0.3·2 + 0.6·10) / 12."""
    estimates = [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5], [0.15, 0.25, 0.6], [0.1, 0.3, 0.6]]
    folder = budgeted_run(tmp_path / "e", trains="all", estimates=estimates, sensitivities="estimated")
    charts = charts_of(folder)
    assert charts["sensitivities-0"].rows == [["0", 0.5, 0.1], ["1", 1, 0.3], ["2", 1.5, 0.6]]
    by_size, last = charts["sensitivities-0"].data
    assert (by_size["y"], last["y"]) == ([0.5, 1, 1.5], estimates[3])
    assert charts["objective"].data[0]["y"][-1] == pytest.approx(6.8 / 12, rel=1e-5)
    assert "estimates at the end" in charts["objective"].detail
    (row,) = [row for row in key_numbers(load_all([str(folder)]))[1] if row[0] == "P2"]
    assert row[1].startswith("0.5667 (floor ") and row[1].endswith(", φ as estimated)")
    declared = charts_of(budgeted_run(tmp_path / "d"))
    assert "sensitivities-0" not in declared and "estimate" not in declared["objective"].detail


class Tags(HTMLParser):
    """Collects tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self._silent = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data


def test_page_reaches_for_nothing_and_names_are_only_text(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    play(tmp_path / name)
    text = page.render(load_all([str(tmp_path / name)]))
    tags = Tags(text)
    for tag, attributes in tags.tags:
        assert tag not in ("img", "link", "iframe", "object", "a", "base")
        assert not {"src", "href", "srcset", "data", "onerror"} & attributes.keys()
    assert name in tags.text
    # In the charts too: nothing that Plotly takes for markup, and nothing that ends the script that holds them.
    trace = charts_of(tmp_path / name, budgeted_run(tmp_path / "w"))["test-accuracy"].data[0]
    assert trace["name"] == "&lt;img src=x onerror=alert(1)&gt;"
    (packed,) = re.findall(r'<script type="text/plain" id="figures">([A-Za-z0-9+/=]*)</script>', text)
    drawn = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(drawn) == 6
    assert {chart["title"] for chart in drawn} >= {"Test accuracy", "Load of each client"}
    assert [tag for tag, _ in tags.tags].count("script") == 3  # Plotly, figures, ours
    assert dict(tags.tags)["html"]["lang"] == "en"
    labelled = [attributes for _, attributes in tags.tags if attributes.get("class") == "chart"]
    assert len(labelled) == [tag for tag, _ in tags.tags].count("details") - 3 == 6  # and the numbers, keys and origin
    assert all(attributes["role"] == "application" and attributes["aria-label"] for attributes in labelled)


def test_summary_sentence_says_what_ran(tmp_path: Path) -> None:
    chosen = play(tmp_path / "a")
    counts = np.array([sum(client in who for who in chosen) for client in range(N)])
    jain = counts.sum() ** 2 / (N * (counts**2).sum())
    said = Tags(page.render(load_all([str(tmp_path / "a")]))).text
    assert "markov, 5 of 12 clients a round, on digits: 40 of 40 rounds, test accuracy 40.0 %" in said
    assert f"fairness of the load {jain:.3f}" in said
    met = {pair for who in chosen for pair in product(who, who) if pair[0] < pair[1]}
    assert f"pairs of clients that have trained together{len(met) / (N * (N - 1) / 2):.1%}" in "".join(said.split("\n"))


def test_refresh_pairs_are_not_training_pairs(tmp_path: Path) -> None:
    runs = load_all([str(budgeted_run(tmp_path / trains, trains)) for trains in ("all", "selected")])
    (row,) = [row for row in key_numbers(runs)[1] if row[0].startswith("pairs of clients")]
    assert row[1] == "" and row[2].endswith("%")


def test_a_run_without_rounds_and_one_still_going(tmp_path: Path) -> None:
    play(tmp_path / "new", rounds=0, status="running")
    text = page.render(load_all([str(tmp_path / "new")]))
    assert "no round is recorded yet (interrupted)" in text
    assert "<script" not in text
    play(tmp_path / "going", rounds=1, status="running")
    with only_player(tmp_path / "going"):
        text = Tags(page.render(load_all([str(tmp_path / "going"), str(tmp_path / "new")]))).text
    assert "1 of 40 rounds (still going)" in text


def test_a_bare_ledger_still_gives_a_page(tmp_path: Path) -> None:
    record(tmp_path / "bare", [RoundRecord(1, empty=True)], [])
    assert "1 round" in page.render(load_all([str(tmp_path / "bare")]))


def test_participations_of_a_round_not_yet_seen_are_left_out(tmp_path: Path) -> None:
    play(tmp_path / "a")
    with sqlite3.connect(tmp_path / "a" / "ledger.sqlite") as db:
        db.execute("DELETE FROM rounds WHERE round = ?", (ROUNDS,))
    (run,) = load_all([str(tmp_path / "a")])
    assert max(row["round"] for row in run.participations) == ROUNDS - 1


def test_axes_after_few_rounds_have_whole_ticks_and_labels(tmp_path: Path) -> None:
    play(tmp_path / "a", rounds=3)
    charts = charts_of(tmp_path / "a")
    for name, axes in [("test-accuracy", "x"), ("test-loss", "x"), ("participation-0", "xy"), ("counts", "xy")]:
        assert all(charts[name].layout[f"{axis}axis"]["dtick"] == 1 for axis in axes), name
    evenness = charts["deviation"].layout["yaxis"]
    low, high = evenness["range"]
    assert sum(low <= np.log10(tick) <= high for tick in evenness["tickvals"]) >= 2
    drawn = [value for trace in charts["deviation"].data for value in trace["y"] if value is not None]
    assert all(low <= np.log10(value) <= high for value in drawn)


def test_load_comes_first_and_lines_differ_without_colour(tmp_path: Path) -> None:
    play(tmp_path / "a", rounds=3)
    play(tmp_path / "b", rounds=3, policy="random")
    text = page.render(load_all([str(tmp_path / "a"), str(tmp_path / "b")]))
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[0] == "Load of each client"
    assert titles[-4:] == ["What differs", "All numbers", "Configuration", "Where this comes from"]
    first, rest = text.split("Configuration</h2>")
    assert (
        "<td>markov</td><td>random</td>" in first and "clients-per-round" in rest and "clients-per-round" not in first
    )
    lines = [trace["line"]["dash"] for trace in charts_of(tmp_path / "a", tmp_path / "b")["test-accuracy"].data]
    assert lines == ["solid", "dash"]
    assert "What differs" not in page.render(load_all([str(tmp_path / "a")]))


def large_run(label: str, each: int = 2, n: int = 3000) -> Run:
    rounds = [
        {"round": t} | dict.fromkeys(RoundRecord(t).__dict__.keys() - {"round", "participations", "nodes"})
        for t in range(1, 1201)
    ]
    parts = [
        {
            "round": t,
            "client": (7 * t + j) % n,
            "outcome": "trained",
            "forced": 0,
            "refreshed": 0,
            "weight": 0.5,
            "age": 1,
        }
        for t in range(1, 1201)
        for j in range(each)
    ]
    return Run(label, {"policy": {"clients": n}}, [], rounds, parts)


def test_large_runs_are_cut_to_what_a_screen_shows() -> None:
    run = large_run("large")
    charts = {chart.name: chart for chart in figures([run])}
    assert np.shape(charts["participation-0"].data[0]["z"]) == (250, 1000)
    assert "250 of the 3000 clients" in charts["participation-0"].note
    assert len(charts["counts"].rows) == 1000
    assert len(json.dumps([chart.data for chart in charts.values()])) < 3e6


def test_a_page_adds_half_a_megabyte_to_plotly() -> None:
    assert len(page.render([large_run("large", 100)]).encode()) - len(page._packed(plotly())) < 0.55e6


# Files --------------------------------------------------------------------------------------------------------------


def test_the_page_lands_in_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(tmp_path / "runs" / "a", rounds=2)
    monkeypatch.chdir(tmp_path)
    assert page.write(["a"]) == Path("runs/a/report.html")
    (tmp_path / "a").mkdir()  # another folder of that name, which is no run's
    assert page.write(["a"]) == Path("runs/a/report.html")
    assert page.write([str(tmp_path / "runs" / "a")], tmp_path / "deep" / "page.html").is_file()
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["page.html"]


def test_runs_of_one_name_are_distinguished(tmp_path: Path) -> None:
    for place in "xy":
        play(tmp_path / place / "a", rounds=1)
    folders = [str(tmp_path / place / "a") for place in "xyx"]
    assert [run.label for run in load_all(folders)] == ["x/a", "y/a"]  # and no more of where they lie


def test_errors_name_the_thing_and_the_remedy(tmp_path: Path) -> None:
    with refused("run"):
        load_all(["nowhere"])
    (tmp_path / "hollow").mkdir()
    with refused("run"):
        load_all([str(tmp_path / "hollow")])
    (tmp_path / "hollow" / "ledger.sqlite").write_bytes(b"no database at all, " * 100)
    with refused("ledger"):
        load_all([str(tmp_path / "hollow")])
    (tmp_path / "other").mkdir()
    sqlite3.connect(tmp_path / "other" / "ledger.sqlite").execute("CREATE TABLE something (x)").connection.close()
    with refused("ledger"):
        load_all([str(tmp_path / "other")])
    play(tmp_path / "a", rounds=1)
    with refused("--output"):
        page.write([str(tmp_path / "a")], tmp_path)
    with refused("--output"):
        page.write([str(tmp_path / "a")], tmp_path / "a" / "ledger.sqlite" / "page.html")


def test_a_file_that_is_no_page_is_not_written_over(tmp_path: Path) -> None:
    play(tmp_path / "a", rounds=1)
    ledger = tmp_path / "a" / "ledger.sqlite"
    notes = tmp_path / "notes.html"
    notes.write_text("<!DOCTYPE html>\n<title>Mine</title>")
    for path in (ledger, notes):
        before = path.read_bytes()
        with refused("--output"):
            page.write([str(tmp_path / "a")], path)
        assert path.read_bytes() == before
    (tmp_path / "empty.html").touch()
    for _ in range(2):  # its own it writes anew
        assert page.write([str(tmp_path / "a")], tmp_path / "empty.html").stat().st_size > 9999


def test_command_prints_the_path(tmp_path: Path) -> None:
    from aoi_fl.cli.main import app

    play(tmp_path / "a", rounds=2)
    result = CliRunner().invoke(app, ["report", str(tmp_path / "a"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["page"] == str(tmp_path / "a" / "report.html")


# Browser ------------------------------------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed, in which a page could be opened")
@pytest.mark.parametrize("dark", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_charts_are_drawn_in_a_browser(tmp_path: Path, dark: int) -> None:
    play(tmp_path / "a <b>")
    folders = [str(tmp_path / "a <b>"), str(budgeted_run(tmp_path / "w"))]
    path = page.write(folders, tmp_path / "page.html")
    spy = "<script>window.onerror = message => { document.title = 'ERROR ' + message; };</script>"
    path.write_text(path.read_text().replace("<body>", "<body>" + spy))
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"),
        *(f"--blink-settings=preferredColorScheme={1 - dark}", "--virtual-time-budget=5000", "--dump-dom"),
        path.as_uri(),
    ]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    if "AoI-FL report" not in seen and "ERROR" not in seen:
        pytest.skip(f"{BROWSER} could not open a file under {tmp_path}")
    assert "ERROR" not in seen[seen.index("<title>") : seen.index("</title>")]
    drawn = Tags(seen)
    charts = [attributes["id"] for _, attributes in drawn.tags if "js-plotly-plot" in (attributes.get("class") or "")]
    assert charts == [chart.name for chart in figures(load_all(folders))]
    assert sum(attributes.get("class") == "main-svg" for _, attributes in drawn.tags) >= len(charts)
    colours = {"rgb(76, 147, 234)", "rgb(42, 120, 214)"}
    strokes = {colour for colour in colours if f"stroke: {colour}" in seen}
    assert strokes == {"rgb(76, 147, 234)" if dark else "rgb(42, 120, 214)"}
