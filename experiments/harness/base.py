"""What an experiment is: units that can be played one at a time, a picture, and what the results say of a claim."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from aoi_fl.experiments.harness.watch import Watch

Row = dict[str, Any]  # numbers, strings and None, as a CSV file holds them
Unit = dict[str, Any]  # what tells one unit from the others; the first columns of its rows
Verdict = Literal[
    "holds",
    "holds weakly",
    "holds, vacuous",
    "direction reproduced",
    "equivalent",
    "undecided",
    "not reproduced",
    "refuted",
    "not testable",
    "not run",
]
REASONS: Mapping[Verdict, str] = {  # at most ten words each
    "holds": "every comparison lies on its side beyond chance",
    "holds weakly": "one comparison beyond Bonferroni, none the other way",
    "holds, vacuous": "the bound exceeds the error before any training",
    "direction reproduced": "beyond chance on its side, in another model or setting",
    "equivalent": "the whole interval lies within the margin",
    "undecided": "chance may explain the difference",
    "not reproduced": "beyond chance on the other side, in another setting",
    "refuted": "a comparison comes out the other way beyond chance",
    "not testable": "no outcome of this test could confirm it",
    "not run": "nothing has been measured yet",
}
OURS = "Ours"  # how the source of a claim of this project begins

JOURNAL = "Javani & Wang 2025"
GLOBECOM = "Javani & Wang 2024"
WICS = "Xu et al. 2024"


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
    watch : of the unit that is played, if anybody watches
    """

    seeds: int | None = None
    rounds: int | None = None
    model: str | None = None
    quick: bool = False
    data_dir: Path = Path("data")
    work: Path = Path("runs/reproduce")
    quiet: bool = field(default=False, compare=False)
    version: int = 1
    watch: "Watch | None" = field(default=None, compare=False)


@dataclass(frozen=True)
class Claim:
    """A claim of a paper beside what was measured.

    Attributes
    ----------
    claim : what is said
    source : paper and figure, table or section
    theirs : the paper's figure
    ours : the measured one, with its interval; where it was not run, why
    verdict : as :mod:`aoi_fl.experiments.harness.verdicts` has it
    units : the values of a unit's columns that it rests on; columns that are not named may have any
    setting : the model or setting of the measurement, where it is not the paper's
    reasons : the reason for a verdict in at most ten words, where the verdict's usual one says too little
    """

    claim: str
    source: str
    theirs: str
    ours: str
    verdict: Verdict
    units: Mapping[str, Collection[Any]] = field(default_factory=dict)
    setting: str = ""
    reasons: Mapping[Verdict, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """The reason for the verdict, in at most ten words."""
        return self.reasons.get(self.verdict, REASONS[self.verdict])

    @property
    def judgement(self) -> str:
        """The verdict, with the setting where that is another than the paper's."""
        shown = self.setting and self.verdict in ("direction reproduced", "not reproduced", "undecided")
        return f"{self.verdict} ({self.setting})" if shown else self.verdict

    @property
    def is_ours(self) -> bool:
        """Whether it is a claim of this project, beside the papers'."""
        return self.source.startswith(OURS)


@dataclass(frozen=True)
class Table:
    """Numbers of a page: what they are, the heads of the columns, and the cells, as they are written."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Conclusion:
    """What came out: a few sentences, the numbers in tables, and a row for each claim of a paper.

    The sentences say where a page deviates from the paper, and what a number means that does not explain itself. The
    headline is what the front page says of it, if anything.
    """

    paragraph: str
    claims: tuple[Claim, ...] = ()
    tables: tuple[Table, ...] = ()
    headline: str = ""


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
