"""Runs of a known course, recorded as a strategy records them."""

import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from fastapi.testclient import TestClient

from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.report import site
from aoi_fl.report.figures import figures
from aoi_fl.report.runs import load_all
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import RandomSelector, everyone
from aoi_fl.science.simulate import simulate
from aoi_fl.server.ledger import Ledger
from tests.ledgers import noted

N, K, ROUNDS = 12, 5, 40

MARKOV = MarkovPolicy.increasing(N, K, 3)


class Page(HTMLParser):
    """The tags of a page with their attributes, and its words outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._silent = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        if data.strip() and not self._silent:
            self.words.append(data.strip())

    @property
    def links(self):
        return [attributes["href"] for _, attributes in self.tags if "href" in attributes]


def record(folder, rounds, clients, **about):
    folder.mkdir(parents=True)
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.note(**({"status": "completed"} | about))
    ledger.add_clients(clients)
    for row in rounds:
        ledger.add_round(row)
    ledger.close()
    return folder


def clients(count):
    return [ClientRecord(c, str(c), 1) for c in range(count)]


def trained(chosen):
    """Return the participations of clients that have trained, with equal weights."""
    return [Participation(c, str(c), "trained", age=3, weight=1 / len(chosen)) for c in chosen]


def play(folder, rounds=ROUNDS, policy="markov", **about):
    """Record a run of the simulator and return who took part, a list of client numbers a round."""
    people = everyone(np.ones(N, np.int64))
    history = simulate(MARKOV if policy == "markov" else RandomSelector(K, 3), people, max(rounds, 1), 3)
    chosen = [history.selection(t).clients.tolist() for t in range(1, rounds + 1)]
    table = {"kind": "markov-increasing", "clients": N, "per_round": K, "probabilities": MARKOV.probabilities}
    notes = {
        "policy": table if policy == "markov" else {"kind": "RandomSelection"},
        "config": {"policy": policy, "clients-per-round": K, "num-server-rounds": ROUNDS, "dataset": "digits"},
        "initial_accuracy": 0.1,
    }
    losses = [float("nan") if t == 2 else 1 / t for t in range(1, rounds + 1)]
    rows = [
        RoundRecord(t, test_accuracy=t / 100, test_loss=loss, participations=trained(who))
        for t, (who, loss) in enumerate(zip(chosen, losses, strict=True), 1)
    ]
    record(folder, rows, clients(N), **(notes | about))
    return chosen


def play_minutes(folder, names, rounds=3, lost=("late", "refused"), **about):
    """Record rounds of a minute that lose the last two clients, and after which others have announced the next one."""
    played = []
    for t in range(1, rounds + 1):
        parts = [Participation(c, name, "trained", next_round=t + 1 + 3 * c % 4) for c, name in enumerate(names)]
        parts[-2:] = [replace(part, outcome=how, next_round=None) for part, how in zip(parts[-2:], lost, strict=True)]
        when = {"started": time.time() - 60 * (rounds - t + 1), "seconds": 60.0}
        played.append(RoundRecord(t, test_accuracy=1 - 0.9 / t, participations=parts, **when))
    return noted(record(folder, played, [], **about), since=0)


def browse(run=None):
    """Return a client of a run's page, or of the list of runs; it raises what the server would answer 500 to."""
    return TestClient(site.application(run and str(run)))


def loaded(*folders):
    return load_all([str(folder) for folder in folders])


def drawn(*runs):
    return {chart.name: chart for chart in figures(runs)}


def charts_of(*folders):
    return drawn(*loaded(*folders))


def dropped_run(folder):
    parts = [
        Participation(0, "berlin", "trained", forced=True, weight=1.0),
        Participation(1, "rome & co", "refused", reason="layer <w> holds NaN"),
        Participation(2, "oslo", "late", reason="no reply in 5 s"),
    ]
    rounds = [RoundRecord(1, forced=True, participations=parts), RoundRecord(2, empty=True)]
    clients = [ClientRecord(c, name, 1) for c, name in enumerate(["berlin", "rome & co", "oslo", "paris"])]
    return record(folder, rounds, clients, policy={"kind": "OldestAge"}, config={"policy": "oldest-age"})


def budgeted_run(folder, trains="selected", estimates=None, **more):
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
