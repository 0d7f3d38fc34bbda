"""A run's numbers in Prometheus' text format, for dashboards and alerts.

Each scrape reads a few sums from the ledger. Names end with their units, as Prometheus requires.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

import aoi_fl
from aoi_fl.protocol.measures import KINDS
from aoi_fl.protocol.records import PHASES
from aoi_fl.report.corruption import check, check_run
from aoi_fl.report.runs import DROPPED, find, readable
from aoi_fl.report.state import STATES, tell
from aoi_fl.report.summary_card import unread
from aoi_fl.science.errors import AoiError
from aoi_fl.science.spending import BudgetAccount
from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import DAMAGE

FORMAT = CONTENT_TYPE_LATEST  # the media type of :func:`exposition`

# The last round's metrics: the ledger's column, the name and the help.
_LAST = {
    "round": ("aoi_round", "The last complete round."),
    "seconds": ("aoi_round_seconds", "Duration of the last round."),
    "train_loss": ("aoi_train_loss", "The mean training loss that clients reported in the last round."),
    "test_loss": ("aoi_test_loss", "The model's loss on the test data after the last evaluated round."),
    "test_accuracy": ("aoi_test_accuracy", "The model's accuracy on the test data after that round, from 0 to 1."),
    "test_rmse": ("aoi_test_rmse", "In a regression, the root of its mean squared error on the test data."),
    "client_loss": ("aoi_client_loss", "The model's loss on the clients' own data after the last evaluated round."),
    "client_accuracy": ("aoi_client_accuracy", "Its accuracy there, from 0 to 1."),
    "client_rmse": ("aoi_client_rmse", "In a regression, the root of its mean squared error there."),
    "epsilon": ("aoi_epsilon", "A private run's ε at the end of the last round, without amplification."),
    "dropout": ("aoi_dropout", "The probability that a willing client is lost, in the last table."),
}
_PARTS = ("asked", "willing", "trained", "declined", "dropped")
_EVALUATED = tuple(f"{source}_{kind}" for source in ("test", "client") for kind in KINDS)
_BACK = 100  # rounds that are searched for the last evaluation


def exposition(run: str) -> bytes:
    """Return the metrics of a run, given by its folder or its name under ``runs``.

    A run without a readable ledger has only its state (``waiting``, ``unreadable``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Run(find(run).resolve()))
    return generate_latest(registry)


class _Run(Collector):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        try:
            metrics = list(self._read())  # all metrics, or only version and state
        except (AoiError, *DAMAGE) as error:
            metrics = [_state(unread(error).name)]
        yield InfoMetricFamily("aoi_build", "The software of the page.", value={"version": aoi_fl.__version__})
        yield from metrics

    def _read(self) -> Iterator[Metric]:
        path = self._folder / LEDGER
        about, rounds, sums = ledger.read_run(path), ledger.last_rounds(path, _BACK), ledger.totals(path)
        check_run(about)
        check("rounds", rounds)
        yield _state(tell(self._folder, about, rounds).name)
        config = about.get("config") or {}
        what = {
            "run": readable(self._folder.name),
            "policy": readable(str(config.get("policy") or (about.get("policy") or {}).get("kind"))),
        }
        yield InfoMetricFamily("aoi_run", "The run's name and settings.", value=what)
        if (rounds_planned := ledger.planned(config)) is not None:
            yield _gauge("aoi_rounds_planned", "Number of rounds of the run.", rounds_planned)
        if isinstance(nodes := about.get("nodes"), dict):
            yield from _of_nodes(nodes, ledger.refused_clients(about), config)
        met, reached = sums["clients"], sums["reached"]
        yield _gauge("aoi_clients", "Clients of the run so far.", met)
        yield _gauge("aoi_clients_never_reached", "Clients of the run that have never trained.", met - reached)
        yield from _of_rounds(rounds)
        yield from _sums(sums)
        yield from _money(sums.get("spent", 0.0), about.get("policy") or {})


def _state(name: str) -> Metric:
    family = GaugeMetricFamily(
        "aoi_run_state", "1 for the run's present state, 0 for the other states.", labels=["state"]
    )
    for state in STATES:
        family.add_metric([state], state == name)
    return family


def _of_nodes(nodes: Mapping[str, Any], refused: list[str], config: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge("aoi_clients_connected", "Nodes connected at the last roll call.", nodes.get("connected") or 0)
    yield _gauge("aoi_clients_expected", "Clients that the run waits for at its start.", config.get("num-clients") or 0)
    yield _gauge("aoi_clients_refused", "Connected clients that cannot join.", len(refused))
    reasons = GaugeMetricFamily("aoi_client_refused", "1 for each client that cannot join.", labels=["reason"])
    for why in refused:
        reasons.add_metric([readable(why)], 1.0)
    yield reasons


def _of_rounds(rounds: list[dict[str, Any]]) -> Iterator[Metric]:
    if not rounds:
        return
    last = rounds[-1]
    for column, (name, text) in _LAST.items():
        values = (r.get(column) for r in (rounds if column in _EVALUATED else rounds[-1:]))
        known = [value for value in values if value is not None]
        if known:
            yield _gauge(name, text, known[-1])
    ended = "aoi_round_ended_timestamp_seconds", "End of the last round; its age is time() minus this."
    yield _gauge(*ended, last["started"] + last["seconds"])
    parts = GaugeMetricFamily("aoi_round_clients", "Clients of the last round, by their part in it.", labels=["part"])
    for part in _PARTS:
        parts.add_metric([part], float(last[part]))
    yield parts
    phases = GaugeMetricFamily("aoi_round_phase_seconds", "Durations of the last round's phases.", labels=["phase"])
    for phase in PHASES:
        if (seconds := last.get(f"{phase}_seconds")) is not None:  # earlier versions' ledgers lack it
            phases.add_metric([phase], seconds)
    yield phases


def _sums(sums: Mapping[str, float]) -> Iterator[Metric]:
    outcomes = CounterMetricFamily("aoi_participations", "Participations so far, by outcome.", labels=["outcome"])
    for outcome in ("trained", *DROPPED, "declined"):
        outcomes.add_metric([outcome], sums.get(outcome, 0))
    yield outcomes
    yield CounterMetricFamily(
        "aoi_messages", "Messages to clients and their replies so far, two per exchange.", sums.get("messages", 0)
    )
    yield CounterMetricFamily("aoi_empty_rounds", "Rounds without a usable update so far.", sums.get("empty", 0))
    yield CounterMetricFamily("aoi_forced_rounds", "Rounds with a forced client, so far.", sums.get("forced", 0))


def _money(spent: float, policy: Mapping[str, Any]) -> Iterator[Metric]:
    if "budget" not in policy:
        return
    yield _gauge("aoi_budget", "The budget of a round.", policy["budget"])
    yield CounterMetricFamily("aoi_spent", "The spending of all rounds so far.", spent)
    if "total_budget" in policy:
        total = policy["total_budget"]
        yield _gauge("aoi_total_budget", "The budget of all rounds.", total)
        left = BudgetAccount(policy["budget"], total, paid=spent).left
        yield _gauge("aoi_budget_left", "The rest of the total budget.", left)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, float(value))
