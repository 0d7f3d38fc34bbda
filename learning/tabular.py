"""A user's own data set in a CSV or Parquet file, with the target in one column.

The result depends on the file and the names of two columns only: server, clients and simulation get the same rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import sys
import unicodedata
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.learning.cells import MISSING, NO_NUMBER, Misread, are_codes, not_words, other_numbers
from aoi_fl.learning.form import MOST_CLASSES, Dataset, resemble_classes
from aoi_fl.protocol import MAX_NAME, is_name
from aoi_fl.protocol.clients import read_number
from aoi_fl.protocol.files import is_file
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError, ConfigErrors, did_you_mean, install

Ints = NDArray[np.int64]
_TEST = 5  # every fifth row is a test row
_MOST_WORDS = 200  # different words of a column; each becomes a column of 0 and 1
_CLIENTS = "client-column"  # the key in messages
_SHORT = 5  # rows of a table whose rows are not numbered
_HEADER = 1_000_000  # characters that hold the first row
_NO_NAME = re.compile(r"(Unnamed: \d+[.\d]*|__index_level_\d+__)?")  # pandas' names of an index
_FILL = "Fill in the cell, leave out the row, or set missing=median."


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a file, with its cells as text and, if possible, as numbers."""

    path: Path
    name: str
    cells: Sequence[str]
    first_row: int  # the number of the first cell's row in messages
    fill: bool = False  # whether missing values have a meaning: the median, or a word of their own
    named: bool = False  # as target or clients, so that it cannot be left out

    def fault(self, value: object, allowed: str, remedy: str, at: int | None = None) -> ConfigError:
        where = "" if at is None else f"row {at + self.first_row}, "
        value = f"{value[:60]}…" if isinstance(value, str) and len(value) > 60 else value
        return ConfigError(f"{where}column {self.name} of {self.path}", value, allowed, remedy)

    @cached_property
    def words(self) -> list[str]:
        """The cells without blanks around."""
        return [cell.strip() for cell in self.cells]

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The cells as numbers (N,), NaN for missing ones if these may be filled; None for a column of words."""
        import pandas

        empty = np.array([MISSING.fullmatch(word) is not None for word in self.words])
        missing = empty | [NO_NUMBER.fullmatch(word) is not None for word in self.words]
        values = np.asarray(pandas.to_numeric(pandas.Series(self.words, dtype=object), errors="coerce"), np.float64)
        if missing.all():
            raise self.fault("", "a column with values", self.or_drop("Fill it in"))
        is_number = ~np.isnan(values)
        present = {i: self.words[i] for i in np.flatnonzero(~missing).tolist()}
        if 2 * is_number.sum() < len(present):
            written = {i: self.words[i] for i in np.flatnonzero(~empty).tolist()}
            self._check(not_words(written, is_number), empty)
            return None
        if are_codes(present, values[~missing]):
            self._check(None, missing)
            return None
        odd = next((i for i in present if not np.isfinite(values[i])), None)
        if odd is None:
            self._check(other_numbers(present), missing)
        else:
            allowed = "a finite number" if is_number[odd] else "a number with a decimal point, as in most rows"
            self._check((odd, allowed, "Correct the cell, leave out the row"), missing)
        return np.where(missing, np.nan, values)

    def _check(self, misread: Misread | None, missing: NDArray[np.bool_]) -> None:
        """Raise a fault of a cell's form, and missing values that have no meaning."""
        faults = []
        if misread:
            at, allowed, remedy = misread
            faults.append(self.fault(self.words[at], allowed, self.or_drop(remedy), at))
        if missing.any() and not self.fill:
            at = int(missing.argmax())
            remedy = "Fill in the cell, or leave out the row." if self.named else _FILL
            faults.append(self.fault(self.cells[at], "a value: no cell may be empty", remedy, at))
        _raise(faults)

    @property
    def drop(self) -> str:
        """The option that leaves the column out."""
        return f"-c {shlex.quote(f'drop={self.name}')}"

    def or_drop(self, remedy: str) -> str:
        """Return a remedy with a further one: that the column is left out, unless it is the target or the clients."""
        return f"{remedy}." if self.named else f"{remedy}, or leave the column out: {self.drop}."

    @cached_property
    def whole(self) -> bool:
        """Whether all cells are written as whole numbers."""
        return all(word.lstrip("+-").isdigit() for word in self.words)

    @cached_property
    def kinds(self) -> tuple[list[str], Ints]:
        """The sorted different values, and (N,) the index of each cell's value."""
        numbers = self.numbers
        as_text = numbers is None or np.isnan(numbers).any()
        values: Any = np.array(self.words, object) if as_text else numbers
        _, first, place = np.unique(values, return_index=True, return_inverse=True)
        return [self.words[i] for i in first], place.astype(np.int64)

    @property
    def row_number(self) -> bool:
        """Whether no two rows have the same value, though the column is no measurement."""
        whole = self.numbers is None or bool((self.numbers == np.rint(self.numbers)).all())
        return whole and len(self.kinds[0]) == len(self.cells) > _SHORT


