"""A user's own data set in a CSV or Parquet file, with the target in one column.

The result depends on the file and the names of two columns only: server, clients and simulation get the same rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.learning.cells import MISSING, understand
from aoi_fl.learning.form import MOST_CLASSES, Dataset, resemble_classes
from aoi_fl.protocol import MAX_NAME, is_name
from aoi_fl.protocol.clients import read_number
from aoi_fl.protocol.files import is_file
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError, ConfigErrors, did_you_mean, install, refusing
from aoi_fl.science.types import AnyArray, Floats, Ints, Mask

_TEST = 5  # every fifth row is a test row
_MOST_WORDS = 200  # different words of a column; each becomes a column of 0 and 1
_CLIENTS = "client-column"  # the key in messages
_SHORT = 5  # rows of a table whose rows are not numbered
_HEADER = 1_000_000  # characters that hold the first row
_NO_NAME = re.compile(r"(Unnamed: \d+[.\d]*|__index_level_\d+__)?")  # pandas' names of an index


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a file, with its cells as text without blanks around and, if possible, as numbers."""

    path: Path
    name: str
    cells: Sequence[str]
    first_row: int  # the number of the first cell's row in messages
    fill: bool  # whether missing values have a meaning: the median, or a word of their own
    named: bool  # as target or clients, so that it cannot be left out

    def fault(self, value: object, allowed: str, remedy: str, at: int | None = None) -> ConfigError:
        where = "" if at is None else f"row {at + self.first_row}, "
        remedy += "" if self.named else f", or leave the column out: {self.drop}"
        return ConfigError(f"{where}column {self.name} of {self.path}", value, allowed, f"{remedy}.")

    @property
    def drop(self) -> str:
        """The option that leaves the column out."""
        return f"-c {shlex.quote(f'drop={self.name}')}"

    @cached_property
    def numbers(self) -> Floats | None:
        """The cells as numbers (N,), NaN for missing ones if these may be filled; None for a column of words."""
        numbers, present, misread = understand(self.cells)
        if not present.any():
            raise self.fault("", "a column with values", "Fill it in")
        faults = []
        if misread:
            at, allowed, remedy = misread
            faults.append(self.fault(self.cells[at], allowed, remedy, at))
        if not (self.fill or present.all()):
            at = int(present.argmin())
            remedy = "Fill in the cell, leave out the row" + ("" if self.named else ", set missing=median")
            faults.append(self.fault(self.cells[at], "a value: no cell may be empty", remedy, at))
        _raise(faults)
        return numbers

    @cached_property
    def kinds(self) -> tuple[list[Any], Ints]:
        """The sorted different values, and (N,) the index of each cell's value."""
        values = np.array(self.cells, object) if self.numbers is None else self.numbers
        kinds, place = np.unique(values, return_inverse=True)
        return kinds.tolist(), place.astype(np.int64)


def _raise(faults: Sequence[ConfigError]) -> None:
    """Raise the faults together, if there are any."""
    if faults:
        raise ConfigErrors(faults)


def read(kind: str, path: Path, target: str, client: str = "", drop: str = "", missing: str = "none") -> Dataset:
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
    dropped = sorted({name.strip() for name in drop.split(",")} - {""})
    keys = [("target", target), *[(_CLIENTS, client)] * bool(client), *(("drop", name) for name in dropped)]
    columns, notes = _columns(kind, path, keys, missing == "median")
    features = [column for column in columns.values() if not column.named]
    if not features:
        raise ConfigError(f"columns of {path}", ", ".join(columns), "a column beside target and client", "Add one.")
    roles: Mapping[str, Callable[[_Column], Any]] = {target: _targets, client: _owners}
    parts: dict[str, Any] = {}
    faults: list[ConfigError] = []
    for name in [name for name in columns if name not in dropped]:
        try:
            parts[name] = roles.get(name, _check_feature)(columns[name])
        except ConfigError as error:
            faults += getattr(error, "errors", (error,))
    _raise(faults)
    y, classes = parts[target]
    names, owners = parts.get(client, ([], None))
    groups = owners if owners is not None else y if classes else np.zeros(len(y), np.int64)
    test = _test_rows(groups)
    notes += _notes(features, columns[target], classes, {client: names})
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
    parts = [f"{len(target.cells)} rows"]
    for what, names in (("numbers", numbers), ("words", words)):
        if names:
            shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            parts.append(f"{len(names)} columns of {what} ({shown})")
    parts.append(f"target {target.name} with {classes} classes" if classes else f"target {target.name}, a number")
    return ", ".join([*parts, f"{len(clients)} clients"] if clients else parts)


