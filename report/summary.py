"""A run in one sentence, and tables of runs: numbers, configurations, dropped replies."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from aoi_fl.report import budget, measure, simulated, theory
from aoi_fl.report.provenance import OF_THE_MACHINE, changed, public, without_paths
from aoi_fl.report.runs import Run
from aoi_fl.science.ageing import AGEING
from aoi_fl.science.load import LoadMetrics
from aoi_fl.science.names import Ageing
from aoi_fl.server import ledger

Table = tuple[list[str], list[list[str]]]
_MOST_DROPPED = 500
NOTHING = 1e-12  # smaller numbers are rounding errors of zero


def sentence(run: Run) -> str:
    """Return policy, n, k, data set, rounds, final accuracy and fairness in one sentence."""
    policy = str(run.config.get("policy") or run.policy.get("kind") or "an unnamed policy")
    per_round = run.config.get("clients-per-round") or run.policy.get("per_round")  # the policy's may be over-selected
    if run.budgeted:
        selected = f"data of {run.size} clients refreshed under a budget of {run.policy['budget']:g} a round"
    elif per_round:
        selected = f"{per_round} of {run.size} clients a round"
    else:
        selected = f"{run.size} clients"
    words = f"{policy}, {selected}"
    if run.config.get("dataset"):
        words += f", on {public('dataset', run.config['dataset'])}"
    planned = ledger.planned(run.config)
    done = f"{len(run.rounds)} of {planned}" if planned else str(len(run.rounds))
    if not run.rounds:
        return f"{words}: no round is recorded yet{_going(run)}."
    words += f": {done} round{'s' if (planned or len(run.rounds)) != 1 else ''}{_going(run)}"
    main = measure.judge(run.rounds)
    learned = main.end(run)
    if learned is not None:
        words += f", {main.name} {main.show(learned, 1)}"
    if run.size:
        words += f", fairness of the load {run.measured.participation.jain:.3f} (Jain’s index; 1 is perfectly even)"
    return words + "."


def _going(run: Run) -> str:
    words = {
        "running": " (still going)",
        "interrupted": " (interrupted)",
        "stopped": " (stopped: no usable update arrived)",
        "failed": " (the run failed)",
    }
    return words.get(run.status, "")


def key_numbers(runs: Sequence[Run]) -> Table:
    """Return the key numbers, a column for each run, without rows that no run has."""
    numbers = _NUMBERS | _at_the_end(measure.more(name for run in runs for name in (run.rounds or [{}])[-1]))
    rows = [[name, *(show(run) for run in runs)] for name, show in numbers.items()]
    return ["", *(run.label for run in runs)], [row for row in rows if any(row[1:])]


def configuration(runs: Sequence[Run]) -> tuple[Table, Table]:
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


def dropped(runs: Sequence[Run]) -> tuple[Table, int]:
    """Return the latest dropped replies with client and reason, and the number of all of them."""
    columns = ["run", "round", "client", "name", "outcome", "reason"]
    rows = [
        [
            run.label,
            str(row["round"]),
            str(row["client"]),
            str(row["name"]),
            row["outcome"],
            without_paths(row["reason"] or ""),
        ]
        for run in runs
        for row in run.dropped
    ]
    return (columns, rows[-_MOST_DROPPED:]), len(rows)


def _value(key: str, value: Any) -> str:
    if value is None:
        return ""
    return ("off", "on")[value] if isinstance(value, bool) else public(key, value)


def _number(value: float | None, form: str = ".4g") -> str:
    if value is None or not np.isfinite(value):
        return ""
    return format(0.0 if abs(value) < NOTHING else value, form)


def _measured(show: Callable[[LoadMetrics], float | str | None]) -> Callable[[Run], str]:
    def cell(run: Run) -> str:
        if run.empty:
            return ""
        value = show(run.measured)
        return value if isinstance(value, str) else _number(value)

    return cell


def _weighted(show: Callable[[LoadMetrics], float | None]) -> Callable[[Run], str]:
    """Show measures of the weights; under a budget unrefreshed clients have weights, too."""
    return lambda run: "" if run.budgeted else _measured(show)(run)


def _interval(moment: str) -> Callable[[Run], str]:
    def cell(run: Run) -> str:
        measured = _measured(lambda metrics: getattr(metrics, moment))(run)
        policy = theory.law(run)
        if not measured or policy is None:
            return measured
        short = ", of a longer run" if len(run.rounds) < 4 * policy.longest_mean else ""
        return f"{measured} (theory {_number(getattr(policy, moment))}{short})"

    return cell


def _objective(run: Run) -> str:
    if (found := budget.objective_and_floor(run)) is None:
        return ""
    by = ", φ as estimated" if run.estimated else ""
    return f"{_number(found[0])} (floor {_number(found[1])}{by})"


def _ageing(run: Run) -> str:
    """Show the cost that WICS minimises if it is not linear; the linear cost is P2."""
    known, ageing = budget.payments_and_sensitivities(run), str(run.policy.get("ageing"))
    if known is None or run.empty or ageing not in AGEING:
        return ""
    return f"{_number(float(budget.running_objective(run, known[1], cast(Ageing, ageing))[-1]))} ({ageing})"


def _spent(run: Run) -> str:
    spent = run.column("spent")
    if not run.budgeted or not np.isfinite(spent).any():
        return ""
    return f"{np.nanmean(spent):.4g} mean, {np.nanmax(spent):.4g} most, of {run.policy['budget']:g}"


def _epsilon(run: Run) -> str:
    spent = run.column("epsilon")
    if not np.isfinite(spent).any():
        return ""
    delta = run.config.get("delta")
    return f"{np.nanmax(spent):.5g}{'' if delta is None else f', δ = {delta:g}'}"


def _at_the_end(measures: Sequence[measure.LedgerMeasure]) -> dict[str, Callable[[Run], str]]:
    return {f"{one.name} at the end": partial(_end, one) for one in measures}


def _end(one: measure.LedgerMeasure, run: Run) -> str:
    return one.show(one.end(run))


_NUMBERS: dict[str, Callable[[Run], str]] = {
    "status": lambda run: run.status,
    "rounds recorded": lambda run: str(len(run.rounds)),
    **{
        name: show
        for one in measure.JUDGES
        for name, show in (*_at_the_end([one]).items(), (f"best {one.name}", one.best))
    },
    **_at_the_end(measure.LOSSES),
    "rounds whose test loss is not a number": lambda run: str(int(np.isinf(run.column("test_loss")).sum()) or ""),
    "clients a round, mean": lambda run: _number(len(run.selected[0]) / len(run.rounds)) if run.rounds else "",
    "rounds a client took part in": _measured(
        lambda m: f"{m.participation.min} to {m.participation.max}, mean {m.participation.mean:.4g}"
    ),
    "Jain’s fairness index": _measured(lambda m: m.participation.jain),
    "mean of X": _interval("interval_mean"),
    "variance of X": _interval("interval_variance"),
    "mean age, largest age": _measured(lambda m: f"{m.mean_age:.4g}, {m.peak_age}"),
    "Σ Var[ω]": _weighted(lambda m: m.weight_variance),
    "mean of Σ ω² − 1/n": _weighted(lambda m: m.weight_dispersion),
    # Only if no more clients train than are selected.
    "pairs of clients that have trained together": lambda run: (
        "" if run.policy.get("trains") == "all" else _measured(lambda m: "" if m.met is None else f"{m.met:.1%}")(run)
    ),
    "rounds without participants": _measured(lambda m: str(m.empty_rounds)),
    "forced rounds": lambda run: str(int(np.nansum(run.column("forced")))),
    "dropped replies": lambda run: str(len(run.dropped)),
    "P2": _objective,
    "ageing cost, weighted like P2": _ageing,
    "payments a round": _spent,
    "ε spent, without amplification": _epsilon,
    **simulated.NUMBERS,
    "seconds a round, mean": lambda run: _number(float(run.column("seconds").mean())) if run.rounds else "",
}
