"""The clients of a budgeted run: read from a file, generated as in the paper, and checked."""

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aoi_fl.protocol import LEAST, MAX_AGE, MAX_EXAMPLES, MAX_NAME, MOST, default_name, is_name
from aoi_fl.protocol.files import read_text
from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.spending import Budget, check_budget
from aoi_fl.science.types import Floats, Ints

COLUMNS = ("name", "size", "payment", "sensitivity", "age", "staleness")
_OPTIONAL = ("age", "staleness")
_OTHERS = "rate"  # a column of :mod:`aoi_fl.protocol.given_rates`, which may share the file
_FORMER = "weight"  # the name of φ until 0.1, and of ω now


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


def refuse_former(keys: Container[str], where: str) -> None:
    """Raise ConfigError if a file or configuration uses the name of φ until version 0.1."""
    if _FORMER in keys:
        raise ConfigError(_FORMER, None, f"called sensitivity in {where}", "Rename it.")


def unreadable(path: Path, error: Exception) -> ConfigError:
    """Return the error of a clients' file that cannot be read."""
    why = (isinstance(error, OSError) and error.strerror) or error
    return ConfigError("clients-file", path, f"a readable file of clients ({why})", "Give a CSV file, in UTF-8.")


def check_row(where: str, cells: Sequence[str], header: Sequence[str]) -> None:
    """Raise ConfigError unless a row of a clients' file has one value for each column."""
    if len(cells) != len(header):
        values = f"{len(cells)} value{'s' if len(cells) > 1 else ''}"
        columns = f"{len(header)} columns" if len(header) > 1 else "one column"
        remedy = "Give each column one value, and write numbers with a point, not a comma."
        raise ConfigError(where, values, f"a row for the {columns} {','.join(header)}", remedy)