def _notes(features: Sequence[_Column], target: _Column, classes: int, clients: dict[str, list[str]]) -> Iterator[str]:
    """Yield warnings about a file that is valid but probably a mistake; ``clients`` are the names in their column."""
    if target.numbers is not None and not classes and resemble_classes(target.numbers):
        yield (
            f"column {target.name} holds {len(target.kinds[0])} whole numbers with a decimal point, so the model "
            "predicts numbers. If they are classes, write them without the point."
        )
    for column in features:
        whole = column.numbers is None or bool((column.numbers == np.rint(column.numbers)).all())
        if whole and len(column.kinds[0]) == len(column.cells) > _SHORT:
            yield (
                f"all values of column {column.name} differ, as in a row number, which is no feature. "
                f"Leave it out: {column.drop}."
            )
    words = {column.name: column.kinds[0] for column in (*features, target) if column.numbers is None}
    for name, written in (words | clients).items():  # two words may differ in case, blanks, form or leading zeros only
        seen: dict[str, str] = {}
        for word in written:
            like = " ".join(unicodedata.normalize("NFKC", word).casefold().split()).lstrip("0")
            if (other := seen.setdefault(like, word)) != word:
                yield f"{other!r} and {word!r} of column {name} are two values, as they are written"
                break


def read_clients(kind: str, path: Path, client: str) -> tuple[str, ...]:
    """Return the names of the clients in a column, in order of their numbers."""
    columns, _ = _columns(kind, path, [(_CLIENTS, client)], False)
    return tuple(_owners(columns[client])[0])


def _columns(
    kind: str, path: Path, keys: Sequence[tuple[str, str]], fill: bool
) -> tuple[dict[str, _Column], list[str]]:
    """Return a file's columns without a row number of pandas, and notes; ``keys`` are run keys that name columns."""
    named = [name for _, name in keys]
    if not is_file(path):
        raise ConfigError(f"dataset={kind}:FILE", path, "the path of a file that exists", "Correct the path.")
    form = "Parquet" if kind == "parquet" else "CSV in UTF-8"
    errors = (OSError, EOFError, zlib.error, ValueError, csv.Error)
    with refusing(errors, "dataset", path, f"readable as {form}", f"Save it again as {form}."):
        try:
            columns, notes = _parquet(path, named) if kind == "parquet" else _csv(path)
        except ImportError as error:  # pandas does not name the package that it lacks for Parquet
            allowed = f"readable with {error.name or 'pyarrow'}"
            raise ConfigError("dataset", path, allowed, f"Install it: {install('data')}.") from error
    if len(columns) < 2:
        allowed = "two columns or more, of a CSV file separated by a comma, a semicolon, a tab or |"
        raise ConfigError(f"columns of {path}", ", ".join(name for name, _ in columns), allowed, "Correct the file.")
    first, rows = (1 if kind == "parquet" else 2), len(columns[0][1])
    if rows < 2:
        raise ConfigError(f"the number of rows of {path}", rows, "2 or more, without the header", "Correct the file.")
    found: dict[str, _Column] = {}
    for i, (name, cells) in enumerate(columns):
        index = (not i or len(set(cells)) == rows) and all(map(str.isdigit, cells))
        if name not in named and _NO_NAME.fullmatch(name) and (index or not any(cells) or not (name or i)):
            notes.append(f"column {i + 1}, without a name, is an index or empty, and is left out")
        elif not name or name in found:
            raise ConfigError(f"a column of {path}", name, "a name of its own", "Correct the first row.")
        else:
            found[name] = _Column(path, name, cells, first, fill and name not in named, name in named)
    for i, (key, name) in enumerate(keys):
        if name not in found:
            near = did_you_mean(name, found).strip() or "Choose one of these."
            raise ConfigError(key, name, f"a column of {path}: {', '.join(found)}", near)
        if name in named[:i]:
            raise ConfigError(key, name, f"a column of {path} that no other key names", "Choose another column.")
    return found, notes


_Cells = tuple[list[tuple[str, list[str]]], list[str]]  # names with their cells, and notes


def _csv(path: Path) -> _Cells:
    """Read a CSV file; rows have the numbers of a spreadsheet, with the header as row 1."""
    import pandas  # noqa: F401  # without which no cell is understood

    blob, notes = path.read_bytes(), []
    blob = gzip.decompress(blob) if blob.startswith(b"\x1f\x8b") else blob
    try:
        text = blob.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = blob.decode("cp1252")
        notes.append("it is not in UTF-8, and was read as Windows-1252 (cp1252)")
    if "\0" in text or not text.strip():
        raise ValueError("it has the character NUL" if text.strip() else "it is empty")
    delimiter = max(",;\t|", key=re.sub('"[^"]*"', "", text[:_HEADER]).partition("\n")[0].count)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows = csv.reader(io.StringIO(text.rstrip("\r\n"), ""), delimiter=delimiter, strict=True)
    header = next(rows)
    if not header:
        raise ValueError("its first row is empty")
    columns: list[list[str]] = [[] for _ in header]
    words: dict[str, str] = {}  # equal cells are one object
    for i, row in enumerate(rows, 2):
        if len(row) != len(header):
            remedy = f"Correct it, leave it out, or quote a cell that holds {delimiter!r}."
            raise ConfigError(f"row {i} of {path}", f"{len(row)} cells", f"{len(header)} cells, as in row 1", remedy)
        for column, cell in zip(columns, map(str.strip, row), strict=True):
            column.append(words.setdefault(cell, cell))
    return [(" ".join(name.split()), cells) for name, cells in zip(header, columns, strict=True)], notes


