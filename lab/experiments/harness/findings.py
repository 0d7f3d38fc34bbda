"""The conclusions of an experiment: verdicts on claims, tables, and sentences."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

REASONS = {  # of each verdict, at most ten words
    "holds": "every comparison lies on its side beyond chance",
    "holds weakly": "nowhere the other way, with exact ties or exceptions",
    "holds, vacuous": "the bound exceeds the error before any training",
    "direction reproduced": "beyond chance on its side, in another model or setting",
    "equivalent": "the whole interval lies within the margin",
    "undecided": "chance may explain the difference",
    "underpowered": "so few seeds could not have decided it",
    "not reproduced": "beyond chance on the other side, in another setting",
    "refuted": "a comparison comes out the other way beyond chance",
    "erratum": "as printed it contradicts its own text or proof",
    "not testable": "no outcome of this test could confirm it",
    "not run": "nothing has been measured yet",
}
OURS = "Ours"  # the source of this project's claims begins so


@dataclass(frozen=True)
class Claim:
    """A claim of a paper beside the measurement."""

    claim: str
    source: str  # paper and figure, table or section
    theirs: str = "–"  # the paper's figure
    ours: str = "not played here yet"  # the measured one with its interval; without a run, the reason
    verdict: str = "not run"  # of REASONS
    units: Mapping[str, Collection[Any]] = field(default_factory=dict)  # values of columns that it rests on
    setting: str = ""  # model or setting of the measurement, if not the paper's
    reasons: Mapping[str, str] = field(default_factory=dict)  # in place of the verdict's usual reason
    seeds: str = ""  # of its comparisons, where they have unequal numbers

    @property
    def reason(self):
        """The reason for the verdict, in at most ten words."""
        return self.reasons.get(self.verdict, REASONS[self.verdict])

    @property
    def judgement(self):
        """The verdict, with the setting if it is not the paper's."""
        shown = self.setting and self.verdict in ("direction reproduced", "not reproduced", "undecided", "underpowered")
        return f"{self.verdict} ({self.setting})" if shown else self.verdict

    @property
    def is_ours(self):
        """Whether it is a claim of this project."""
        return self.source.startswith(OURS)


@dataclass(frozen=True)
class Table:
    """Numbers of a page: caption, heads of columns, and cells as text."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Conclusion:
    """Sentences, verdicts and tables of a page.

    The sentences state deviations from the paper, and the meaning of numbers that do not explain themselves.
    """

    paragraph: str
    claims: tuple[Claim, ...] = ()
    tables: tuple[Table, ...] = ()


def listed(sentences, points):
    """Return a paragraph's sentences, and its points below them."""
    return sentences + "\n" * bool(points) + "".join(f"\n- {point}" for point in points)
