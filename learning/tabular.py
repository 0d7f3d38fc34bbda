"""A user's own data set in a CSV or Parquet file, with the target in one column.

The result depends on the file and the names of two columns only: server, clients and simulation get the same rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aoi_fl.learning.form import Dataset
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError, did_you_mean, install

Ints = NDArray[np.int64]
_TEST = 5  # every fifth row is a test row
_MOST_WORDS = 200  # different words of a column; each becomes a column of 0 and 1
_MOST_CLASSES = 100  # more different whole numbers are targets of a regression
_CLIENTS = "partition=column"  # the key in messages
_SHOWN = 3
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?")


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a file, with its cells as text and, if possible, as numbers."""

    path: Path
    name: str
    cells: Sequence[str]
    first_row: int  # the number of the first cell's row in messages

    def refuse(self, value: object, allowed: str, remedy: str, at: int | None = None) -> NoReturn:
        where = "" if at is None else f"row {at + self.first_row}, "
        raise ConfigError(f"{where}column {self.name} of {self.path}", value, allowed, remedy)

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The cells as numbers (N,); None for a column of words."""
        try:
            values = np.array(self.cells, np.str_).astype(np.float64)
        except ValueError:
            self._check_words()
            return None
        if (bad := ~np.isfinite(values)).any():
            at = int(bad.argmax())
            self.refuse(self.cells[at], "a finite number", "Fill in the cell, or leave out the row.", at)
        return values

    def _check_words(self) -> None:
        """Refuse empty cells, dates, and words among numbers."""
        empty = next((i for i, cell in enumerate(self.cells) if not cell.strip()), None)
        if empty is not None:
            self.refuse("", "a value: no cell may be empty", "Fill in the cell, or leave out the row.", empty)
        numeric = [_is_number(cell) for cell in self.cells]
        if 2 * sum(numeric) >= len(numeric):
            at = numeric.index(False)
            self.refuse(self.cells[at], "a number, as in most rows", "Correct the cell, or leave out the row.", at)
        if _DATE.fullmatch(self.cells[0].strip()):
            remedy = (
                "Replace dates by numbers, such as the year or the days since a first date, or leave out the column."
            )
            self.refuse(self.cells[0], "a number or a word, not a date", remedy, 0)

    @cached_property
    def whole(self) -> bool:
        """Whether all cells are written as whole numbers."""
        return all(cell.strip().lstrip("+-").isdigit() for cell in self.cells)

    @cached_property
    def kinds(self) -> tuple[list[str], Ints]:
        """The sorted different values, and (N,) the index of each cell's value."""
        values = np.array([cell.strip() for cell in self.cells]) if self.numbers is None else self.numbers
        _, first, place = np.unique(values, return_index=True, return_inverse=True)
        return [self.cells[i].strip() for i in first], place.astype(np.int64)


def read(kind: str, path: Path, target: str, client: str) -> Dataset:
    """Read a CSV file (comma, semicolon or tab; optionally gzipped) or a Parquet file.

    Every fifth row is a test row, stratified by client, else by class. A column of words becomes a column of 0 and 1
    for each word. Targets are classes if they are words or at most 100 different whole numbers; other targets are
    numbers. Columns of numbers, and numeric targets, are standardised by the training rows.

    Parameters
    ----------
    kind : ``csv`` or ``parquet``
    path : the file
    target : the column to predict
    client : the column with each row's client; empty: rows have no client

    Raises
    ------
    ConfigError : naming file, column and row: a column is missing; a cell is empty, no number, or a date; or there are
        too many different words, a single client, or too many clients.
    """
    columns = _columns(kind, path)
    _check_named(columns, path, {"target": target} | ({_CLIENTS: client} if client else {}))
    if target == client:
        raise ConfigError(_CLIENTS, client, f"another column of {path} than the target", "Choose another column.")
    features = [column for name, column in columns.items() if name not in (target, client)]
    if not features:
        raise ConfigError(f"columns of {path}", ", ".join(columns), "a column beside target and client", "Add one.")
    y, classes, notes = _targets(columns[target])
    names, owners = _owners(columns[client]) if client else ([], None)
    groups = owners if owners is not None else y if classes else np.zeros(len(y), np.int64)
    test = _test_rows(np.asarray(groups, np.int64))
    if owners is not None:
        notes += _about_clients(columns[client], names, owners, columns[target] if classes else None)
    x = np.concatenate([_encoded(column, ~test) for column in features], axis=1, dtype=np.float32)
    if not classes:
        y = ((y - y[~test].mean()) / (y[~test].std() or 1.0)).astype(np.float32)
    left = None if owners is None else owners[~test]
    return Dataset(kind, x[~test], y[~test], x[test], y[test], classes, left, tuple(names), tuple(notes))


