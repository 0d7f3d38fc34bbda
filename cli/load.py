"""Show a simulation's measures in the terminal: the clients' load, the data's freshness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aoi_fl.report.output import bar, print_facts, print_table

if TYPE_CHECKING:
    from aoi_fl.science.load import LoadMetrics
    from aoi_fl.science.staleness import Freshness

_FACTS = {
    "interval_mean": "E[X], rounds between participations",
    "interval_variance": "Var[X]",
    "round_mean": "clients a round, mean",
    "round_deviation": "clients a round, standard deviation",
    "out_of_reach": "clients a round, not achievable by availability",
    "mean": "participations a client, mean",
    "range": "participations a client, least to most",
    "clients_never_reached": "clients never reached",
    "data_a_participation": "data a participation, an average client's is 1",
    "jain": "Jain's fairness index",
    "weight_variance": "Σ Var[ω], weight variance",
    "empty_rounds": "empty rounds",
    "mean_age": "mean age, rounds missed",
    "peak_age": "largest age",
    "met": "share of pairs that have trained together",
}


def show_load(metrics: LoadMetrics, title: str, more: Mapping[str, float]) -> None:
    """Show the load metric, its fairness, clients without load, and longer windows.

    ``more`` has ``clients_never_reached``, ``data_a_participation``, the mean number of examples of a participation,
    relative to an average client's, and perhaps ``out_of_reach``, the number of participations per round that clients
    cannot achieve, because they are not available often enough.
    """
    count = sum(metrics.interval_counts.values())
    most = max(metrics.interval_counts.values(), default=0)
    part = metrics.participation
    numbers = {**vars(metrics), **vars(part), **more, "range": f"{part.min} to {part.max}", "met": metrics.met}
    print_facts(title, [(text, numbers[key]) for key, text in _FACTS.items() if key in numbers])
    print_table(
        "Intervals X",
        ["X", "how often", "share", ""],
        [(x, c, c / count, bar(c, most)) for x, c in metrics.interval_counts.items()],
    )
    print_table(
        "Over T rounds",
        ["T", "√Var(Y)/T, spread of load", "pairs of clients that have met by then"],
        [(t, spread, metrics.pairs_met.get(t)) for t, spread in metrics.window_deviation.items()],
    )


def show_freshness(freshness: Freshness, ageing: str) -> None:
    """Show the age of data and the payments for refreshes."""
    other = [] if ageing == "linear" else [(f"weighted {ageing} ageing cost, which WICS minimises", freshness.ageing)]
    print_facts(
        "Freshness of data",
        [
            *other,
            ("P2, weighted age" + (", which WICS minimises" if not other else ""), freshness.p2),
            ("floor under P2 in the long run", freshness.floor),
            ("average age, weighted by size", freshness.weighted_age),
            ("spent a round, mean", freshness.spent["mean"]),
            ("spent a round, most", freshness.spent["max"]),
        ],
    )