def check_clients(
    payments: Sequence[float | None] | Floats,
    sensitivities: Sequence[float | None] | Floats,
    budget: float,
    names: Sequence[str],
    strict: bool = False,
    total: float = math.inf,
) -> list[str]:
    """Check the clients of a budgeted run; return warnings about clients it can never choose.

    ``budget`` is for one round, and with ``strict`` its payments stay below it; ``total`` is for all rounds.

    Raises
    ------
    ConfigError : naming client and value, for a payment or sensitivity that is missing (None) or out of range, such as
        NaN or zero; for a repeated name; for a budget that is not positive or pays for no client
    """
    check_budget(budget)
    columns = (("payment", "payments", payments), ("sensitivity", "sensitivities", sensitivities))
    for what, many, values in columns:
        if len(values) != len(names):
            raise ConfigError(many, len(values), f"{len(names)} numbers, one a client", f"Give each client a {what}.")
        for name, value in zip(names, values, strict=True):
            if value is None:
                raise ConfigError(f"{what} of client {name}", None, "a positive number", "Set it.")
            if not LEAST <= value <= MOST:
                raise ConfigError(
                    f"{what} of client {name}", value, f"from {LEAST:g} to {MOST:g}", "Correct the value."
                )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError("client name", twice[0], "used once", "Give each client its own name.")
    prices = np.asarray(payments, dtype=np.float64)
    what, budget, strict = ("total budget", total, False) if total < budget else ("budget", budget, strict)
    never = ~Budget(budget, strict).affords(prices)
    if never.all():
        raise ConfigError(
            what, budget, f"at least the smallest payment, {min(prices, default=math.nan):g}", f"Raise the {what}."
        )
    return abridged(
        [
            f"client {name} can never be chosen: payment {price:g} {'>' if price > budget else '≥'} {what} {budget:g}"
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
    if clients < 1:
        raise ConfigError("clients", clients, "at least 1", "Raise it.")
    rng = draws.generator(seed, 0, "section5")
    sizes = rng.integers(500, 1500, size=clients, endpoint=True)
    sensitivities = 1.0 - rng.random(clients)  # (0, 1]: a sensitivity of zero would be invalid
    names = tuple(map(default_name, range(clients)))
    staleness = 2.0 * (1.0 - draws.generator(seed, 0, "staleness").random(clients))
    return ClientTable(names, sizes, sizes / 100, sensitivities, np.zeros(clients, dtype=np.int64), staleness)


def _number(text: str) -> float:
    value = float(text)
    if not LEAST <= value <= MOST:
        raise ValueError
    return value


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError
        return value

    return parse


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError
    return text


def read_clients_file(path: Path, *, own_staleness: bool = False) -> ClientTable:
    """Read clients from a CSV file with the columns of :data:`COLUMNS`.

    Without a column age all ages start at 0. Without a column staleness all rates are 1; ``own_staleness`` requires it.
    Columns may have any order. Blank lines and a column rate are skipped.

    Raises
    ------
    ConfigError : naming file, line and column, for a file that cannot be read or a value that cannot be used
    """
    number = (_number, f"a number from {LEAST:g} to {MOST:g}")
    parsers: dict[str, tuple[Callable[[str], object], str]] = {
        "name": (_name, f"a name of 1 to {MAX_NAME} printable characters"),
        "size": (_whole(1, MAX_EXAMPLES), f"a whole number from 1 to {MAX_EXAMPLES}"),
        "payment": number,
        "sensitivity": number,
        "age": (_whole(0, MAX_AGE), f"a whole number from 0 to {MAX_AGE}"),
        "staleness": number,
    }
    rows: dict[str, list[object]] = {column: [] for column in COLUMNS}
    seen: set[object] = set()
    try:
        with io.StringIO(read_text(path), newline="") as file:
            reader = csv.reader(file)
            header = [title.strip() for title in next(reader, [])]
            _check_header(path, header, own_staleness)
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                where = f"{path}, line {reader.line_num}"
                check_row(where, cells, header)
                for column, cell in zip(header, cells, strict=True):
                    if column == _OTHERS:
                        continue
                    parse, wanted = parsers[column]
                    try:
                        rows[column].append(parse(cell.strip()))
                    except ValueError:
                        raise ConfigError(
                            f"{where}, column {column}", cell.strip(), wanted, "Correct the value."
                        ) from None
                name = rows["name"][-1]
                if name in seen:
                    raise ConfigError(
                        f"{where}, column name", name, "a different name in each row", "Give each client one row."
                    )
                seen.add(name)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, error) from error
    if not rows["name"]:
        raise ConfigError("clients-file", path, "a file with clients below the header", "Add the clients.")
    return ClientTable(
        names=tuple(str(name) for name in rows["name"]),
        sizes=np.array(rows["size"], dtype=np.int64),
        payments=np.array(rows["payment"], dtype=np.float64),
        sensitivities=np.array(rows["sensitivity"], dtype=np.float64),
        ages=np.array(rows["age"] or [0] * len(rows["name"]), dtype=np.int64),
        staleness=np.array(rows["staleness"] or [1] * len(rows["name"]), dtype=np.float64),
    )


def _check_header(path: Path, header: list[str], own_staleness: bool) -> None:
    refuse_former(header, f"{path}, line 1")
    missing = [column for column in COLUMNS if column not in (*_OPTIONAL, *header)]
    unknown = [title for title in header if title not in (*COLUMNS, _OTHERS)]
    if missing or unknown or len(set(header)) < len(header):
        allowed = f"{','.join(COLUMNS)}, each once"
        remedy = "Correct the header. Without age and staleness they are 0 and 1."
        raise ConfigError(f"{path}, line 1: columns", ",".join(header) or "missing", allowed, remedy)
    if own_staleness and "staleness" not in header:
        allowed = "given with staleness, because of staleness-rates=own"
        remedy = "Add a column staleness with a rate for each client, or leave staleness-rates out."
        raise ConfigError(f"{path}, line 1: columns", ",".join(header), allowed, remedy)
