"""The papers' claims on learning: for each two policies, a target and the paper's own words.

Where the paper's numbers contradict its words, the words come first, and then the result of the numbers.
"""

from dataclasses import dataclass, replace
from typing import Literal

from aoi_fl.lab.experiments.harness.findings import GLOBECOM, JOURNAL


def partition_name(alpha: float | None) -> str:
    """Return a partition's name, as units have it."""
    return "iid" if alpha is None else f"dirichlet {alpha:g}"


@dataclass(frozen=True)
class PaperClaim:
    """A paper's claim on two policies and one partition."""

    alpha: float | None  # of the Dirichlet partition, None for IID
    policy: str  # the better one
    paper: str  # and figure
    theirs: str  # its figure in its own words, then a correction
    target: float  # the accuracy up to which it counts the rounds
    base: str = "random"  # the other policy
    judged: float | None = None  # our level, if the printed one comes too soon to separate policies, or too late
    # rounds to the target; steadiness of the accuracy over rounds; accuracy of the last ten rounds; or headline,
    # the share of the rounds by which the target is earlier
    kind: Literal["rounds", "steadiness", "accuracy", "headline"] = "rounds"

    @property
    def level(self) -> float:
        """The accuracy at which we judge it."""
        return self.target if self.judged is None else self.judged

    @property
    def partition(self) -> str:
        """The partition, as units have it."""
        return partition_name(self.alpha)


