"""How evenly the load is spread over time: the law of X and √Var(Y)/T, measured and in theory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aoi import load
from report import theory
from report.chart import Chart, colour, layout, line, plain, text, theory_line
from report.runs import Run

_MOST_BINS = 60


def intervals(runs: Sequence[Run]) -> Chart | None:
    """Return the shares of the intervals X between two selections of a client, with the pmf of theory over them.

    Where intervals are long, several lengths share a bar, and so do their probabilities.
    """
    counts = {i: load.interval_counts(run.history) for i, run in enumerate(runs)}
    counts = {i: count for i, count in counts.items() if count}
    if not counts:
        return None
    longest = max(max(count) for count in counts.values())
    width = -(-longest // _MOST_BINS)
    first = np.arange(1, longest + 1, width)
    middle = first + (width - 1) / 2
    data: list[dict[str, Any]] = []
    columns = ["rounds X"]
    table = [[str(a) if width == 1 else f"{a}–{a + width - 1}" for a in first.tolist()]]
    for i, count in counts.items():
        label = runs[i].label
        bins = np.zeros(len(first))
        np.add.at(bins, (np.array(list(count)) - 1) // width, list(count.values()))
        share = plain(bins / bins.sum())
        hover = "%{customdata} rounds: %{y:.4f}"
        data.append(
            {
                "type": "bar",
                "name": "measured" if len(runs) == 1 else text(label),
                "x": plain(middle),
                "y": share,
                "customdata": table[0],
                "marker": {"color": colour(i), "opacity": 0.75},
                "hovertemplate": f"{hover}<extra>{text(label)}</extra>",
            }
        )
        columns += [f"{label}: intervals", f"{label}: share"]
        table += [plain(bins.astype(np.int64)), share]
        if (policy := theory.law(runs[i])) is not None:
            pmf = policy.interval_pmf()[: len(first) * width]
            pmf = np.pad(pmf, (0, len(first) * width - len(pmf))).reshape(-1, width).sum(axis=1)
            name = "theory" if len(runs) == 1 else f"{label}, theory"
            data.append(theory_line(i, name, middle, pmf, hover) | {"customdata": table[0], "mode": "lines+markers"})
            columns.append(f"{label}: theory")
            table.append(plain(pmf))
    note = (
        "X, counted between two consecutive rounds of the same client, all clients together. Intervals still open when "
        "the run ends are not counted, so a short run shows fewer long ones than theory has."
    )
    form = layout("rounds X", "share of the intervals", barmode="group", bargap=0.15)
    return Chart("intervals", "Rounds between two participations", note, data, form, columns, _rows(table))


def deviation(runs: Sequence[Run]) -> Chart | None:
    """Return √Var(Y)/T against the window T, both axes logarithmic, with theory where there is one."""
    data: list[dict[str, Any]] = []
    columns = ["window T"]
    table: list[list[Any]] = [list(load.WINDOWS)]
    for i, run in enumerate(runs):
        measured = load.window_deviation(run.history)
        if not run.rounds or not run.participations:
            continue
        windows = list(measured)
        # A logarithmic axis cannot show the 0 of a perfectly even load.
        shown = np.array([v or np.nan for v in measured.values()])
        data.append(line(i, run.label, windows, shown, "T = %{x}: %{y:.4f}", mode="lines+markers"))
        columns.append(f"{run.label}: measured")
        table.append([plain([measured[w]])[0] if w in measured else None for w in load.WINDOWS])
        if (policy := theory.law(run)) is not None:
            expected = theory.window_deviation(policy, windows)
            name = "theory" if len(runs) == 1 else f"{run.label}, theory"
            data.append(theory_line(i, name, windows, np.array(expected) + 0.0, "T = %{x}: %{y:.4f}"))
            columns.append(f"{run.label}: theory")
            table.append(plain(expected) + [None] * (len(load.WINDOWS) - len(windows)))
    if not data:
        return None
    if len(runs) == 1:
        data[0]["name"] = "measured"
    note = (
        "How much the number Y of rounds a client takes part in, out of T, varies over clients and windows, divided "
        "by T. Lower is more even. The last windows of a short run are few, and their values rough."
    )
    ticks = {"type": "log", "tickvals": list(load.WINDOWS)}
    form = layout("window T in rounds", "√Var(Y)/T", x=ticks, y={"type": "log", "dtick": "D2"})
    return Chart("deviation", "Evenness over time", note, data, form, columns, _rows(table))


def _rows(columns: list[list[Any]]) -> list[list[Any]]:
    return [list(row) for row in zip(*columns, strict=True)]
