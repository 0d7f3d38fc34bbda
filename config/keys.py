"""All keys of a run, and those of the task that server and clients share.

Flower's configuration is flat and needs a value for every key: ``auto`` or 0 stands for the data set's own default,
which :meth:`TaskSettings.resolved` fills in.
"""

import math
from typing import Any, Self

from aoi_fl.config.groups import Budget, Clock, Output, Privacy, Round, Selection
from aoi_fl.config.task import CROP_FLIP, Task, Training
from aoi_fl.science.errors import ConfigError

# Model, learning rate, its decay a round, batch size, local epochs. The setting of Javani & Wang 2024, Section IV,
# holds for all but the digits, whose clients have fifteen images each: of the rates, decays and epochs tried, these
# were the steadiest, with 100 clients, 15 a round, as with four, two a round: tests/learning/test_steady.py.
_PAPER = {"model": "cnn", "learning_rate": "0.1:0.998", "batch_size": 50, "local_work": "epochs:5"}
_OWN = {**_PAPER, "model": "2nn"}  # which takes images of every size, and tables
_DIGITS = {"model": "2nn", "learning_rate": "0.2:0.98", "batch_size": 10, "local_work": "epochs:10"}


class TaskSettings(Task, Training):
    """What is learnt, from which data, and how a client trains."""

    def check_form(self, *, regression: bool, images: bool) -> None:
        """See that the keys go with the data set.

        Raises
        ------
        ConfigError
            One of them needs classes, and it has targets; or images, and it has a table.
        """
        if self.mislabelled and regression:
            raise ConfigError(
                "staleness",
                self.staleness,
                f"none for {self.dataset}, which has numbers as targets and no classes to swap",
                "Leave it out.",
            )
        if self.augment == CROP_FLIP and not images:
            raise ConfigError(
                "augment", self.augment, f"none for {self.dataset}, a table without images to move", "Leave it out."
            )

    def resolved(self) -> Self:
        """Return a copy in which every ``auto`` and every 0 that means "the data set's own" has its value."""
        own: dict[str, Any] = _DIGITS if self.dataset == "digits" else _OWN if ":" in self.dataset else _PAPER
        made = {k: v for k, v in own.items() if getattr(self, k) in ("auto", 0)}
        rate, _, decay = own["learning_rate"].partition(":")
        if "learning_rate" not in made:
            size = rate if self.learning_rate.startswith("auto") else self.step_size
            made["learning_rate"] = f"{size}:{self.decay or decay}"
        return self.model_copy(update=made)

    def rate(self, round_: int) -> float:
        """Return the learning rate of a round, decayed once a round from round 2 on."""
        return self.step_size * self.decay ** (round_ - 1)


class RunKeys(TaskSettings, Selection, Round, Privacy, Budget, Clock, Output, extra="forbid"):
    """Every key of a run: the groups of :mod:`aoi_fl.config.groups` together."""

    @property
    def sent(self) -> int:
        """How many clients are sent the model in a round, over-selection included."""
        return over_selected(self.clients_per_round, self.over_selection)

    @property
    def sent_as(self) -> str:
        """What messages call that number."""
        return "clients-per-round" + (" times over-selection" if self.over_selection > 1 else "")

    @property
    def trackers(self) -> list[str]:
        """The trackers that ``track`` names."""
        return self.track.split(",") if self.track else []


def over_selected(per_round: int, factor: float) -> int:
    """Return how many clients are sent the model where a round wants so many updates and takes the first of them.

    >>> over_selected(15, 1.3), over_selected(10, 1.1)
    (20, 11)
    """
    return math.ceil(per_round * factor - 1e-9)