def _parquet(path: Path, named: Sequence[str]) -> _Cells:
    """Read a Parquet file; the index of a DataFrame is a column only if it has been named."""
    import pandas

    table = pandas.read_parquet(path, dtype_backend="numpy_nullable")
    kept = [name for name in table.index.names if name in named]
    lost = [name for name in table.index.names if name is not None and name not in named]
    notes = [f"the index {name} of the DataFrame is left out; reset_index() makes it a column" for name in lost]
    table = (table.reset_index(kept) if kept else table).astype(object)
    cells = table.where(table.notna(), "").map(_text)
    return [(str(name), cells[name].tolist()) for name in cells], notes


def _text(cell: object) -> str:
    """Return a cell of a Parquet file, which may hold a text as bytes."""
    return (cell.decode(errors="backslashreplace") if isinstance(cell, bytes) else str(cell)).strip()


def _check_feature(column: _Column) -> None:
    """Refuse a column that cannot be read, or has too many words."""
    if column.numbers is None and len(column.kinds[0]) > _MOST_WORDS:
        raise column.fault(f"{len(column.kinds[0])} different words", f"at most {_MOST_WORDS}", "Group its words")


def _targets(column: _Column) -> tuple[AnyArray, int]:
    """Return labels, or the targets of a regression, and the number of classes."""
    numbers, (kinds, place) = column.numbers, column.kinds
    if len(kinds) < 2:
        raise column.fault(kinds[0], "two different values or more", "Choose another target")
    whole = all(cell.lstrip("+-").isdigit() for cell in column.cells)
    if numbers is not None and not (whole and len(kinds) <= MOST_CLASSES):
        return numbers, 0
    if 2 * len(kinds) > len(place):
        what = f"{len(kinds)} different values in {len(place)} rows"
        raise column.fault(what, "classes that repeat", "Choose another target")
    return place, len(kinds)


def _owners(column: _Column) -> tuple[list[str], Ints]:
    """Return the clients' names and the client of each row."""
    # A name has one line: spaces, breaks and tabs between words are one space.
    written = ["".join(filter(str.isprintable, " ".join(cell.split()))) for cell in column.cells]
    for row, name in enumerate(written):
        if not is_name(name) or MISSING.fullmatch(name):
            allowed = f"the client of the row, in 1 to {MAX_NAME} characters"
            raise column.fault(name, allowed, "Correct the cell, or leave out the row", row)
    names, place = numbered(written)
    if len(names) < 2:
        raise column.fault(names[0], "a column of two clients or more", "Choose another column of clients")
    if 2 * len(names) > len(place):
        what, allowed = f"{len(names)} clients in {len(place)} rows", "values that repeat, two rows a client on average"
        raise column.fault(what, allowed, "Choose another column of clients")
    return names, place


def numbered(cells: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the different values, numbers before words, and (N,) each cell's index."""
    values = sorted(set(cells), key=lambda cell: (_number(cell), cell))
    place = {value: number for number, value in enumerate(values)}
    return values, np.array([place[cell] for cell in cells], np.int64)


def _number(cell: str) -> float:
    try:
        return read_number(cell)
    except ValueError:
        return np.inf


def by_group(groups: Ints, purpose: str) -> Ints:
    """Return the rows group after group, in a random order within each."""
    order = generator(0, 0, purpose).permutation(len(groups))
    return order[np.argsort(groups[order], kind="stable")]


def _test_rows(groups: Ints) -> Mask:
    """Return the test rows: a random fifth of each group; a group with one row has none."""
    ranked = by_group(groups, "split")
    test = np.zeros(len(groups), bool)
    test[ranked[_TEST // 2 :: _TEST]] = True
    test &= np.bincount(groups)[groups] > 1
    if not test.any():
        test[ranked[np.bincount(groups)[groups[ranked]] > 1][:1]] = True
    return test


def _encoded(column: _Column, train: Mask) -> NDArray[np.float32]:
    """Return (N, features) of a column: standardised numbers, or 0 and 1 for each word."""
    if column.numbers is not None:
        median = np.nanmedian(column.numbers[train])
        return _standardised(column, np.where(np.isnan(column.numbers), median, column.numbers), train)[:, None]
    kinds, place = column.kinds
    return np.asarray(place[:, None] == np.arange(len(kinds)), np.float32)


def _standardised(column: _Column, numbers: Floats, train: Mask) -> NDArray[np.float32]:
    """Return numbers with mean 0 and deviation 1 over the training rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = numbers[train].std()
        values: NDArray[np.float32] = ((numbers - numbers[train].mean()) / (deviation or 1.0)).astype(np.float32)
    if not (np.isfinite(deviation) and np.isfinite(values).all() and (deviation or np.ptp(numbers[train]) == 0)):
        size = f"{np.abs(numbers).max():g}"
        raise column.fault(size, "numbers whose squares are finite and not 0", "Use another unit")
    return values
