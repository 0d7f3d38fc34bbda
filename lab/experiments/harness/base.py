"""The interface of an experiment: units that run one at a time, a picture, and conclusions."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from aoi_fl.lab.experiments.harness.drawing import Panel, draw_charts
from aoi_fl.lab.experiments.harness.findings import Claim, Conclusion, Table, listed
from aoi_fl.science.types import Floats as Floats
from aoi_fl.science.types import Ints as Ints
from aoi_fl.science.types import Mask as Bools  # noqa: F401

Row = dict[str, Any]  # numbers, strings and None, as a CSV file holds them
Rows = Sequence[Row]
Values = Mapping[str, Any]  # by column or key
Unit = dict[str, Any]  # the columns that identify a unit


@dataclass(frozen=True)
class Options:
    """The user's choices; ``None`` stands for the experiment's own."""

    seeds: int | None = None
    rounds: int | None = None
    model: str | None = None
    quick: bool = False  # fewer seeds and rounds, to see that it works
    data_dir: Path = Path("data")
    work: Path = Path("runs/reproduce")  # folder of the runs under way
    quiet: bool = field(default=False, compare=False)
    version: int = 1  # of the experiment


class Experiment(ABC):
    """One figure or table. Its file of ``rows/`` has what it claims, and the attributes below.

    Parameters
    ----------
    row : attributes; charts as fields of panels, and claims, each with a key, as fields of claims without a result,
        one or more by :func:`spread`
    """

    name: str  # in the command, and the stem of the files
    code: str  # module and class
    page: str = ""  # stem of the page that it shares with others; by default its name
    title: str
    source: str  # paper and figure or table
    minutes: float  # of one core, about, at full size
    claims: Mapping[str, Claim]  # without a result
    common: Mapping[str, Any] = {}  # fields of all claims that have no other ones
    in_all: bool = True  # whether `all` includes it
    quick: bool = True  # whether a quick look at all experiments includes it
    whole_seeds: bool = False  # whether a seed counts only when all its units are complete
    version: int = 1  # raised when its units change, so that two versions never mix
    data: Sequence[str] = ()  # names of data sets
    conditions: Mapping[str, Any] = {}  # settings; a list has the value at full size and that in a quick look
    takes: Sequence[str] = ()  # the user's options that are settings, too: rounds, model
    factors: Mapping[str, Sequence[Any]] = {}  # values of a unit's columns beside the seed
    counts: Sequence[int] = (20, 6)  # seeds at full size and in a quick look
    first: int = 1  # seed
    batch: int  # instances a unit
    charts: Sequence[Panel]
    text: str  # of the page, with the names of values in braces
    points: Sequence[str] = ()  # below the text
    tables: Sequence[Mapping[str, Any]] = ()  # of the page: caption and head

    def __init__(self, **row: Any) -> None:
        vars(self).update(row)
        self.charts = [Panel(**fields) for fields in row.get("charts", ())]
        claims = [
            claim for key, of in row.get("claims", {}).items() for claim in spread({"key": key, **self.common, **of})
        ]
        self.claims = {fields.pop("key"): Claim(**fields) for fields in claims}

    def judged(self, **found: Any) -> tuple[Claim, ...]:
        """Return the claims in order, the named ones with what was measured and the verdict (and the seeds)."""
        return tuple(
            replace(claim, **dict(zip(("ours", "verdict", "seeds"), found.get(key, ()), strict=False)))
            for key, claim in self.claims.items()
        )

    def concluded(self, found: Mapping[str, Any], *lines: Sequence[Sequence[str]], **values: Any) -> Conclusion:
        """Return the claims as :meth:`judged`, and text and tables with values in place of their names.

        A table without lines is left out.
        """
        tables = (
            Table(row["caption"].format_map(values), row["head"], of)
            for row, of in zip(self.tables, lines, strict=True)
            if of
        )
        return Conclusion(self.worded(**values), self.judged(**found), tuple(tables))

    def worded(self, **values: Any) -> str:
        """Return the text, and below it the points, with values in place of their names; empty points are left out."""
        points = [point.format_map(values) for point in self.points]
        return listed(self.text.format_map(values).rstrip(), [*filter(None, points)])

    def datasets(self, options: Options) -> Sequence[str]:
        """Return the data sets of its units; a quick look reads the digits."""
        return ("digits",) if options.quick and self.data else self.data

    @property
    def home(self) -> str:
        """The page that it is on."""
        return f"{self.page or self.name}.md"

    def settings(self, options: Options) -> Values:
        """Return everything that a unit's rows depend on; results of other settings stay apart."""
        found = {
            key: value[options.quick] if isinstance(value, list) else value for key, value in self.conditions.items()
        }
        for option in self.takes:
            key = "num-server-rounds" if option == "rounds" and "num-server-rounds" in found else option
            found[key] = getattr(options, option) or found[key]
        return found

    def kept_under(self, options: Options) -> dict[str, Any]:
        """Return the settings and a version above 1: results on disk must agree in these."""
        return {**self.settings(options), **({"version": self.version} if self.version > 1 else {})}

    def firsts(self, options: Options) -> range:
        """Return the number of the first instance of each batch."""
        return range(1, (options.seeds or self.counts[options.quick]) + 1, self.batch)

    def cells(self, options: Options) -> list[Unit]:
        """Return the columns of a seed's units, in order: by default each combination of the factors."""
        return [dict(zip(self.factors, values, strict=True)) for values in product(*self.factors.values())]

    def units(self, options: Options) -> list[Unit]:
        """Return the units, in order; more seeds only add units."""
        numbers = seeds(options, *self.counts, self.first)
        return [{"seed": seed, **cell} for seed in numbers for cell in self.cells(options)]

    @abstractmethod
    def play(self, unit: Unit, options: Options) -> Rows:
        """Run one unit in this process, and return its rows without the unit's own columns."""

    @abstractmethod
    def conclude(self, rows: Rows, settings: Values) -> Conclusion:
        """Draw the conclusions from the rows of all units."""

    def plot(self, rows: Rows, settings: Values, figure: Figure) -> None:
        """Draw the rows of all units: by default the panels of ``charts``."""
        draw_charts(figure, self.charts, rows)


