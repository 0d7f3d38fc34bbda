"""Results on disk: rows as CSV, beside them as JSON the settings they belong to and which units are complete.

The CSV file has a line for each run. A cell holds one number or string where all rows of the run agree. Otherwise it
holds the rows' numbers, separated by spaces; ``1..80`` stands for 1, 2, …, 80, and ``-`` for no number. A file with a
line for each row is read, too.

Both files are written anew, aside and renamed, after each unit, the CSV first: a process that is killed loses the unit
at hand, and rows that the JSON does not vouch for are dropped when the results are opened again.
"""

import csv
import io
import json
import re
from collections import Counter
from contextlib import contextmanager
from itertools import groupby

from aoi_fl.lab.experiments.harness.base import Row
from aoi_fl.protocol.files import try_writing, write_whole
from aoi_fl.science.errors import ConfigError


class Store:
    """The results of one experiment in a folder.

    Attributes
    ----------
    rows : of all complete units, in the order of completion or of :meth:`arrange`
    settings : of the results
    seconds : of one core
    planned : units that the commands so far have, complete or not
    machine, commands : of the runs; as JSON, a unit has its own if it is not the first unit's

    Raises ConfigError if the folder has results of this experiment under other settings, or unreadable files.
    """

    def __init__(self, folder, name, settings, machine):
        self.table, self._about = folder / f"{name}.csv", folder / f"{name}.json"
        self.settings = plain(settings)
        self._here = self._first = machine
        self.rows = []
        self._units = []
        self._command, self._commands, self.planned = "", [], 0
        if self._about.exists():
            self._take_up()

    @classmethod
    def recorded(cls, folder, name):
        """Open results under their own settings; None if there are none."""
        path = folder / f"{name}.json"
        return cls(folder, name, _read(path)["settings"], "") if path.exists() else None

    @property
    def units(self):
        """The complete units."""
        return [known["unit"] for known in self._units]

    @property
    def seconds(self):
        """Seconds of one core that the complete units took."""
        return sum(known["seconds"] for known in self._units)

    def spent(self, units, seeds):
        """Return the seconds of one core of complete units with these values in their columns, of these seeds.

        Units without a seed count in any case.
        """
        known = (k for k in self._units if "seed" not in k["unit"] or k["unit"]["seed"] in seeds)
        return sum(k["seconds"] for k in known if rests_on(k["unit"], units))

    @property
    def machine(self):
        """The machines of the complete units, each with its number of units."""
        count = Counter(known.get("machine", self._first) for known in self._units)
        if len(count) < 2:
            return next(iter(count), self._first)
        return "; ".join(f"{number} unit{'s' if number > 1 else ''} on {machine}" for machine, number in count.items())

    def commands(self, units):
        """Return the commands that ran the complete units with these values in their columns."""
        ran = {known.get("command", 0) for known in self._units if rests_on(known["unit"], units)}
        return [command for place, command in enumerate(self._commands) if place in ran]

    def begin(self, command, units):
        """Take further units as run by a command that has these."""
        self._command, there = command, {key_of(unit) for unit in (*self.units, *units)}
        self.planned = max(self.planned, len(there))

    def add(self, unit, rows, seconds):
        """Add a finished unit, with its seconds of one core."""
        self.rows += [{**unit, **row} for row in rows]
        if self._command not in self._commands:
            self._commands.append(self._command)
        own: Row = {} if self._here == self._first else {"machine": self._here}
        own |= {"command": place} if (place := self._commands.index(self._command)) else {}
        self._units.append({"unit": unit, "seconds": round(seconds, 3), **own})
        self._write()

    def check_place(self):
        """Raise ConfigError if the folder is not writable."""
        with _writing(self.table):
            self.table.parent.mkdir(parents=True, exist_ok=True)
            try_writing(self.table.parent)

    def arrange(self, units):
        """Sort units and their rows in the order given, others after them: processes finish in any order."""
        places = {key_of(unit): i for i, unit in enumerate(units)}

        def place(unit):
            return places.get(key_of(unit), len(places))

        if sorted(self.units, key=place) == self.units:
            return
        columns = tuple(self._units[0]["unit"])
        self._units.sort(key=lambda known: place(known["unit"]))
        self.rows.sort(key=lambda row: place({c: row[c] for c in columns}))
        self._write()

    def _write(self):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in self.rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(packed(self.rows, tuple(self._units[0]["unit"])))
        _keep(self.table, text.getvalue())
        told = {"settings": self.settings, "machine": self._first, "commands": self._commands, "planned": self.planned}
        about = json.dumps(told, indent=1).removesuffix("\n}")
        units = ",\n".join(map(json.dumps, self._units))
        _keep(self._about, f'{about},\n "units": [\n{units}\n]}}\n')

    def _take_up(self):
        about = _read(self._about)
        before, now = about["settings"], self.settings
        other = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        if other:
            theirs = ", ".join(f"{key}={before.get(key)}" for key in other)
            ours = ", ".join(f"{key}={now.get(key)}" for key in other)
            allowed = f"results with the values of this command ({ours}), and they have {theirs}"
            remedy = f"Give the same values or another --out, or delete {self.table.stem}.csv and .json there."
            raise ConfigError("--out", self._about, allowed, remedy)
        self._units, self._first = about["units"], about["machine"]
        self._commands = about.get("commands", [f"aoi reproduce {self.table.stem}"])
        self.planned = about.get("planned", len(self._units))
        try:
            with open(self.table, newline="", encoding="utf-8") as file:
                rows = list(unpacked(csv.DictReader(file)))
        except (OSError, ValueError) as error:
            allowed = f"readable, with series of equal length ({error})"
            raise ConfigError("--out", self.table, allowed, f"Delete it and {self._about} to start anew.") from error
        complete = {key_of(unit) for unit in self.units}
        columns = tuple(self._units[0]["unit"]) if self._units else ()
        self.rows = [row for row in rows if key_of({column: row.get(column) for column in columns}) in complete]


