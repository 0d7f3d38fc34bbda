"""The papers' claims on learning: for each two policies, a target and the paper's own words.

Where the paper's numbers contradict its words, the words come first, and then the result of the numbers.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# By kind: rounds to the target; the same beside the control; the share of the rounds by which the target is earlier;
# steadiness of the accuracy over rounds; accuracy of the last ten rounds.
CLAIMS = {
    "rounds": "{policy} reaches {target:.0%} before {base}",
    "control": "At equal weights, a lower variance of X leads to faster learning",
    "headline": "{policy} converges faster than {base} by 7.5 % to 20 %",
    "steadiness": "{policy} learns more steadily than {base}",
    "accuracy": "At equal weights, a lower variance of X leads to a higher accuracy",
}
_EARLIER = {"direction reproduced": "earlier in pairs, but our model learns in other times"}
_OUTSIDE = {
    "not reproduced": "the interval lies outside 7.5 to 20 %",
    "undecided": "the interval lies neither within nor outside the claimed share",
}
_LATER = {"not reproduced": "later: equal weights cost more than regular intervals gain"}
_TOO_SOON = {"undecided": "our CNN reaches 97 % ten times sooner than theirs"}
_REASONS = {"rounds": _EARLIER, "control": _EARLIER, "headline": _OUTSIDE}


@dataclass(frozen=True)
class PaperClaim:
    """A paper's claim on two policies and one partition."""

    partition: str  # as units have it
    policy: str  # the better one
    paper: str  # and figure
    theirs: str  # its figure in its own words, then a correction
    target: float  # the accuracy up to which it counts the rounds
    base: str = "random"  # the other policy
    judged: float | None = None  # our level, if the printed one comes too soon to separate policies, or too late
    kind: str = "rounds"  # of CLAIMS

    @property
    def text(self):
        """The claim in words."""
        return CLAIMS[self.kind].format_map(vars(self))

    @property
    def level(self):
        """The accuracy at which we judge it."""
        return self.target if self.judged is None else self.judged

    @property
    def reasons(self):
        """The reasons for a verdict, if not the usual ones."""
        later = _LATER if self.kind == "rounds" and self.partition != "iid" else {}
        return _REASONS.get(self.kind, {}) | later | (_TOO_SOON if self.level > self.target else {})


# A control: Markov optimal with m = 0, where a client takes part with probability k/n whatever its age.
MEMORYLESS = "memoryless"
HEADLINE = (0.075, 0.20)  # of the rounds, the abstract of the journal


@cache
def claims_for(experiment):
    """Return the claims that an experiment judges, of ``paper_claims.csv``.

    The CNN on MNIST is judged at 99 %: a first run was at 97 % after five rounds.
    """
    with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.pop("experiment") == experiment]
    numbers = ("target", "judged")
    return tuple(PaperClaim(**row | {key: float(row[key]) if row[key] else None for key in numbers}) for row in rows)
