"""What an experiment is: units that can be played one at a time, a picture, and what the results say of a claim."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from aoi_fl.experiments.harness.findings import Claim, Conclusion

Row = dict[str, Any]  # numbers, strings and None, as a CSV file holds them
Unit = dict[str, Any]  # what tells one unit from the others; the first columns of its rows


@dataclass(frozen=True)
class Options:
    """What the user of ``aoi reproduce`` chose.

    Attributes
    ----------
    seeds, rounds, model : None stands for the experiment's own
    quick : fewer seeds and rounds, to see that it works
    data_dir : where the data sets lie
    work : where runs are kept while results are put together
    quiet : whether nothing is said while it is played
    version : of the experiment that is played
    """

    seeds: int | None = None
    rounds: int | None = None
    model: str | None = None
    quick: bool = False
    data_dir: Path = Path("data")
    work: Path = Path("runs/reproduce")
    quiet: bool = field(default=False, compare=False)
    version: int = 1


class Experiment(ABC):
    """One figure or table.

    Attributes
    ----------
    name : as the command has it, and the stem of the files
    title : what is measured
    source : whose figure or table it is
    minutes : of one core, about, at full size
    claims : what the papers say, for the table of claims as long as nothing has been run
    quick : whether a quick look at all experiments takes this one too, or it is hours long however short its runs
    whole_seeds : whether a seed tells nothing before all its units have been played
    data : names of the data sets
    factors, counts : values of a unit's columns beside the seed, and how many seeds at full size and in a quick look
    version : raised when what it plays changes, so that neither results nor runs of two versions are mixed
    """

    name: str
    title: str
    source: str
    minutes: float
    claims: tuple[Claim, ...] = ()
    quick: bool = True
    whole_seeds: bool = False
    version: int = 1
    data: tuple[str, ...] = ()
    factors: Mapping[str, Sequence[Any]] = {}
    counts: tuple[int, int] = (20, 6)
    first: int = 1

    def datasets(self, options: Options) -> tuple[str, ...]:
        """Return the names of all data sets that its units read; a quick look reads the digits."""
        return ("digits",) if options.quick and self.data else self.data

    def check(self, options: Options) -> None:
        """Refuse files that do not fit, with a ConfigError, before the first unit runs."""
        return

    @abstractmethod
    def settings(self, options: Options) -> Mapping[str, Any]:
        """Return everything that the rows of a unit depend on; results with other settings are not mixed."""

    def kept_under(self, options: Options) -> dict[str, Any]:
        """Return the settings with the version, above the first: what results on disk must agree in."""
        return {**self.settings(options), **({"version": self.version} if self.version > 1 else {})}

    def units(self, options: Options) -> list[Unit]:
        """Return the units to play, in order; more seeds only add units."""
        numbers = seeds(options, *self.counts, self.first)
        columns = ("seed", *self.factors)
        return [dict(zip(columns, values, strict=True)) for values in product(numbers, *self.factors.values())]

    @abstractmethod
    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Play one unit, in this process, and return its rows without the unit's own columns."""

    @abstractmethod
    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        """Say what the rows of all units show."""

    @abstractmethod
    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        """Draw the rows of all units."""


def pick(rows: Iterable[Row], name: str, **where: Any) -> list[Any]:
    """Return a column of the rows that have these values in other columns."""
    return [row[name] for row in rows if where.items() <= row.items()]


def seeds(options: Options, full: int, quick: int, first: int = 1) -> range:
    """Return the seeds to play: as many as the user asked for, from 1, or from the first after a pilot's."""
    return range(first, first + (options.seeds or (quick if options.quick else full)))
