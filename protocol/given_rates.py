"""Read each client's own rate from a CSV file, which may have other columns."""

from collections.abc import Sequence
from pathlib import Path

from aoi_fl.protocol import LEAST, default_name
from aoi_fl.protocol.clients import PARSERS, read_table, within
from aoi_fl.science.errors import ConfigError


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
    parsers = {"name": PARSERS["name"], "rate": within(LEAST, 1, "number")}
    rows = read_table(path, parsers, ["rate"])
    rates = {row.get("name", str(i)): row["rate"] for i, row in enumerate(rows)}
    if len(rows) != clients:
        raise ConfigError(f"rows of {path}", len(rows), f"{clients}, one a client", "Correct the file, or num-clients.")
    if not any("name" in row for row in rows):
        if names and names[0] != default_name(0):
            allowed = f"given with the clients' names, such as {names[0]}"
            raise ConfigError(f"{path}: column name", None, allowed, "Add a column name.")
        return list(rates.values())
    if lacking := [name for name in names if name not in rates]:
        other = next(name for name in rates if name not in names)
        allowed = f"a client's name, from {names[0]} to {names[-1]}; {lacking[0]} has no rate"
        raise ConfigError(f"{path}, column name", other, allowed, "Give each of them a row.")
    return {name: rates[name] for name in names or rates}
