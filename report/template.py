"""Templates of the pages, in HTML, CSS and JavaScript; values in HTML are escaped."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from aoi_fl.report import summary
from aoi_fl.report.chart import colour


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("aoi_fl.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": _cell, "colour": colour, "sentence": summary.sentence}
    return environment


def fill(name: str, **values: Any) -> str:
    """Return a template's text with values put in."""
    return _environment().get_template(name).render(**values)


def _cell(value: Any) -> Any:
    return "–" if value is None or value == "" else value
