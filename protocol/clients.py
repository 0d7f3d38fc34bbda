"""The clients of a budgeted run: read from a file, generated as in the paper, and checked."""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from aoi_fl.protocol import LEAST, MAX_AGE, MAX_EXAMPLES, MAX_NAME, MOST, default_name, is_name
from aoi_fl.protocol.files import read_text
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.spending import RoundBudget, check_budget
from aoi_fl.science.types import Floats, Ints

_OPTIONAL = ("age", "staleness")
_OTHERS = "rate"  # a column of :mod:`aoi_fl.protocol.given_rates`, which may share the file


@dataclass(frozen=True)
class ClientTable:
    """The attributes of n clients before round 1; position i is client i.

    Attributes
    ----------
    names : n distinct names
    sizes : (n,) int64, examples n_i ≥ 1
    payments : (n,) float64, p_i > 0 in the budget's unit
    sensitivities : (n,) float64, φ_i > 0
    ages : (n,) int64, Δ_i ≥ 0 before round 1
    staleness : (n,) float64 > 0, each client's factor of the run's rate of staleness
    """

    names: tuple[str, ...]
    sizes: Ints
    payments: Floats
    sensitivities: Floats
    ages: Ints
    staleness: Floats


Parser: TypeAlias = tuple[Callable[[str], Any], str]
_NUMERAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE | re.ASCII)


def read_number(cell: str) -> float:
    """Return the number in a cell of a user's file, as any program writes it; raise ValueError for another text.

    >>> read_number("-0.5"), read_number("1e3"), read_number(" 7")
    (-0.5, 1000.0, 7.0)
    """
    if not _NUMERAL.fullmatch(cell.strip(" ")):
        raise ValueError(cell)
    return float(cell)


def read_table(
    path: Path, parsers: Mapping[str, Parser], needs: Collection[str], others: Container[str] | None = None
) -> list[dict[str, Any]]:
    """Read a CSV file of clients, whose columns may have any order.

    Parameters
    ----------
    path : the file
    parsers : a function of a cell that raises ValueError, and the allowed values, for each column
    needs : the columns that must be there
    others : the columns that are skipped; None: any

    Returns
    -------
    The values by column of each row; blank lines are skipped.

    Raises
    ------
    ConfigError : naming file, line and column, for a file that cannot be read, a wrong header or a value that cannot be
        used
    """
    rows: list[dict[str, Any]] = []
    names = set[str]()
    try:
        reader = csv.reader(io.StringIO(read_text(path), newline=""), skipinitialspace=True)
        header = [title.strip() for title in next(reader, [])]
        unknown = [title for title in header if others is not None and title not in others and title not in parsers]
        if unknown or not set(needs) <= set(header) or any(header.count(column) > 1 for column in parsers):
            allowed = f"given once each, with {', '.join(needs)}, of {', '.join(parsers)}"
            raise ConfigError(f"{path}, line 1: columns", ",".join(header) or "missing", allowed, "Correct the header.")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{path}, line {reader.line_num}"
            if len(cells) != len(header):
                remedy = "Give each column one value, and write numbers with a point, not a comma."
                raise ConfigError(where, f"{len(cells)} values", f"a value for each of {','.join(header)}", remedy)
            row: dict[str, Any] = {}
            for column, cell in zip(header, cells, strict=True):
                if column in parsers:
                    parse, allowed = parsers[column]
                    try:
                        row[column] = parse(cell)
                    except ValueError:
                        raise ConfigError(f"{where}, column {column}", cell, allowed, "Correct the value.") from None
            if (name := row.get("name", "")) in names:
                allowed = "a different name in each row"
                raise ConfigError(f"{where}, column name", name, allowed, "Give each client one row.")
            names |= {name} - {""}
            rows.append(row)
    except (OSError, UnicodeError, csv.Error) as error:
        allowed = f"a readable file of clients ({error})"
        raise ConfigError("clients-file", path, allowed, "Give a CSV file, in UTF-8.") from error
    return rows


