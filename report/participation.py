"""Who took part: a heat map of clients × rounds, and how often each client did."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.report.chart import Chart, colour, curve, layout, numbers, swatch, text, whole
from aoi_fl.report.runs import ABSENT, FORCED, LOST, STALE, TOOK_PART, Run
from aoi_fl.report.seeds import Setting

MOST_POINTS = 1000
_MOST_CLIENTS, _MOST_ROUNDS, _MOST_NAMES = 250, 1000, 40
_LINE, _NARROW = 12, 330  # pixels: a row's name needs so many, and a narrow screen leaves so many for all of them


def spread(n: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` of the numbers 0 … n-1, evenly spaced, both ends among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def clients_by_rounds(
    run: Run, grid: NDArray[Any], note: str, several: bool
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64], str, dict[str, Any]]:
    """Cut an (n, R) grid to what a screen can show; of several, one below the other, each is lower.

    Returns the cut grid, its clients and round numbers, the note (saying what was cut), and the layout.
    """
    clients, numbers = spread(run.size, _MOST_CLIENTS), run.numbers[-_MOST_ROUNDS:]
    if len(clients) < run.size:
        note += f" {len(clients)} of the {run.size} clients are drawn, evenly spaced by number."
    if len(numbers) < len(run.numbers):
        note += f" The latest {len(numbers)} rounds are drawn."
    axis: dict[str, Any] = {"showgrid": False, "range": [clients[-1] + 0.5, -0.5], "tickformat": "d"}
    row, most = (7, 240) if several else (14, 480)
    height = int(np.clip(row * len(clients), 160, most))
    if run.named and len(clients) <= _MOST_NAMES:
        named = clients[:: -(-_LINE * len(clients) // min(height, _NARROW))]
        axis |= {"tickvals": named.tolist(), "ticktext": [text(run.name(int(c))[:16]) for c in named]}
    form = layout("round", "client", x=whole(numbers), y=whole(clients) | axis, height=height + 90)
    return grid[clients, -_MOST_ROUNDS:], clients, numbers, note, form


def heat_map(i: int, run: Run, several: bool, number: int) -> Chart | None:
    """Return who took part when; the states that occur are named in the legend."""
    if run.empty:
        return None
    grid = run.grid()
    what = "data were refreshed" if run.budgeted else "an update was trained"
    shown, clients, numbers, note, form = clients_by_rounds(
        run, grid, f"One row a client, one column a round; {what} where it is coloured.", several
    )
    names = {
        ABSENT: ("did not take part", "--absent"),
        STALE: ("trained on the data it had", "--part"),
        TOOK_PART: ("data refreshed" if run.budgeted else "took part", colour(i)),
        FORCED: ("forced by the server", "--ink"),
        LOST: ("dropped", "--bad"),
    }
    states = [state for state in names if state == ABSENT or (shown == state).any()]
    rank = np.searchsorted(states, shown)
    gap = int((form["height"] - 90) / shown.shape[0] >= 4 and shown.shape[1] <= 120)  # rows of 4 pixels or more
    heat = {
        "type": "heatmap",
        "x": numbers.tolist(),
        "y": clients.tolist(),
        "z": (rank + 0.5).tolist(),  # the middle of each colour's stretch of the scale
        "zmin": 0,
        "zmax": len(states),
        "colorscale": [[(j + end) / len(states), names[s][1]] for j, s in enumerate(states) for end in (0, 1)],
        "showscale": False,
        "meta": {"clients": clients.tolist()},
        "xgap": gap,
        "ygap": gap,
        "hovertemplate": "client %{y}, round %{x}<extra></extra>",
    }
    return Chart(
        f"participation-{number}",
        f"Participation: {run.label}" if several else "Participation",
        note,
        [heat, *(swatch(*names[state]) for state in states)],
        form,
        ["round", *(names[state][0] for state in states[1:])],
        [[int(t), *(_list(np.flatnonzero(grid[:, j] == s)) for s in states[1:])] for j, t in enumerate(run.numbers)],
        overlay=False,
    )


def refreshes(runs: Sequence[Run]) -> str:
    """Return what is to be said of runs that pay for refreshed data, where clients take part."""
    return " Under a budget, taking part means having one's data refreshed." if any(r.budgeted for r in runs) else ""


def _list(clients: NDArray[np.int64], most: int = 40) -> str:
    listed = ", ".join(map(str, clients[:most].tolist()))
    return f"{listed}, … ({len(clients)} in all)" if len(clients) > most else listed


def counts(settings: Sequence[Setting]) -> Chart | None:
    """Return how often each client took part, from the busiest to the idlest; of several seeds by rank only."""
    data, rows, sizes, most = [], [], [1], [0]
    for i, setting in enumerate(settings):
        played = [run for run in setting.runs if not run.empty]
        if not played:
            continue
        curves = []
        for run in played:
            count = run.history.counts
            order = np.argsort(-count, kind="stable")
            rank = spread(run.size, MOST_POINTS)
            curves.append((rank + 1, count[order[rank]]))
            sizes.append(run.size)
            most.append(int(count.max()))
        who = [run.name(int(c)) for c in order[rank]]
        alone = len(played) == 1
        more: dict[str, Any] = {}
        if alone:
            more = {"customdata": [text(name) for name in who], "meta": {"clients": order[rank].tolist()}}
        hover = "client %{customdata}: %{y} rounds" if alone else "rank %{x}: %{y:.4g} rounds"
        drawn = curve(i, setting.label, curves, hover, mode="lines", **more)
        drawn[-1]["line"]["shape"] = "hvh" if alone else "linear"
        data += drawn
        table = numbers(setting.label, curves)
        names = who if alone else [f"rank {r}" for r in next(iter(table.values()))]
        rows += [
            [setting.label, *row] for row in zip(names, *(values.values() for values in table.values()), strict=True)
        ]
    if not data:
        return None
    return Chart(
        "counts",
        "Load of each client",
        "Rounds each client took part in, from the busiest client to the idlest; a flat line is an even load. A "
        "refused update counts, its client did the work; one that failed or came late does not."
        + refreshes([run for setting in settings for run in setting.runs]),
        data,
        layout(
            "rank of the client",
            "rounds taken part in",
            whole(sizes),
            {"rangemode": "tozero"} | whole(most),
            showlegend=False,
        ),
        ["run", "client", "rounds taken part in", *(["from", "to"] if any(len(row) > 3 for row in rows) else [])],
        rows,
    )
