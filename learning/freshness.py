"""Data sets with an age: the source of a client's examples and the effect of staleness.

Two sources share one interface. They follow Xu et al. 2024, where clients renew their data for a payment:

Mislabelled  the paper's emulation: the older the data, the more labels are wrong
Folder       an edge client's own file, aged by its modification time and renewed by the operator's command

Ages are in rounds; Δ is the age after the round's decision, 0 for data refreshed in this round. If only selected
clients train (trains=selected), all training data have Δ = 0, and the emulated staleness has no effect. It matters if
all clients train. This module uses NumPy only; the task, an argument, uses
torch.
"""

import math
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aoi_fl.client.freshness import Source
from aoi_fl.science.age import ClientAge
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError, refusing
from aoi_fl.science.types import Ints

if TYPE_CHECKING:
    from aoi_fl.learning.examples import Examples
    from aoi_fl.learning.task import Task


@dataclass(frozen=True)
class Mislabelled(Source):
    """Data with a share min(``cap``, ``rate``·Δ) of wrong labels, wrong until the refresh; none at rate 0.

    Attributes
    ----------
    indices : (n,) the client's images in the data set
    number : the counter of the client's draws
    seed : the run's seed
    first_age : the data's age before round 1
    rate : increase of the share per round; 0 for data that never change, the first paper's setting
    cap : the largest share
    """

    indices: Ints
    number: int = 0
    seed: int = 0
    first_age: int = 0
    rate: float = 0.05
    cap: float = 0.9

    def examples(self, task: "Task", round_: int, age: int) -> "Examples":
        """Return the client's images with the wrong labels of their age."""
        if not self.rate:
            return task.examples(self.indices)
        rng = generator(self.seed, round_ - age, f"mislabel/{self.number}")
        order = rng.permutation(len(self.indices))
        shift = rng.integers(1, task.data.classes, len(self.indices))
        wrong = order[: round(min(self.cap, self.rate * age) * len(self.indices))]
        labels = task.data.train_y[self.indices].astype(np.int64)  # a copy
        labels[wrong] = (labels[wrong] + shift[wrong]) % task.data.classes
        return task.examples(self.indices, labels=labels)


@dataclass(frozen=True)
class Folder(Source):
    """A client's own file of examples (npz, arrays ``x`` and ``y``), renewed by a command.

    Attributes
    ----------
    path : the file; its modification time dates the data
    command : renews the file, run without a shell; empty if the data cannot be renewed
    round_seconds : seconds that count as one round of age
    timeout : seconds that the command may take
    """

    path: Path
    command: str = ""
    round_seconds: float = 60.0
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if type(self.round_seconds) not in (int, float) or not 0 < self.round_seconds < math.inf:
            remedy = "Set it to the seconds that count as a round."
            raise ConfigError("round-seconds", self.round_seconds, "a number of seconds above 0", remedy)

    def age(self, clock: ClientAge, round_: int) -> int:
        """Read the age from the file's time."""
        remedy = "Set data-file in the node's configuration to such a file."
        with refusing(OSError, "data-file", self.path, "a readable npz file with the arrays x and y", remedy):
            seconds = time.time() - self.path.stat().st_mtime
        return max(0, int(seconds / self.round_seconds))

    def refresh(self, round_: int) -> None:
        """Run the operator's command.

        Raises
        ------
        ConfigError : there is no command, or it fails or times out.
        """
        if not self.command:
            allowed = "set, because the server asked this client to refresh its data"
            raise ConfigError("refresh-command", None, allowed, "Set refresh-command in the node's configuration.")
        try:
            subprocess.run(
                shlex.split(self.command), timeout=self.timeout, capture_output=True, errors="replace", check=True
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or getattr(error, "stdout", None) or ""
            said = (said.decode(errors="replace") if isinstance(said, bytes) else said).strip().splitlines()[-1:]
            allowed = f"a command that succeeds in time ({': '.join([str(error), *said])})"
            remedy = "Correct the command or its data source, or raise its time limit."
            raise ConfigError("refresh-command", self.command, allowed, remedy) from error

    def examples(self, task: "Task", round_: int, age: int) -> "Examples":
        """Return the file's examples."""
        return task.examples_from(str(self.path))
