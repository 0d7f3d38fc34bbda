"""A run's numbers in Prometheus' text format, for dashboards and alerts.

Each scrape reads a few sums from the ledger. Names end with their units, as Prometheus requires.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

import aoi_fl
from aoi_fl.protocol.measures import KINDS
from aoi_fl.protocol.records import PHASES
from aoi_fl.report.runs import DROPPED, RecordedRun, readable
from aoi_fl.report.state import STATES
from aoi_fl.report.summary_card import glance, unread
from aoi_fl.science.spending import BudgetAccount
from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import DAMAGE, Row

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


def exposition(folder: Path) -> bytes:
    """Return the metrics of the run in a folder.

    A run without a readable ledger has only its state (``waiting``, ``unreadable``).
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Run(folder))
    return generate_latest(registry)


@dataclass(frozen=True)
class _Run(Collector):
    folder: Path

    def collect(self) -> Iterator[Metric]:
        seen = glance(self.folder)
        state, metrics = seen.state, []
        try:
            if seen.run is not None:
                metrics = list(_of_run(seen.run, ledger.totals(self.folder / LEDGER)))
        except DAMAGE as error:
            state = unread(error)
        yield InfoMetricFamily("aoi_build", "The software of the page.", value={"version": aoi_fl.__version__})
        states = {name: name == state.name for name in STATES}
        yield _labelled("aoi_run_state", "1 for the run's present state, 0 for the other states.", "state", states)
        yield from metrics


def _of_run(run: RecordedRun, sums: Mapping[str, float]) -> Iterator[Metric]:
    """Yield the metrics of a run, from its last rounds and from sums over all of them."""
    what = {"run": run.label, "policy": readable(run.kind)}
    yield InfoMetricFamily("aoi_run", "The run's name and settings.", value=what)
    if run.planned is not None:
        yield _gauge("aoi_rounds_planned", "Number of rounds of the run.", run.planned)
    if isinstance(nodes := run.about.get("nodes"), dict):
        expected, refused = run.config.get("num-clients") or 0, ledger.refused_clients(run.about)
        yield _gauge("aoi_clients_connected", "Nodes connected at the last roll call.", nodes.get("connected") or 0)
        yield _gauge("aoi_clients_expected", "Clients that the run waits for at its start.", expected)
        yield _gauge("aoi_clients_refused", "Connected clients that cannot join.", len(refused))
        reasons = dict.fromkeys(map(readable, refused), 1)
        yield _labelled("aoi_client_refused", "1 for each client that cannot join.", "reason", reasons)
    yield _gauge("aoi_clients", "Clients of the run so far.", sums["clients"])
    never = sums["clients"] - sums["reached"]
    yield _gauge("aoi_clients_never_reached", "Clients of the run that have never trained.", never)
    if run.rounds:
        yield from _of_rounds(run.rounds)
    outcomes = {outcome: sums.get(outcome, 0) for outcome in ("trained", *DROPPED, "declined")}
    text = "Participations so far, by outcome."
    yield _labelled("aoi_participations", text, "outcome", outcomes, CounterMetricFamily)
    for name, key, text in (
        ("aoi_messages", "messages", "Messages to clients and their replies so far, two per exchange."),
        ("aoi_empty_rounds", "empty", "Rounds without a usable update so far."),
        ("aoi_forced_rounds", "forced", "Rounds with a forced client, so far."),
    ):
        yield CounterMetricFamily(name, text, sums.get(key, 0))
    if run.budgeted:
        yield from _of_budget(run.policy, sums.get("spent", 0.0))


def _of_rounds(rounds: list[Row]) -> Iterator[Metric]:
    last = rounds[-1]
    for column, (name, text) in _LAST.items():
        values = (r.get(column) for r in (rounds if column in _EVALUATED else rounds[-1:]))
        known = [value for value in values if value is not None]
        if known:
            yield _gauge(name, text, known[-1])
    ended = "aoi_round_ended_timestamp_seconds", "End of the last round; its age is time() minus this."
    yield _gauge(*ended, last["started"] + last["seconds"])
    parts = {part: last[part] for part in _PARTS}
    yield _labelled("aoi_round_clients", "Clients of the last round, by their part in it.", "part", parts)
    # Earlier versions' ledgers lack the phases.
    phases = {str(phase): seconds for phase in PHASES if (seconds := last.get(f"{phase}_seconds")) is not None}
    yield _labelled("aoi_round_phase_seconds", "Durations of the last round's phases.", "phase", phases)


def _of_budget(policy: Mapping[str, Any], spent: float) -> Iterator[Metric]:
    yield _gauge("aoi_budget", "The budget of a round.", policy["budget"])
    yield CounterMetricFamily("aoi_spent", "The spending of all rounds so far.", spent)
    if "total_budget" in policy:
        total = policy["total_budget"]
        yield _gauge("aoi_total_budget", "The budget of all rounds.", total)
        left = BudgetAccount(policy["budget"], total, paid=spent).left
        yield _gauge("aoi_budget_left", "The rest of the total budget.", left)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, float(value))


def _labelled(
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Return a metric with a value for each of a label's values."""
    family = kind(name, text, labels=[label])
    for each, value in values.items():
        family.add_metric([each], float(value))
    return family