class Instances(Experiment):
    """An experiment on random instances by number, some of them a unit."""

    def units(self, options: Options) -> list[Unit]:
        """Return a unit for each batch of instances and each cell of the factors."""
        return [{**cell, "first": first} for first in self.firsts(options) for cell in self.cells(options)]

    def play(self, unit: Unit, options: Options) -> Rows:
        """Return the rows of each instance, with its number."""
        seeds = range(unit["first"], unit["first"] + self.batch)
        return [{"seed": seed, **self.instance(unit, seed, options)} for seed in seeds]

    @abstractmethod
    def instance(self, unit: Unit, seed: int, options: Options) -> Row:
        """Return what is measured of an instance."""


def spread(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that a row stands for: with columns ``over``, one for each line of them, else itself.

    A line's values are put in place of their names in braces.

    >>> spread({"claim": "{who} wins", "over": {"who": ["A", "B"]}})
    [{'claim': 'A wins'}, {'claim': 'B wins'}]
    """
    fields = dict(row)
    over = fields.pop("over", None)
    if over is None:
        return [fields]
    return [_filled(fields, dict(zip(over, line, strict=True))) for line in zip(*over.values(), strict=True)]


def _filled(part: Any, values: Values) -> Any:
    if isinstance(part, str):
        return part.format_map(values)
    if isinstance(part, list):
        return [_filled(each, values) for each in part]
    return {key: _filled(each, values) for key, each in part.items()} if isinstance(part, dict) else part


def having(rows: Iterable[Row], **where: Any) -> list[Row]:
    """Return the rows that have these values in their columns."""
    return [row for row in rows if where.items() <= row.items()]


def pick(rows: Iterable[Row], name: str, **where: Any) -> list[Any]:
    """Return a column of the rows that have these values in other columns."""
    return [row[name] for row in having(rows, **where)]


def by_seed(rows: Iterable[Row], **where: Any) -> dict[int, list[Row]]:
    """Return the rows that have these values in their columns, by seed in ascending order."""
    return dict(sorted(grouped(having(rows, **where), "seed").items()))


def grouped(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """Return the rows by the values of a column, or by tuples of the values of several."""
    groups, key = {}, itemgetter(*columns)
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def seeds(options: Options, full: int, quick: int, first: int = 1) -> range:
    """Return the seeds: as many as the user asked for, from the first after a pilot's."""
    return range(first, first + (options.seeds or (quick if options.quick else full)))
