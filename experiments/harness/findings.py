"""What an experiment says: a verdict on each claim, tables, and the sentences that they need."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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
