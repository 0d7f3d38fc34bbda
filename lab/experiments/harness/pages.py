"""Results as Markdown and SVG, by the templates."""

import html
import re
from collections import Counter
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aoi_fl.lab.experiments.harness.account import hours
from aoi_fl.lab.experiments.harness.findings import REASONS


def render(file, **values):
    """Return a file's content by its template."""
    found = templates(Path(__file__).parents[1], inline=_inline, counts=_counts, cell=_cell, hours=hours)
    return found.get_template(f"{file}.j2").render(values)


def templates(folder, **filters):
    """Return the templates of a folder, which have these filters."""
    found = Environment(
        loader=FileSystemLoader(folder / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    found.filters |= filters
    return found


def _inline(text):
    """Return Markdown's text and code as HTML on one line."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(text.split()), quote=False))


def _counts(lines):
    """Return the number of claims of each verdict."""
    of = Counter(line["claim"].verdict for line in lines)
    return ", ".join(f"{of[verdict]} {verdict}" for verdict in REASONS if of[verdict])


def _cell(text):
    """Return a table's cell; line breaks and bars, as in |t|, would end it, and are removed or escaped."""
    return " ".join(text.split()).replace("|", "\\|")