def _raise(faults: Sequence[ConfigError]) -> None:
    """Raise the faults together, if there are any."""
    if faults:
        raise faults[0] if len(faults) == 1 else ConfigErrors(faults)


def read(kind: str, path: Path, target: str, client: str, drop: str = "", missing: str = "none") -> Dataset:
    """Read a CSV file (comma, semicolon, tab or |; optionally gzipped) or a Parquet file.

    Every fifth row is a test row, stratified by client, else by class. A column of words becomes a column of 0 and 1
    for each word. Targets are classes if they are words or at most 100 different whole numbers; other targets are
    numbers. Columns of numbers, and numeric targets, are standardised by the training rows.

    Parameters
    ----------
    kind : ``csv`` or ``parquet``
    path : the file
    target : the column to predict
    client : the column with each row's client; empty: rows have no client
    drop : columns to leave out, separated by commas
    missing : ``none``, or ``median``: of the training rows, in place of missing numbers; a missing word is a word

    Raises
    ------
    ConfigError : naming file, column and row, for each fault of the file: a column is missing; a cell is empty, no
        number, or a date; or there are too many different words, a single client, or too many clients.
    """
    left_out = {name.strip() for name in drop.split(",") if name.strip()}
    columns, notes = _columns(kind, path, {target, client, *left_out} - {""}, missing == "median")
    named = {"target": target} | ({_CLIENTS: client} if client else {})
    _check_named(columns, path, named)
    for name in sorted(left_out):
        _check_named(columns, path, {"drop": name})
        if name in (target, client):
            raise ConfigError("drop", name, "columns beside target and client-column", f"Leave {name} out of drop.")
    if target == client:
        raise ConfigError(_CLIENTS, client, f"another column of {path} than the target", "Choose another column.")
    features = [column for name, column in columns.items() if name not in (target, client, *left_out)]
    if not features:
        raise ConfigError(f"columns of {path}", ", ".join(columns), "a column beside target and client", "Add one.")
    faults: list[ConfigError] = []

    def judged(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except ConfigError as error:
            faults.extend(error.errors if isinstance(error, ConfigErrors) else [error])

    targets = judged(_targets, columns[target])
    clients = judged(_owners, columns[client]) if client else ([], None)
    for column in features:
        judged(_check_feature, column)
    _raise(faults)
    (y, classes, more), (names, owners) = targets, clients
    notes += more
    groups = owners if owners is not None else y if classes else np.zeros(len(y), np.int64)
    test = _test_rows(np.asarray(groups, np.int64))
    if owners is not None:
        notes += _alone(columns[client], names, owners)
    notes += [
        f"all values of column {column.name} differ, as in a row number, which is no feature. "
        f"Leave it out: {column.drop}."
        for column in features
        if column.row_number
    ]
    words = {column.name: column.kinds[0] for column in features if column.numbers is None}
    notes += _alike(
        words | ({target: columns[target].kinds[0]} if classes else {}) | ({client: names} if client else {})
    )
    x = np.concatenate([_encoded(column, ~test) for column in features], axis=1, dtype=np.float32)
    if not classes:
        y = _standardised(columns[target], y, ~test)
    left, held = (None, None) if owners is None else (owners[~test], owners[test])
    understood = _understood(features, columns[target], classes, names)
    return Dataset(
        kind, x[~test], y[~test], x[test], y[test], classes, left, tuple(names), tuple(notes), understood, held
    )


def _understood(features: Sequence[_Column], target: _Column, classes: int, clients: Sequence[str]) -> str:
    """Return in one line what a file was read as."""
    numbers = [column.name for column in features if column.numbers is not None]
    words = [f"{column.name} ({len(column.kinds[0])})" for column in features if column.numbers is None]
    parts = [f"{len(target.cells)} rows", f"{len(numbers)} columns of numbers{_listed(numbers)}"]
    parts += [f"{len(words)} of words{_listed(words)}"] if words else []
    parts += [f"target {target.name} with {classes} classes" if classes else f"target {target.name}, a number"]
    return ", ".join([*parts, *([f"{len(clients)} clients"] if clients else [])])


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f" ({shown})" if names else ""


def read_clients(kind: str, path: Path, client: str) -> tuple[str, ...]:
    """Return the names of the clients in a column, in order of their numbers."""
    columns, _ = _columns(kind, path, {client}, False)
    _check_named(columns, path, {_CLIENTS: client})
    return tuple(_owners(columns[client])[0])


def _columns(kind: str, path: Path, named: Collection[str], fill: bool) -> tuple[dict[str, _Column], list[str]]:
    """Return a file's columns without a row number of pandas, and notes."""
    if not is_file(path):
        raise ConfigError(f"dataset={kind}:FILE", path, "the path of a file that exists", "Correct the path.")
    try:
        import_module("pandas")
        names, columns, notes = _parquet(path, named) if kind == "parquet" else _csv(path)
    except ImportError as error:  # pandas does not name the package that it lacks for Parquet
        allowed = f"readable with {error.name or 'pyarrow'}"
        raise ConfigError("dataset", path, allowed, f"Install it: {install('data')}.") from error
    except (OSError, EOFError, UnicodeError, zlib.error, ValueError, csv.Error) as error:
        if isinstance(error, ConfigError):
            raise
        form = "Parquet" if kind == "parquet" else "CSV in UTF-8"
        allowed = f"readable as {form} ({' '.join(str(error).split())})"
        raise ConfigError("dataset", path, allowed, f"Save it again as {form}.") from error
    first, rows = (1 if kind == "parquet" else 2), len(columns[0]) if columns else 0
    kept = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        index = (not i or len(set(column)) == rows) and rows > 1 and all(cell.strip().isdigit() for cell in column)
        if name not in named and _NO_NAME.fullmatch(name) and (index or not any(column) or not (name or i)):
            notes.append(f"column {i + 1}, without a name, is an index or empty, and is left out")
        else:
            kept.append(i)
    names = [names[i] for i in kept]
    if rows < 2:
        raise ConfigError(f"the number of rows of {path}", rows, "2 or more, without the header", "Correct the file.")
    if wrong := [name for name in names if not name or names.count(name) > 1]:
        raise ConfigError(f"a column of {path}", wrong[0], "a name of its own", "Correct the first row.")
    return {
        name: _Column(path, name, columns[i], first, fill and name not in named, name in named)
        for name, i in zip(names, kept, strict=True)
    }, notes


_Cells = tuple[list[str], list[list[str]], list[str]]  # names, columns, notes


def _csv(path: Path) -> _Cells:
    """Read a CSV file; rows have the numbers of a spreadsheet, with the header as row 1."""
    blob, notes = path.read_bytes(), []
    blob = gzip.decompress(blob) if blob.startswith(b"\x1f\x8b") else blob
    try:
        text = blob.decode("utf-16" if blob[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        text = blob.decode("cp1252")
        notes.append("it is not in UTF-8, and was read as Windows-1252 (cp1252)")
    if "\0" in text:
        raise ConfigError("dataset", path, "a text without the character NUL", "Save it as CSV in UTF-8.")
    delimiter = max(",;\t|", key=re.sub('"[^"]*"', "", text[:_HEADER]).partition("\n")[0].count)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = [[*map(sys.intern, line)] for line in lines]  # equal cells are one object
    while rows and not rows[-1]:
        rows.pop()
    if rows and len(rows[0]) < 2:
        allowed = "two columns or more, separated by a comma, a semicolon, a tab or |"
        raise ConfigError(f"columns of {path}", ", ".join(rows[0]), allowed, "Correct the first row.")
    for i, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            allowed = f"{len(rows[0])} cells, as in row 1"
            remedy = f"Correct it, leave it out, or quote a cell that holds {delimiter!r}."
            raise ConfigError(f"row {i} of {path}", f"{len(row)} cells", allowed, remedy)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [" ".join(column[0].split()) for column in columns], [column[1:] for column in columns], notes


def _parquet(path: Path, named: Collection[str]) -> _Cells:
    """Read a Parquet file; the index of a DataFrame is a column only if it has been named."""
    import pandas

    table = pandas.read_parquet(path, dtype_backend="numpy_nullable")
    kept = [name for name in table.index.names if name in named]
    lost = [name for name in table.index.names if name is not None and name not in named]
    notes = [f"the index {name} of the DataFrame is left out; reset_index() makes it a column" for name in lost]
    table = table.reset_index(kept) if kept else table
    cells = [table[name].astype(object).where(table[name].notna(), "").map(_text).tolist() for name in table.columns]
    return list(map(str, table.columns)), cells, notes


def _text(cell: object) -> str:
    """Return a cell of a Parquet file, which may hold a text as bytes."""
    return cell.decode(errors="backslashreplace") if isinstance(cell, bytes) else str(cell)


def _check_named(columns: Mapping[str, _Column], path: Path, named: Mapping[str, str]) -> None:
    for key, name in named.items():
        if name not in columns:
            near = did_you_mean(name, columns).strip() or "Choose one of these."
            raise ConfigError(key, name, f"a column of {path}: {', '.join(columns)}", near)


def _check_feature(column: _Column) -> None:
    """Refuse a column that cannot be read, or has too many words."""
    if column.numbers is None and len(column.kinds[0]) > _MOST_WORDS:
        what, most = f"{len(column.kinds[0])} different words", f"at most {_MOST_WORDS} different words"
        raise column.fault(what, most, column.or_drop("Group its words"))


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(read_number(cell)))
    except ValueError:
        return False


def _targets(column: _Column) -> tuple[NDArray[Any], int, list[str]]:
    """Return labels or numeric targets, the number of classes, and warnings."""
    numbers, (kinds, place) = column.numbers, column.kinds
    if len(kinds) < 2:
        raise column.fault(kinds[0], "two different values or more", "Choose another target.")
    if numbers is not None and not (column.whole and len(kinds) <= MOST_CLASSES):
        note = (
            f"column {column.name} holds {len(kinds)} whole numbers with a decimal point, so the model predicts "
            "numbers. If they are classes, write them without the point."
        )
        return numbers, 0, [note] if resemble_classes(numbers) else []
    if 2 * len(kinds) > len(place):
        raise column.fault(
            f"{len(kinds)} different values in {len(place)} rows", "classes that repeat", "Choose another target."
        )
    return place, len(kinds), []


def _owners(column: _Column) -> tuple[list[str], Ints]:
    """Return the clients' names and the client of each row."""
    # A name has one line: spaces, breaks and tabs between words are one space.
    written = ["".join(filter(str.isprintable, " ".join(cell.split()))) for cell in column.cells]
    for row, name in enumerate(written):
        if not is_name(name) or MISSING.fullmatch(name):
            allowed = f"the client of the row, in 1 to {MAX_NAME} characters"
            raise column.fault(name, allowed, "Correct the cell, or leave out the row.", row)
    names, place = numbered(written)
    if len(names) < 2:
        raise column.fault(names[0], "a column of two clients or more", "Choose another column of clients.")
    if 2 * len(names) > len(place):
        allowed = "values that repeat, two rows a client on average"
        raise column.fault(f"{len(names)} clients in {len(place)} rows", allowed, "Choose another column of clients.")
    return names, place


def numbered(cells: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the different values, numbers before words, and (N,) each cell's index."""
    values = sorted(set(cells), key=lambda cell: (float(cell) if _is_number(cell) else np.inf, cell))
    place = {value: number for number, value in enumerate(values)}
    return values, np.array([place[cell] for cell in cells], np.int64)


def by_group(groups: Ints, purpose: str) -> Ints:
    """Return the rows group after group, in a random order within each."""
    order = generator(0, 0, purpose).permutation(len(groups))
    return order[np.argsort(groups[order], kind="stable")]


def _test_rows(groups: Ints) -> NDArray[np.bool_]:
    """Return the test rows: a random fifth of each group; a group with one row has none."""
    ranked = by_group(groups, "split")
    test = np.zeros(len(groups), bool)
    test[ranked[_TEST // 2 :: _TEST]] = True
    test &= np.bincount(groups)[groups] > 1
    if not test.any():
        test[ranked[np.bincount(groups)[groups[ranked]] > 1][:1]] = True
    return test


def _alone(column: _Column, names: Sequence[str], owners: Ints) -> list[str]:
    """Return a note on clients with a single row."""
    alone = np.flatnonzero(np.bincount(owners, minlength=len(names)) == 1)
    if not alone.size:
        return []
    row = int(np.flatnonzero(owners == alone[0])[0]) + column.first_row
    return [
        f"{alone.size} of {len(names)} clients have one row, the first is {column.name} {names[alone[0]]} (row {row}). "
        "The row is for training."
    ]


def _alike(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a note for each column with two words that differ in case, blanks, form or leading zeros only."""
    notes = []
    for column, words in columns.items():
        seen: dict[str, str] = {}
        for word in words:
            like = " ".join(unicodedata.normalize("NFKC", word).casefold().split()).lstrip("0")
            if (other := seen.setdefault(like, word)) != word:
                notes.append(f"{other!r} and {word!r} of column {column} are two values, as they are written")
                break
    return notes


def _encoded(column: _Column, train: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return (N, features) of a column: standardised numbers, or 0 and 1 for each word."""
    if column.numbers is not None:
        known = column.numbers[train]
        numbers = np.where(np.isnan(column.numbers), np.median(known[~np.isnan(known)]), column.numbers)
        return _standardised(column, numbers, train)[:, None]
    kinds, place = column.kinds
    return np.asarray(place[:, None] == np.arange(len(kinds)), np.float32)


def _standardised(column: _Column, numbers: NDArray[np.float64], train: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return numbers with mean 0 and deviation 1 over the training rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = numbers[train].std()
        values: NDArray[np.float32] = ((numbers - numbers[train].mean()) / (deviation or 1.0)).astype(np.float32)
    if not (np.isfinite(deviation) and np.isfinite(values).all() and (deviation or np.ptp(numbers[train]) == 0)):
        size = f"{np.abs(numbers).max():g}"
        raise column.fault(size, "numbers whose squares are finite and not 0", "Use another unit.")
    return values
