"""What the server learned of the clients' sensitivities φ, where it estimates them, beside what sizes alone say."""

from aoi_fl.report.chart import Chart, colour, layout, plain, text, whole
from aoi_fl.report.participation import MOST_POINTS, spread
from aoi_fl.report.runs import Run
from aoi_fl.report.seeds import Setting


def sensitivities(i: int, setting: Setting, several: bool) -> Chart | None:
    """Return each client's φ as the server estimates it now, beside the φ of equal slopes."""
    run = setting.first
    if not run.estimated:
        return None
    known = sorted(run.estimated)
    clients = [known[j] for j in spread(len(known), MOST_POINTS)]
    names = [text(run.name(client)) for client in clients]
    sizes = _relative_sizes(run)
    by_size, now = (plain([values[client] for client in clients]) for values in (sizes, run.estimated))
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
            ("by its share of the data alone", by_size, ring),
            ("as estimated at the end", now, {"color": colour(i), "size": 8}),
        )
    ]
    note = "How much the age of a client's data matters, as the server estimates it."
    if len(clients) < len(known):
        note += f" {len(clients)} of the {len(known)} clients are drawn, evenly spaced by number."
    form = layout("client", "φ", whole(clients), {"rangemode": "tozero"}, showlegend=True)
    return Chart(
        f"sensitivities-{i}",
        f"Sensitivity to age, as estimated: {setting.name}" if several else "Sensitivity to age, as estimated",
        note + setting.note,
        data,
        form,
        ["client", "φ by size alone", "φ at the end"],
        [list(row) for row in zip(names, by_size, now, strict=True)],
        overlay=False,
        detail="This is φ, 1 if clients are alike. The server begins with the shares of the data. It then learns from "
        "the reported losses how fast the data of each client lose value with age.",
    )


def _relative_sizes(run: Run) -> dict[int, float]:
    """Return d_i/d̄ of each client; who has told no size counts as the mean."""
    told = {row["client"]: row["examples"] for row in run.clients if row["examples"]}
    mean = sum(told.values()) / len(told) if told else 1.0
    return {client: told.get(client, mean) / mean for client in range(run.size)}