def count_clients(kind: str, path: Path, client: str) -> int:
    """Return the number of clients that a column names."""
    columns = _columns(kind, path)
    _check_named(columns, path, {_CLIENTS: client})
    return len(_owners(columns[client])[0])


def _columns(kind: str, path: Path) -> dict[str, _Column]:
    return {column.name: column for column in (_parquet if kind == "parquet" else _cells)(path)}


def _check_named(columns: Mapping[str, _Column], path: Path, named: Mapping[str, str]) -> None:
    for key, name in named.items():
        if name not in columns:
            near = did_you_mean(name, columns).strip() or "Choose one of these."
            raise ConfigError(key, name, f"a column of {path}: {', '.join(columns)}", near)


def _cells(path: Path) -> list[_Column]:
    """Read a CSV file; rows have the numbers of a spreadsheet, with the header as row 1."""
    _check_there(path, "csv")
    try:
        blob = path.read_bytes()
        text = (gzip.decompress(blob) if path.suffix == ".gz" else blob).decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        header, *rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)) or [[]]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise ConfigError("dataset", path, f"a CSV file in UTF-8 ({error})", "Save it again as CSV.") from error
    while rows and not rows[-1]:
        rows.pop()
    names = [name.strip() for name in header]
    if not all(names) or len(set(names)) < len(names) or len(rows) < 2:
        wrong = next((name for name in names if not name or names.count(name) > 1), "")
        what = repr(wrong) if len(rows) >= 2 else f"{len(rows)} rows"
        allowed = "a header of different names in row 1, and two rows or more below it"
        raise ConfigError(f"row 1 of {path}", what, allowed, "Correct the file.")
    for i, row in enumerate(rows):
        if len(row) != len(names):
            allowed = f"{len(names)} cells, as in row 1"
            raise ConfigError(f"row {i + 2} of {path}", f"{len(row)} cells", allowed, "Correct the row.")
    return [_Column(path, name, cells, 2) for name, cells in zip(names, zip(*rows, strict=True), strict=True)]


def _parquet(path: Path) -> list[_Column]:
    """Read a Parquet file; rows have numbers from 1."""
    _check_there(path, "parquet")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError("dataset", path, "readable with pyarrow", f"Install it: {install('data')}.") from error
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ConfigError("dataset", path, f"a Parquet file ({error})", "Save it again.") from error
    return [
        _Column(path, name, ["" if v is None else str(v) for v in table[name].to_pylist()], 1)
        for name in table.column_names
    ]


