"""A run in one sentence, the uncertainty of seeds, and tables of runs: configurations, dropped replies."""

from collections.abc import Sequence
from typing import Any

from aoi_fl.report.judging import LEAST_SEEDS, interval
from aoi_fl.report.measure import judge
from aoi_fl.report.provenance import OF_THE_MACHINE, changed, public, without_paths
from aoi_fl.report.quantities import Table
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Setting
from aoi_fl.report.template import fill

_MOST_DROPPED = 500


def sentence(run: RecordedRun) -> str:
    """Return policy, n, k, data set, rounds, final accuracy and fairness in one sentence.

    Examples
    --------
    >>> config = {"policy": "random", "clients-per-round": 5, "num-clients": 12}
    >>> sentence(RecordedRun("a", {"config": config, "policy": {"per_round": 7}}, [], [], []))  # two more
    'random, 5 of 12 clients a round: no round is recorded yet.'
    """
    dataset, main = run.config.get("dataset"), judge(run.rounds)
    dataset = dataset and public("dataset", dataset)
    return fill("sentence.txt", run=run, dataset=dataset, main=main, learned=main.end(run))


def sentences(settings: Sequence[Setting]) -> list[str]:
    """Return sentences on the uncertainty of settings with several seeds, and of single runs."""
    return fill("seeds.txt", settings=settings, interval=interval, least_seeds=LEAST_SEEDS).splitlines()


def configuration(runs: Sequence[RecordedRun]) -> tuple[Table, Table]:
    """Return the keys in which runs differ, a column for each run, and the keys that they share.

    The shared keys are those that differ from the defaults, or all keys of another app's runs. Names and folders do not
    count as differences. A single run has none.
    """
    keys = sorted(set().union(*(run.config for run in runs)))
    rows = [[key, *(_value(key, run.config.get(key)) for run in runs)] for key in keys]
    columns = ["key", *(run.label for run in runs)]
    differing = [row for row in rows if len(set(row[1:])) > 1 and row[0] not in OF_THE_MACHINE]
    changes = [changed(run) for run in runs]
    usual = None if None in changes else set().union(*(change or {} for change in changes))
    agreeing = [row[:2] for row in rows if len(set(row[1:])) == 1 and (usual is None or row[0] in usual)]
    return (columns, differing), (["key", "value"], agreeing)


def dropped(runs: Sequence[RecordedRun]) -> tuple[Table, int]:
    """Return the latest dropped replies with client and reason, and the number of all of them."""
    columns = ["run", "round", "client", "name", "outcome", "reason"]
    rows = [
        [run.label, *(row[name] for name in columns[1:-1]), without_paths(row["reason"] or "")]
        for run in runs
        for row in run.dropped
    ]
    return (columns, rows[-_MOST_DROPPED:]), len(rows)


def _value(key: str, value: Any) -> str:
    if value is None:
        return ""
    return ("off", "on")[value] if isinstance(value, bool) else public(key, value)
