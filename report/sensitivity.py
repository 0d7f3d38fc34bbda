"""What the server learned of the clients' sensitivities φ, where it estimates them: what it began with and came to."""

from aoi_fl.report.chart import Chart, colour, layout, plain, text, whole
from aoi_fl.report.participation import MOST_POINTS, spread
from aoi_fl.report.runs import Run


def estimated(run: Run) -> tuple[dict[int, float], dict[int, float]]:
    """Return the first and the last sensitivity that the server estimated of each client; empty where it does not."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for row in run.participations:  # ascending by round
        if row.get("sensitivity") is not None:
            first.setdefault(row["client"], row["sensitivity"])
            last[row["client"]] = row["sensitivity"]
    return first, last


def sensitivities(i: int, run: Run, several: bool, number: int) -> Chart | None:
    """Return each client's φ as the server began with it and as it estimates it now."""
    first, last = estimated(run)
    if not last:
        return None
    known = sorted(last)
    clients = [known[j] for j in spread(len(known), MOST_POINTS)]
    names = [text(run.name(client)) for client in clients]
    at_first, now = (plain([estimates[client] for client in clients]) for estimates in (first, last))
    shared = {"type": "scatter", "mode": "markers", "x": clients, "customdata": names, "meta": {"clients": clients}}
    ring = {"color": "--muted", "size": 8, "symbol": "circle-open"}
    data = [
        {
            **shared,
            "name": name,
            "y": values,
            "marker": marker,
            "hovertemplate": f"client %{{customdata}}: φ %{{y:.4g}}<extra>{name}</extra>",
        }
        for name, values, marker in (
            ("its share of the data, as at first", at_first, ring),
            ("as estimated at the end", now, {"color": colour(i), "size": 8}),
        )
    ]
    note = (
        "How much a client's age is taken to matter, φ: the server began with its share of the data, and learned from "
        "how the losses that it reported moved with the age of its data how fast these go bad."
    )
    if len(clients) < len(known):
        note += f" {len(clients)} of the {len(known)} clients are drawn, evenly spaced by number."
    form = layout("client", "φ", whole(clients), {"rangemode": "tozero"}, showlegend=True)
    return Chart(
        f"sensitivities-{number}",
        f"Sensitivity to age, as estimated: {run.label}" if several else "Sensitivity to age, as estimated",
        note,
        data,
        form,
        ["client", "φ at first", "φ at the end"],
        [list(row) for row in zip(names, at_first, now, strict=True)],
        overlay=False,
    )