def packed(rows, unit):
    """Yield one row for neighbours of a unit, with a series in each column in which they differ.

    Rows that differ in a string stay apart. So do equal rows, because a series has the number of rows. ``unit`` has the
    identifying columns.
    """

    def apart(row):
        return [(column, value) for column, value in row.items() if column in unit or not _is_number(value)]

    for _, group in groupby(rows, apart):
        these = list(group)
        columns = {column: [row.get(column) for row in these] for row in these for column in row}
        cells = {column: _cell(values) for column, values in columns.items()}
        if len(these) > 1 and all(_series(str(cell)) is None for cell in cells.values()):
            yield from these
        else:
            yield cells


def unpacked(lines):
    """Yield the rows behind the lines of a CSV file."""
    for line in lines:
        series = {column: found for column, cell in line.items() if (found := _series(cell or ""))}
        constant = {column: _value(cell) for column, cell in line.items()}
        for values in zip(*series.values(), strict=True) if series else [()]:
            yield {**constant, **dict(zip(series, values, strict=True))}


def plain(settings):
    """Return settings as JSON holds them."""
    return json.loads(json.dumps(settings))


def rests_on(unit, units):
    """Return whether a unit or row has one of the given values in each of the columns."""
    return all(unit.get(column) in values for column, values in units.items())


def key_of(unit):
    """Return the identity of a unit, for any order of its columns."""
    return frozenset(unit.items())


def _keep(path, text):
    with _writing(path):
        write_whole(path, text.encode())


@contextmanager
def _writing(path):
    try:
        yield
    except OSError as error:
        remedy = "Make room, or choose another folder with --out. The completed units are kept."
        raise ConfigError("--out", path, f"a file that you can write ({error.strerror})", remedy) from error


def _read(path):
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if {"settings", "machine", "units"} <= set(about):
            return about
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError("--out", path, f"readable ({error})", "Delete the file to start anew.") from error
    raise ConfigError("--out", path, "results of aoi reproduce", "Delete the file, or choose another --out.")


def _is_number(value):
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(values):
    """Return a column's only value, or its values as a series."""
    if len({str(value) for value in values}) == 1:
        return values[0]
    first, count = values[0], len(values)
    if isinstance(first, int) and list(values) == list(range(first, first + count)):
        return f"{first}..{first + count - 1}"
    return " ".join("-" if value is None else str(value) for value in values)


def _series(cell):
    """Return the numbers of a series; None for any other cell."""
    if ends := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", cell):
        return list(range(int(ends[1]), int(ends[2]) + 1))
    values = [None if part == "-" else _value(part) for part in cell.split(" ")]
    return values if len(values) > 1 and all(map(_is_number, values)) else None


def _value(cell):
    """Return a cell's content: nothing, a whole number, a number, or a string."""
    if cell is None or cell == "":
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell
