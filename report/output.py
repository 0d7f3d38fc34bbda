"""Print results: JSON for machines, rich tables for people."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aoi_fl.science.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

_BAR = 20  # characters of the longest bar
_STARTS = r"(?m)(?:^|(?<=;)){}(?=['\s]*[-=+@＝＋－＠])"  # of a cell, also where semicolons separate cells
_FORMULA, _INERT = (re.compile(_STARTS.format(mark)) for mark in ("", "'"))


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object on one line; NaN and infinities raise ValueError."""
    print(json.dumps(values, allow_nan=False))


def inert(text: str) -> str:
    """Return a text for a CSV file, with ``'`` before what a spreadsheet would run as a formula.

    >>> inert("=1+1"), restored(inert("=1+1")), inert("a-b")
    ("'=1+1", '=1+1', 'a-b')
    """
    return _FORMULA.sub("'", text)


def restored(text: str) -> str:
    """Return a text that :func:`inert` has changed, as it was."""
    return _INERT.sub("", text)


def print_facts(title: str, facts: Iterable[tuple[str, Any]]) -> None:
    """Print named values, one per line, under a title."""
    from rich.table import Table

    _print(title, Table(show_header=False, box=None), facts)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table under a title; all columns but the last are aligned to the right."""
    from rich.table import Table

    table = Table(box=None)
    for column in columns:
        table.add_column(printable(column), justify="right")
    table.columns[-1].justify = "left"
    _print(title, table, rows)


def _print(title: str, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    from rich.console import Console

    for row in rows:
        table.add_row(*(printable(number(value)) for value in row))
    console = Console(highlight=False, markup=False, emoji=False)  # names and reasons come from clients
    if not console.is_terminal and not os.environ.get("COLUMNS"):  # a file or a pipe has no width
        console.width = max(console.width, console.measure(table, options=console.options.update(width=10_000)).maximum)
    console.print(f"\n{printable(title)}", style="bold")
    console.print(table)


def number(value: Any) -> str:
    """Return a value as text: floats with five digits, None as a dash."""
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def bar(share: float, largest: float) -> str:
    """Return a bar of a length proportional to a share.

    >>> bar(0.0, 0.0)
    ''
    """
    return "█" * round(_BAR * share / largest) if largest > 0 else ""