def _check_there(path: Path, kind: str) -> None:
    if not path.is_file():
        raise ConfigError(f"dataset={kind}:FILE", path, "the path of a file that exists", "Correct the path.")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _targets(column: _Column) -> tuple[NDArray[Any], int, list[str]]:
    """Return labels or numeric targets, the number of classes, and warnings."""
    numbers, (kinds, place) = column.numbers, column.kinds
    if len(kinds) < 2:
        column.refuse(kinds[0], "two different values or more", "Choose another target.")
    if numbers is not None and not (column.whole and len(kinds) <= _MOST_CLASSES):
        few = len(kinds) <= min(_MOST_CLASSES, len(place) // 2) and bool((numbers == np.rint(numbers)).all())
        note = (
            f"column {column.name} holds {len(kinds)} whole numbers with a decimal point, so the model predicts numbers"
        )
        return numbers, 0, [f"{note}. If they are classes, write them without the point."] if few else []
    if 2 * len(kinds) > len(place):
        column.refuse(
            f"{len(kinds)} different values in {len(place)} rows", "classes that repeat", "Choose another target."
        )
    return place, len(kinds), []


def _owners(column: _Column) -> tuple[list[str], Ints]:
    """Return the clients' names and the client of each row."""
    if "" in (cells := [cell.strip() for cell in column.cells]):
        remedy = "Fill in the cell, or leave out the row."
        column.refuse("", "the client of the row", remedy, cells.index(""))
    names, place = numbered(cells)
    if len(names) < 2:
        column.refuse(names[0], "a column of two clients or more", "Choose another column of clients.")
    if 2 * len(names) > len(place):
        allowed = "values that repeat, two rows a client on average"
        column.refuse(f"{len(names)} clients in {len(place)} rows", allowed, "Choose another column of clients.")
    return names, place


def numbered(cells: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the different values, numbers before words, and (N,) each cell's index."""
    values = sorted(set(cells), key=lambda cell: (float(cell) if _is_number(cell) else np.inf, cell))
    place = {value: number for number, value in enumerate(values)}
    return values, np.array([place[cell] for cell in cells], np.int64)


def _test_rows(groups: Ints) -> NDArray[np.bool_]:
    """Return the test rows: a random fifth of each group; a group with one row has none."""
    order = generator(0, 0, "split").permutation(len(groups))
    ranked = order[np.argsort(groups[order], kind="stable")]  # group after group, at random within
    test = np.zeros(len(groups), bool)
    test[ranked[_TEST // 2 :: _TEST]] = True
    test &= np.bincount(groups)[groups] > 1
    if not test.any():
        test[ranked[np.bincount(groups)[groups[ranked]] > 1][:1]] = True
    return test


def _about_clients(column: _Column, names: Sequence[str], owners: Ints, target: _Column | None) -> list[str]:
    """Return notes on clients with a single row, and on classes that clients lack."""
    notes = []
    sizes = np.bincount(owners, minlength=len(names))
    if (alone := np.flatnonzero(sizes == 1)).size:
        row = int(np.flatnonzero(owners == alone[0])[0]) + column.first_row
        notes.append(
            f"{alone.size} of {len(names)} clients have one row, the first is {column.name} "
            f"{names[alone[0]]} (row {row}). The row is for training."
        )
    if target is not None:
        kinds, labels = target.kinds
        have = np.unique(owners * len(kinds) + labels)
        if len(have) < len(names) * len(kinds):
            lacking = np.bincount(have // len(kinds), minlength=len(names)) < len(kinds)
            client = int(lacking.argmax())
            present = set((have[have // len(kinds) == client] % len(kinds)).tolist())
            what = ", ".join([kind for i, kind in enumerate(kinds) if i not in present][:_SHOWN])
            notes.append(
                f"{int(lacking.sum())} of {len(names)} clients lack a class of column {target.name}, the first is "
                f"{column.name} {names[client]}, without {what}."
            )
    return notes


def _encoded(column: _Column, train: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return (N, features) of a column: standardised numbers, or 0 and 1 for each word."""
    if column.numbers is not None:
        numbers = column.numbers[train]
        with np.errstate(over="ignore", invalid="ignore"):
            values = (column.numbers - numbers.mean()) / (numbers.std() or 1.0)
        if not np.isfinite(values).all():
            column.refuse(f"{np.abs(numbers).max():g}", "numbers with finite squares", "Use another unit.")
        return np.asarray(values[:, None])
    kinds, place = column.kinds
    if len(kinds) > _MOST_WORDS:
        remedy = "Leave out the column, or group its words."
        column.refuse(f"{len(kinds)} different words", f"at most {_MOST_WORDS} different words", remedy)
    return np.asarray(place[:, None] == np.arange(len(kinds)), np.float64)