# A control: Markov optimal with m = 0, where a client takes part with probability k/n whatever its age.
MEMORYLESS = "memoryless"
_OPTIMAL, _INCREASING = "markov-optimal", "markov-increasing"
HEADLINE = (0.075, 0.20)  # of the rounds, the abstract of the journal
_SHARE = "abstract: 7.5 % to 20 % faster convergence"
_CONCLUDED = "conclusions: improvements from 7.5 % to 20 %, of CIFAR-100 too"
_BIASED = "“outperforms both random and biased client selection strategies in heterogeneous settings”"
_VARIANCE = "“reducing the load metric variance … enhances the convergence rate”, no number"
_EFFICIENT = "minimising the variance of X “leads to more stable and efficient model convergence”, no number"
_ACCURATE = "a lower variability in X is “essential for … enhancing overall model accuracy”, no number"
_IMPROVED = "lower variability in X “improves overall model accuracy”, no number"
_STEADY = "“more consistent and stable learning” (curves)"
MNIST_IID = (
    PaperClaim(None, _OPTIMAL, f"{GLOBECOM}, Fig. 4", "97 % in 37 against 41 rounds, 9.7 % faster (CNN)", 0.97),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Fig. 5a", "97 % in 39 against 45 rounds, 13 % faster (CNN)", 0.97),
)
CNN_TARGET = 0.99  # fixed after one run, which was at 97 % after five rounds; the levels begin at 98.5 %
MNIST_CNN = tuple(replace(said, judged=CNN_TARGET) for said in MNIST_IID)
MNIST_MORE = (
    PaperClaim(None, _INCREASING, f"{JOURNAL}, Fig. 5a", "Markov policies outperform random (curves, CNN)", 0.97),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Fig. 5a", _STEADY, 0.97, kind="steadiness"),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, abstract", _SHARE, 0.97, kind="headline"),
)
# With weights 1/k for both: Section II of Globecom 2024 assumes equal sizes.
MNIST_DIRICHLET_EQUAL = PaperClaim(
    0.6, _OPTIMAL, f"{GLOBECOM}, Fig. 4", "97 % in 56 against 64 rounds, 12.5 % faster (CNN)", 0.97
)
MNIST_DIRICHLET = (
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 5b", "97 % in 91 against 99 rounds, 8 % faster (CNN)", 0.97),
    PaperClaim(0.3, _INCREASING, f"{JOURNAL}, Fig. 5b", "Markov policies outperform random (curves, CNN)", 0.97),
    PaperClaim(0.6, _OPTIMAL, f"{JOURNAL}, Section II", _BIASED, 0.97, "proportional"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Section II", _BIASED, 0.97, "proportional"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 5b", _STEADY, 0.97, kind="steadiness"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, abstract", _SHARE, 0.97, kind="headline"),
    PaperClaim(0.6, _OPTIMAL, f"{GLOBECOM}, abstract", _VARIANCE, 0.97, MEMORYLESS),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Section I", _EFFICIENT, 0.97, MEMORYLESS),
    PaperClaim(0.6, _OPTIMAL, f"{GLOBECOM}, Section I", _ACCURATE, 0.97, MEMORYLESS, kind="accuracy"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Section I", _IMPROVED, 0.97, MEMORYLESS, kind="accuracy"),
)
CIFAR10 = (
    PaperClaim(
        None,
        _OPTIMAL,
        f"{GLOBECOM}, Fig. 2",
        "80 % in 240 against 265 rounds, 9.4 % faster (CNN); introduction: over 9 %",
        0.80,
        judged=0.77,
    ),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Fig. 6a", "75 % in 95 against 108 rounds, 12 % faster (CNN)", 0.75),
    PaperClaim(None, _INCREASING, f"{JOURNAL}, Fig. 6a", "75 % in 105 against 108 rounds (CNN)", 0.75),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Fig. 6a", "75 % in 95 against 105 rounds (CNN)", 0.75, _INCREASING),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Fig. 6a", "faster than probabilistic (curves, CNN)", 0.75, "proportional"),
    PaperClaim(
        None,
        _INCREASING,
        f"{JOURNAL}, Fig. 6a",
        "faster than probabilistic (curves, CNN)",
        0.75,
        "proportional",
    ),
    PaperClaim(
        0.3,
        _OPTIMAL,
        f"{JOURNAL}, Fig. 6b",
        "75 % in 239 against 261 rounds, 9 % faster (CNN); its rounds give 8.4 %",
        0.75,
    ),
    PaperClaim(0.3, _INCREASING, f"{JOURNAL}, Fig. 6b", "75 % in 247 against 261 rounds (CNN)", 0.75),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 6b", "75 % in 239 against 247 rounds (CNN)", 0.75, _INCREASING),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 6b", "faster than probabilistic (curves, CNN)", 0.75, "proportional"),
    PaperClaim(
        0.3,
        _INCREASING,
        f"{JOURNAL}, Fig. 6b",
        "faster than probabilistic (curves, CNN)",
        0.75,
        "proportional",
        0.73,
    ),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Fig. 6a", "“more stable convergence” (curves)", 0.75, kind="steadiness"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 6b", "“more stable convergence” (curves)", 0.75, kind="steadiness"),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, abstract", _SHARE, 0.75, kind="headline"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, abstract", _SHARE, 0.75, kind="headline"),
)
CIFAR100 = (
    PaperClaim(
        None,
        _OPTIMAL,
        f"{GLOBECOM}, Fig. 3",
        "40 % in 500 against over 600 rounds, more than 20 % faster (CNN); 500 against 600 is 16.7 % fewer",
        0.40,
    ),
    PaperClaim(
        None,
        _OPTIMAL,
        f"{JOURNAL}, Fig. 7a",
        "30 % in 139 against 154 rounds, “10-20% faster convergence” (CNN); its rounds give 9.7 %",
        0.30,
    ),
    PaperClaim(
        None,
        _OPTIMAL,
        f"{JOURNAL}, Fig. 7a",
        "30 % in 139 against 188 rounds, “10-20% faster convergence” (CNN); its rounds give 26.1 %",
        0.30,
        "proportional",
    ),
    PaperClaim(
        None,
        _OPTIMAL,
        f"{JOURNAL}, Fig. 7a",
        "30 % in 139 against 158 rounds, “10-20% faster convergence” (CNN); its rounds give 12.0 %",
        0.30,
        _INCREASING,
    ),
    PaperClaim(
        None,
        _INCREASING,
        f"{JOURNAL}, Fig. 7a",
        "age-based strategies have “advantages” (CNN); its rounds, 158 against 154, are 2.6 % more",
        0.30,
    ),
    PaperClaim(
        0.3,
        _OPTIMAL,
        f"{JOURNAL}, Fig. 7b",
        "30 % in 87 against 93 rounds, 7.5 % faster (CNN); its rounds give 6.5 %",
        0.30,
    ),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 7b", "30 % in 87 against 111 rounds (CNN)", 0.30, "proportional"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Fig. 7b", "better than the non-optimal (curves, CNN)", 0.30, _INCREASING),
    PaperClaim(0.3, _INCREASING, f"{JOURNAL}, Fig. 7b", "better than random and probabilistic (curves, CNN)", 0.30),
    PaperClaim(None, _OPTIMAL, f"{JOURNAL}, Section VI", _CONCLUDED, 0.30, kind="headline"),
    PaperClaim(0.3, _OPTIMAL, f"{JOURNAL}, Section VI", _CONCLUDED, 0.30, kind="headline"),
    PaperClaim(
        0.3,
        _INCREASING,
        f"{JOURNAL}, Fig. 7b",
        "better than random and probabilistic (curves, CNN)",
        0.30,
        "proportional",
    ),
)
