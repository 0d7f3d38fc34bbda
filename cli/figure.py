"""``aoi figure``: a chart of runs as a file for a paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from aoi_fl.science.errors import ConfigError, check_choice

_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}


def figure(
    runs: Annotated[list[str], typer.Argument(metavar="NAME...", hidden=True)],
    chart: Annotated[str | None, typer.Option(help="A chart of the page; by default the accuracy or RMSE.")] = None,
    width: Annotated[str, typer.Option(help="In in, cm, mm or pt; a column of a paper by default.")] = "3.4in",
    pdf: Annotated[bool, typer.Option("--pdf", help="PDF with embedded fonts, as by default.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="The file, .pdf, .svg or .png; by default NAME-CHART.pdf in this folder.")
    ] = None,
) -> None:
    """Draw a chart of runs for a paper.

    NAME is a run, a glob, or a comparison of aoi compare. Seeds become a mean with a 95 % band. It needs matplotlib.
    """
    from aoi_fl.protocol.files import save
    from aoi_fl.report.drawing import FORMATS, draw
    from aoi_fl.report.figures import figures
    from aoi_fl.report.measure import judge
    from aoi_fl.report.runs import load_all, matching

    inches = _inches(width)
    kind = "pdf" if output is None else output.suffix[1:]
    if kind not in (FORMATS[:1] if pdf else FORMATS):
        raise ConfigError("--output", output, [f".{name}" for name in FORMATS], "Choose a name with such an end.")
    found = load_all([str(folder) for folder in matching(runs)])
    if any(run.empty for run in found):
        raise ConfigError("NAME", runs[0], "runs with a complete round", "Wait for it, or leave the run out.")
    charts = {one.name: one for one in figures(found)}
    name = chart or judge(found[0].rounds).column.replace("_", "-")
    check_choice("--chart", name, charts)
    place = output or Path(f"{Path(runs[0]).stem.replace('*', '')}-{name}.pdf")
    save(place, draw(charts[name], inches, kind))
    print(place)


def _inches(width: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*", width)
    inches = float(match[1]) * _INCHES.get(match[2], 0) if match else 0.0
    if not 0.5 <= inches <= 50:
        raise ConfigError("--width", width, f"0.5 to 50 inches in {', '.join(_INCHES)}", "Give --width 3.4in.")
    return inches
