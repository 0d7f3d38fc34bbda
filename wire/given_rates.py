"""The CSV file in which each client has a rate of its own, whatever else is in it."""

import csv
from pathlib import Path

from aoi_fl.science.errors import ConfigError


def read_rates(path: Path, clients: int) -> dict[str, float] | list[float]:
    """Read each client's own rate from the column ``rate`` of a CSV file.

    Returns
    -------
    Rates by name where there is a column ``name``, else a row a client in order of their numbers; other columns are
    left alone.

    Raises
    ------
    ConfigError : naming file, line and value, for a file that cannot be read, without the column, with another number
        of rows than there are clients, a name twice, or a value that is no rate
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            if "rate" not in (reader.fieldnames or ()):
                raise ConfigError(
                    f"{path}, line 1: the columns are {','.join(reader.fieldnames or ()) or 'missing'}: rates=given "
                    "needs one called rate"
                )
            rows = [(reader.line_num, row.get("name"), (row["rate"] or "").strip()) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read as a file of clients ({error})") from error
    if len(rows) != clients:
        raise ConfigError(f"{path} has {len(rows)} clients, where there are to be {clients}: make them equal")
    rates = [_rate(cell, f"{path}, line {line}, column rate") for line, _, cell in rows]
    if not all(name for _, name, _ in rows):
        return rates
    named: dict[str, float] = {}
    for (line, name, _), rate in zip(rows, rates, strict=True):
        if name in named:
            raise ConfigError(f"{path}, line {line}, column name: {name!r} is there twice")
        named[str(name)] = rate
    return named


def _rate(cell: str, where: str) -> float:
    try:
        rate = float(cell)
    except ValueError:
        raise ConfigError(f"{where}: {cell!r} is not a number") from None
    if not 0 < rate <= 1:
        raise ConfigError(f"{where}: {cell} is no rate, give a number above 0, at most 1")
    return rate
