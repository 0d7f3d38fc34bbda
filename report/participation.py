"""Charts of participation: a heat map of clients × rounds, and each client's count."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.chart import HEIGHT, Chart, Layout, Trace, colour, curve, layout, swatch, text, whole
from aoi_fl.report.runs import ABSENT, FORCED, LOST, STALE, TOOK_PART, RecordedRun
from aoi_fl.report.seeds import Setting
from aoi_fl.science.types import Ints

MOST_POINTS = 1000
_MOST_CLIENTS, _MOST_ROUNDS, _MOST_NAMES = 250, 1000, 40
_MOST_LETTERS = 16  # of a name
_AROUND = 90  # pixels of a heat map's axis and legend
_LINE, _NARROW = 12, 330  # pixels: the height of a row's name, and the room for all names on a narrow screen


def spread(n: int, most: int) -> Ints:
    """Return at most ``most`` of the numbers 0 … n-1, evenly spaced, with both ends."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def clients_by_rounds(
    setting: Setting, several: bool, grid: NDArray[Any], name: str, title: str, note: str
) -> tuple[NDArray[Any], Chart]:
    """Return an (n, R) grid reduced to a screen's size, and its heat map without values; one of several is lower."""
    run = setting.first
    clients, numbers = spread(run.size, _MOST_CLIENTS), run.numbers[-_MOST_ROUNDS:]
    if len(clients) < run.size:
        note += f" {len(clients)} of the {run.size} clients are drawn, evenly spaced by number."
    if len(numbers) < len(run.numbers):
        note += f" The latest {len(numbers)} rounds are drawn."
    axis: Layout = {"showgrid": False, "range": [clients[-1] + 0.5, -0.5], "tickformat": "d"}
    height = HEIGHT - _AROUND if several else int(np.clip(14 * len(clients), 160, 480))
    if run.named and len(clients) <= _MOST_NAMES:
        named = clients[:: -(-_LINE * len(clients) // min(height, _NARROW))]
        axis |= {"tickvals": named.tolist(), "ticktext": [text(_short(run.name(int(c)))) for c in named]}
    form = layout("round", "client", x=whole(numbers), y=whole(clients) | axis, height=height + _AROUND)
    heat = {"type": "heatmap", "x": numbers.tolist(), "y": clients.tolist()}
    title += f": {setting.name}" if several else ""
    return grid[clients, -_MOST_ROUNDS:], Chart(name, title, note + setting.note, [heat], form, overlay=False)


def _short(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


def heat_map(i: int, setting: Setting, several: bool) -> Chart | None:
    """Return a heat map of each client's rounds, with a legend of the states that occur."""
    run = setting.first
    if run.empty:
        return None
    grid = run.grid()
    what = "its data were refreshed" if run.budgeted else "it trained"
    note = f"One row a client, one column a round. In colour, {what}."
    shown, chart = clients_by_rounds(setting, several, grid, f"participation-{i}", "Participation", note)
    (axes,) = chart.data
    names = {
        ABSENT: ("did not take part", "--absent"),
        STALE: ("trained on the data it had", "--part"),
        TOOK_PART: ("data refreshed" if run.budgeted else "took part", colour(i)),
        FORCED: ("forced by the server", "--ink"),
        LOST: ("dropped", "--bad"),
    }
    states = [state for state in names if state == ABSENT or (shown == state).any()]
    rank = np.searchsorted(states, shown)
    height = chart.layout["height"] - _AROUND
    gap = int(height / shown.shape[0] >= 4 and shown.shape[1] <= 120)  # rows of 4 pixels or more
    heat = axes | {
        "z": (rank + 0.5).tolist(),  # the middle of each colour's range
        "zmin": 0,
        "zmax": len(states),
        "colorscale": [[(j + end) / len(states), names[s][1]] for j, s in enumerate(states) for end in (0, 1)],
        "showscale": False,
        "meta": {"clients": axes["y"]},
        "xgap": gap,
        "ygap": gap,
        "hovertemplate": "client %{y}, round %{x}<extra></extra>",
    }
    listed = [
        [int(t), *(_list(np.flatnonzero(grid[:, j] == s)) for s in states[1:])] for j, t in enumerate(run.numbers)
    ]
    columns = ["round", *(names[state][0] for state in states[1:])]
    return replace(chart, data=[heat, *(swatch(*names[state]) for state in states)], columns=columns, rows=listed)


def refreshes(runs: Sequence[RecordedRun]) -> str:
    """Return a note on runs that pay for refreshed data, else ""."""
    return " Under a budget, a turn is a refresh of the data." if any(r.budgeted for r in runs) else ""


def _list(clients: Ints) -> str:
    listed = ", ".join(map(str, clients[:_MOST_NAMES].tolist()))
    return f"{listed}, … ({len(clients)} in all)" if len(clients) > _MOST_NAMES else listed


def counts(settings: Sequence[Setting]) -> Chart | None:
    """Return the clients' participation counts in descending order, for several seeds by rank."""
    data, rows, sizes, most = [], [], [1], [0]
    for i, setting in enumerate(settings):
        played = [run for run in setting.runs if not run.empty]
        if not played:
            continue
        curves = []
        for run in played:
            count, rank = run.history.counts, spread(run.size, MOST_POINTS)
            busiest = np.argsort(-count, kind="stable")[rank].tolist()
            curves.append((rank + 1, count[busiest]))
            sizes.append(run.size)
            most.append(int(count.max()))
        named = list(map(run.name, busiest))
        alone = len(played) == 1
        more: Trace = {}
        if alone:
            more = {"customdata": [text(name) for name in named], "meta": {"clients": busiest}}
        hover = "client %{customdata}: %{y} rounds" if alone else "rank %{x}: %{y:.4g} rounds"
        drawn, table = curve(i, setting.label, setting.label, curves, hover, mode="lines", **more)
        drawn[-1]["line"]["shape"] = "hvh" if alone else "linear"
        data += drawn
        names = named if alone else [f"rank {r}" for r in next(iter(table.values()))]
        rows += [
            [setting.label, *row] for row in zip(names, *(values.values() for values in table.values()), strict=True)
        ]
    if not data:
        return None
    return Chart(
        "counts",
        "Load of each client",
        "Rounds in which each client took part, from the busiest to the idlest. A flat line is an even load."
        + refreshes([run for setting in settings for run in setting.runs]),
        data,
        layout(
            "clients, busiest first", "rounds", whole(sizes), {"rangemode": "tozero"} | whole(most), showlegend=False
        ),
        ["run", "client", "rounds taken part in", *(["from", "to"] if any(len(row) > 3 for row in rows) else [])],
        rows,
        detail="A refused update counts as work of its client. A failed or late one does not.",
    )
