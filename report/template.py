"""Fill the pages' templates of HTML, CSS and JavaScript; values in HTML are escaped."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from aoi_fl.report.chart import colour, dash
from aoi_fl.report.measure import three


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return three(value)
    return "–" if value is None or value == "" else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("aoi_fl.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": _cell, "colour": colour, "dash": dash}
    return environment


def fill(name: str, **values: Any) -> str:
    """Return a template's text with its values."""
    return _environment().get_template(name).render(**values)


@cache
def light_palette() -> dict[str, str]:
    """Return the colours of the pages' light theme by the names that charts use."""
    rules = re.search(r":root, \.paper \{(.*?)\}", fill("style.css"), re.DOTALL)
    assert rules is not None
    return dict(re.findall(r"(--\w+): (#\w+);", rules[1]))


@cache
def plotly() -> bytes:
    """Return Plotly's script, gzipped; this build of it draws lines, bars and heat maps."""
    return Path(__file__).with_name("templates").joinpath("plotly.js.gz").read_bytes()
