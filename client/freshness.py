"""A data set with an age: where a client's examples come from, and what staleness does to them.

Two sources behind one interface, after Xu et al. 2024, whose clients renew their data for a payment:

Mislabelled  the paper's emulation: the older the data, the more of its labels are wrong
Folder       an edge client's own file, its age read from the clock, renewed by a command of the operator's

Ages are in rounds; Δ is the age after the round's decision, 0 for data refreshed in this very round. So where only the
selected train (trains=selected), all training data have Δ = 0 and the emulated staleness never shows; it hurts where
all train. NumPy only here: the task, which knows torch, is handed in.
"""

import math
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.age import ClientAge
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.learning.examples import Examples
    from aoi_fl.learning.task import Task

Indices: TypeAlias = NDArray[np.int64]


class Source(Protocol):
    """Where a client's examples come from.

    ``first_age`` is how old they are before round 1; ``keeps`` says whether the data before the last refresh can still
    be had, and are worth having.
    """

    keeps: ClassVar[bool]

    @property
    def first_age(self) -> int:
        """Return the data's age before round 1."""

    def age(self, clock: ClientAge, round_: int) -> int:
        """Return the data's age before the decision of a round; ``clock`` knows the round of the last refresh."""

    def refresh(self, round_: int) -> None:
        """Renew the data; on return they are of this round."""

    def examples(self, task: "Task", round_: int, age: int) -> "Examples":
        """Return what to train on in a round with data of age Δ, as the task's examples."""


@dataclass(frozen=True)
class Fixed:
    """Data that never change: the first paper's setting, and the base of the emulated sources.

    Attributes
    ----------
    indices : (n,) which images of the data set are the client's
    number : the counter of the client's draws
    seed : the run's seed
    first_age : the data's age before round 1
    """

    keeps: ClassVar[bool] = False  # the same images once more

    indices: Indices
    number: int = 0
    seed: int = 0
    first_age: int = 0

    def age(self, clock: ClientAge, round_: int) -> int:
        """Count the rounds missed since the last refresh."""
        return clock.age(round_)

    def refresh(self, round_: int) -> None:
        """Do nothing: what an emulated refresh changes follows from its round."""

    def examples(self, task: "Task", round_: int, age: int) -> "Examples":
        """Return the client's images as they are."""
        return task.examples(self.indices)


@dataclass(frozen=True)
class Mislabelled(Fixed):
    """The share min(``cap``, ``rate``·Δ) of the labels is wrong; a label once wrong stays so until the refresh.

    Attributes
    ----------
    rate : what a round adds to the share
    cap : the largest share
    """

    keeps = True

    rate: float = 0.05
    cap: float = 0.9

    def examples(self, task: "Task", round_: int, age: int) -> "Examples":
        """Return the client's images with the wrong labels of their age."""
        rng = generator(self.seed, round_ - age, f"mislabel/{self.number}")
        order = rng.permutation(len(self.indices))
        shift = rng.integers(1, task.data.classes, len(self.indices))
        wrong = order[: round(min(self.cap, self.rate * age) * len(self.indices))]
        labels = task.data.train_y[self.indices].astype(np.int64)  # a copy
        labels[wrong] = (labels[wrong] + shift[wrong]) % task.data.classes
        return task.examples(self.indices, labels=labels)


@dataclass(frozen=True)
class Folder:
    """A client's own file of examples (npz, arrays ``x`` and ``y``), renewed by a command.

    Attributes
    ----------
    path : the file; its modification time is the data's
    command : what renews it, run without a shell; empty if it cannot be renewed
    round_seconds : how much time counts as one round of age
    timeout : seconds the command may take
    first_age : unused, as the age comes from the file's time
    """

    keeps: ClassVar[bool] = False  # the command writes over them

    path: Path
    command: str = ""
    round_seconds: float = 60.0
    timeout: float = 600.0
    first_age: int = 0

    def __post_init__(self) -> None:
        if type(self.round_seconds) not in (int, float) or not 0 < self.round_seconds < math.inf:
            remedy = "Set it to the seconds that count as a round."
            raise ConfigError("round-seconds", self.round_seconds, "a number of seconds above 0", remedy)

    def age(self, clock: ClientAge, round_: int) -> int:
        """Read the age from the file's time."""
        try:
            seconds = time.time() - self.path.stat().st_mtime
        except OSError as error:
            allowed = f"a readable npz file with the arrays x and y ({error.strerror})"
            remedy = "Set data-file in the node's configuration to such a file."
            raise ConfigError("data-file", self.path, allowed, remedy) from error
        return max(0, int(seconds / self.round_seconds))

    def refresh(self, round_: int) -> None:
        """Run the operator's command and see that it succeeded.

        Raises
        ------
        ConfigError : there is no command, or it failed, or took too long.
        """
        if not self.command:
            allowed = "set, because the server asked this client to refresh its data"
            raise ConfigError("refresh-command", None, allowed, "Set refresh-command in the node's configuration.")
        try:
            done = subprocess.run(
                shlex.split(self.command), timeout=self.timeout, capture_output=True, errors="replace", check=False
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            allowed = f"a command that ends in time ({error})"
            remedy = "Correct the command, or raise its time limit."
            raise ConfigError("refresh-command", self.command, allowed, remedy) from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
            allowed = f"a command that succeeds; it ended with {done.returncode}: {last[0]}"
            remedy = "Correct the command, or the data source that it uses."
            raise ConfigError("refresh-command", self.command, allowed, remedy)

    def examples(self, task: "Task", round_: int, age: int) -> "Examples":
        """Return the file's examples."""
        return task.examples_from(str(self.path))


def blend(source: Source, task: "Task", round_: int, age: int, previous: int | None, discount: float) -> "Examples":
    """Return what to train on: the data of age Δ and, with a discount γ > 0, the data they replaced.

    Old data stay beside the new, each weighted by γ to the power of its age (Xu et al. 2024, Section 7, leave the
    integration of fresh and stale data open; a discount by age is their suggestion). Both weights are divided by the
    newer's, which changes nothing in training and keeps them from vanishing together at great ages.

    Parameters
    ----------
    source : where the data come from
    task, round_, age : as in :meth:`Source.examples`
    previous : the age that the data before the last refresh have now; None if there were none
    discount : γ in [0, 1]; 0 keeps the newest only
    """
    newest = source.examples(task, round_, age)
    if discount == 0 or previous is None:
        return newest
    return task.join([(newest, 1.0), (source.examples(task, round_, previous), discount ** (previous - age))])
