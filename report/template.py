"""Fill the pages' templates of HTML, CSS and JavaScript; values in HTML are escaped."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from aoi_fl.report import summary
from aoi_fl.report.chart import colour
from aoi_fl.science.errors import ConfigError, install


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("aoi_fl.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = lambda value: "–" if value is None or value == "" else value
    environment.filters |= {"colour": colour, "sentence": summary.sentence}
    return environment


def fill(name: str, **values: Any) -> str:
    """Return a template's text with its values."""
    return _environment().get_template(name).render(**values)


@cache
def plotly() -> str:
    """Return Plotly's script.

    Raises
    ------
    ConfigError : Plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError("plotly", None, "installed for a report", f"Install it: {install('report')}.") from error
    return str(get_plotlyjs())
