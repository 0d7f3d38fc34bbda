"""Read each client's own rate from a CSV file, which may have other columns."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from aoi_fl.protocol import default_name
from aoi_fl.protocol.clients import check_row, unreadable
from aoi_fl.protocol.files import read_text
from aoi_fl.science.errors import ConfigError

_NAMED = 5  # clients without a row, at most


def read_rates(path: Path, clients: int, *, names: Sequence[str] = ()) -> dict[str, float] | list[float]:
    """Read each client's own rate from the column ``rate`` of a CSV file.

    Parameters
    ----------
    path : the file
    clients : n, the required number of rows
    names : the names of simulated clients, in order; empty: unknown

    Returns
    -------
    Rates by name if there is a column ``name``, for simulated clients in order of their numbers; else one rate a row,
    in the order of clients. Other columns are ignored.

    Raises
    ------
    ConfigError : naming file, line and value, for a file that cannot be read, a missing or repeated column, a row of
        the wrong length, a wrong number of rows, a missing, repeated or unknown name, or an invalid rate
    """
    try:
        lines = io.StringIO(read_text(path), newline="").readlines()
        reader = csv.reader(lines, skipinitialspace=True)
        header = [title.strip() for title in next(reader, [])]
        if header.count("rate") != 1 or header.count("name") > 1:
            allowed = "given with one column rate, and one column name where clients have names"
            raise ConfigError(f"{path}, line 1: columns", ",".join(header) or "missing", allowed, "Correct the header.")
        rows: list[tuple[int, str, str]] = []  # line, name, rate
        for cells in filter(None, reader):
            check_row(f"{path}, line {reader.line_num}", cells, header)
            row = dict(zip(header, cells, strict=True))
            rows.append((reader.line_num, row.get("name", ""), row["rate"].strip()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, error) from error
    if len(rows) != clients:
        why = ""
        if len(rows) < clients:
            named = {name for _, name, _ in rows if name}
            lacking = [name for name in names if name not in named] if named else []
            if lacking:
                more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
                why = f"; there is no row of {', '.join(lacking[:_NAMED])}{more}"
            if blank := next((number for number, line in enumerate(lines, 1) if not line.strip("\r\n")), None):
                why += f"; blank lines are skipped, such as line {blank}"
        raise ConfigError(
            f"rows of {path}", len(rows), f"{clients}, one a client{why}", "Correct the file, or num-clients."
        )
    rates = [_rate(cell, f"{path}, line {line}, column rate") for line, _, cell in rows]
    if not any(name for _, name, _ in rows):
        if names and names[0] != default_name(0):
            allowed = f"given with the clients' names, such as {names[0]}"
            raise ConfigError(f"{path}: column name", None, allowed, "Add a column name.")
        return rates
    if nameless := next((line for line, name, _ in rows if not name), None):
        allowed = "a name, because other rows have one"
        raise ConfigError(f"{path}, line {nameless}, column name", "", allowed, "Give each client a name.")
    rate_of: dict[str, float] = {}
    for (line, name, _), rate in zip(rows, rates, strict=True):
        if name in rate_of:
            raise ConfigError(
                f"{path}, line {line}, column name", name, "a different name in each row", "Give each client one row."
            )
        rate_of[name] = rate
    return _in_order(rate_of, path, names) if names else rate_of


def _in_order(named: dict[str, float], path: Path, names: Sequence[str]) -> dict[str, float]:
    """Return the rates of simulated clients in order of their numbers."""
    if lacking := [name for name in names if name not in named]:
        known = set(names)
        other = next(name for name in named if name not in known)
        allowed = f"a client's name, from {names[0]} to {names[-1]}; {lacking[0]} has no rate"
        raise ConfigError(f"{path}, column name", other, allowed, "Give each of them a row.")
    return {name: named[name] for name in names}


def _rate(cell: str, where: str) -> float:
    try:
        rate = float(cell)
    except ValueError:
        raise ConfigError(where, cell, "a number above 0 and at most 1", "Correct the rate.") from None
    if not 0 < rate <= 1:
        raise ConfigError(where, cell, "a number above 0 and at most 1", "Correct the rate.")
    return rate