def check_clients(
    payments: Sequence[float | None] | Floats,
    sensitivities: Sequence[float | None] | Floats,
    budget: float,
    names: Sequence[str],
    total: float = math.inf,
) -> list[str]:
    """Check the clients of a budgeted run; return warnings about clients it can never choose.

    ``budget`` is for one round, ``total`` for all rounds.

    Raises
    ------
    ConfigError : naming client and value, for a payment or sensitivity that is missing (None) or out of range, such as
        NaN or zero; for a budget that is not positive or pays for no client
    """
    check_budget(budget)
    for what, values in (("payment", payments), ("sensitivity", sensitivities)):
        for name, value in zip(names, values, strict=True):
            if value is None or not LEAST <= value <= MOST:
                allowed = f"a number from {LEAST:g} to {MOST:g}"
                raise ConfigError(f"{what} of client {name}", value, allowed, "Set it to such a number.")
    prices = np.asarray(payments, dtype=np.float64)
    what, budget = ("total budget", total) if total < budget else ("budget", budget)
    never = ~RoundBudget(budget).affords(prices)
    if never.all():
        raise ConfigError(
            what, budget, f"at least the smallest payment, {min(prices, default=math.nan):g}", f"Raise the {what}."
        )
    return abridged(
        [
            f"client {name} can never be chosen: payment {price:g} > {what} {budget:g}"
            for name, price, excluded in zip(names, prices, never, strict=True)
            if excluded
        ]
    )


def abridged(warnings: list[str]) -> list[str]:
    """Return the first five warnings, and the number of the others if there are two or more."""
    more = len(warnings) - 5
    return warnings if more < 2 else [*warnings[:5], f"{more} more clients can never be chosen for reasons like these"]


def section5_instance(clients: int, seed: int) -> ClientTable:
    """Draw clients as in the paper's experiments.

    Sizes n_i are uniform integers 500 … 1500, so 40 clients need at most MNIST's 60,000 images. Payments p_i = n_i/100
    are proportional to them within [5, 15]. Sensitivities are φ_i ~ U(0, 1), ages are 0. One seed gives one instance
    for all budgets. The paper states the ranges and the proportionality, not the sizes. It takes rates of staleness as
    equal; here they have their own draws from U(0, 2), with mean 1.

    Source: Xu et al. 2024, Section 5.1.
    """
    rng = draws.generator(seed, 0, "section5")
    sizes = rng.integers(500, 1500, size=clients, endpoint=True)
    sensitivities = 1.0 - rng.random(clients)  # (0, 1]: a sensitivity of zero would be invalid
    names = tuple(map(default_name, range(clients)))
    staleness = 2.0 * (1.0 - draws.generator(seed, 0, "staleness").random(clients))
    return ClientTable(names, sizes, sizes / 100, sensitivities, np.zeros(clients, dtype=np.int64), staleness)


def within(least: float, most: float, what: str = "whole number") -> Parser:
    """Return the parser of numbers in a range."""

    def parse(text: str) -> float:
        value = read_number(text)
        if not least <= value <= most or (what != "number" and value % 1):
            raise ValueError
        return value if what == "number" else int(value)

    return parse, f"a {what} from {least} to {most}"


def _name(text: str) -> str:
    if not is_name(text.strip()):
        raise ValueError
    return text.strip()


_NUMBER = within(LEAST, MOST, "number")
PARSERS: dict[str, Parser] = {
    "name": (_name, f"a name of 1 to {MAX_NAME} printable characters"),
    "size": within(1, MAX_EXAMPLES),
    "payment": _NUMBER,
    "sensitivity": _NUMBER,
    "age": within(0, MAX_AGE),
    "staleness": _NUMBER,
}
COLUMNS = tuple(PARSERS)


def read_clients_file(path: Path, *, own_staleness: bool = False) -> ClientTable:
    """Read clients from a CSV file with the columns of :data:`COLUMNS`; a column rate is skipped.

    Without a column age all ages start at 0. Without a column staleness all rates are 1; ``own_staleness`` requires it.
    Raises ConfigError as :func:`read_table`.
    """
    needs = [column for column in COLUMNS if column not in _OPTIONAL or (own_staleness and column == "staleness")]
    rows = read_table(path, PARSERS, needs, (_OTHERS,))
    if not rows:
        raise ConfigError("clients-file", path, "a file with clients below the header", "Add the clients.")
    names, *numbers = ([({"age": 0, "staleness": 1.0} | row)[name] for row in rows] for name in COLUMNS)
    return ClientTable(tuple(names), *map(np.array, numbers))
