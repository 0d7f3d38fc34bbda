"""All keys of a run, and the task's keys, which server and clients share.

Flower's configuration is flat and needs a value for every key. So ``auto`` or 0 means the data set's default, which
:meth:`TaskSettings.resolved` sets.
"""

import math
from typing import Any, Self

from aoi_fl.config.groups import BudgetKeys, ClockKeys, OutputKeys, PrivacyKeys, RoundKeys, SelectionKeys
from aoi_fl.config.task import CROP_FLIP, TaskKeys, TrainingKeys
from aoi_fl.science.errors import ConfigError

# Model, learning rate, decay per round, batch size, local epochs. All data sets except the digits use the setting of
# Javani & Wang 2024, Section IV. The digits have fifteen images per client. These values were the steadiest of those
# tried, with 15 of 100 and with 2 of 4 clients per round: tests/learning/test_steady.py.
_PAPER = {"model": "cnn", "learning_rate": 0.1, "learning_rate_decay": 0.998, "batch_size": 50, "local_epochs": 5}
_OWN = {**_PAPER, "model": "2nn"}  # it accepts images of every size, and tables
_DIGITS = {"model": "2nn", "learning_rate": 0.2, "learning_rate_decay": 0.98, "batch_size": 10, "local_epochs": 10}


class TaskSettings(TaskKeys, TrainingKeys):
    """The keys of the task and of a client's training."""

    def check_form(self, *, regression: bool, images: bool) -> None:
        """Check that the keys are compatible with the data set.

        Raises
        ------
        ConfigError
            A key needs classes or images, and the data set has none.
        """
        if self.mislabel_rate and regression:
            allowed = f"0 for {self.dataset}, which has numbers as targets and no classes to swap"
            raise ConfigError("mislabel-rate", self.mislabel_rate, allowed, "Leave it out.")
        if self.augment == CROP_FLIP and not images:
            raise ConfigError(
                "augment", self.augment, f"none for {self.dataset}, a table without images to move", "Leave it out."
            )

    def resolved(self) -> Self:
        """Return a copy with the data set's defaults for keys at ``auto`` or 0."""
        own: dict[str, Any] = dict(_DIGITS if self.dataset == "digits" else _OWN if ":" in self.dataset else _PAPER)
        own |= {"local_epochs": 0} if self.local_steps else {}
        return self.model_copy(update={k: v for k, v in own.items() if getattr(self, k) in ("auto", 0)})

    def rate(self, round_: int) -> float:
        """Return the learning rate of a round; it decays each round from round 2 on."""
        return self.learning_rate * self.learning_rate_decay ** (round_ - 1)


class RunKeys(TaskSettings, SelectionKeys, RoundKeys, PrivacyKeys, BudgetKeys, ClockKeys, OutputKeys, extra="forbid"):
    """Every key of a run: the groups of :mod:`aoi_fl.config.groups` together."""

    def flat(self) -> dict[str, bool | int | float | str]:
        """Return the configuration as Flower's flat mapping."""
        return self.model_dump(by_alias=True)

    @property
    def sent(self) -> int:
        """The number of clients that receive the model in a round, with over-selection."""
        return over_selected(self.clients_per_round, self.over_selection)

    @property
    def sent_as(self) -> str:
        """The name of :attr:`sent` in messages."""
        return "clients-per-round" + (" times over-selection" if self.over_selection > 1 else "")

    @property
    def trackers(self) -> list[str]:
        """The trackers that ``track`` names."""
        return self.track.split(",") if self.track else []


def over_selected(per_round: int, factor: float) -> int:
    """Return the number of clients that receive the model in a round of ``per_round`` updates.

    >>> over_selected(15, 1.3), over_selected(10, 1.1)
    (20, 11)
    """
    return math.ceil(per_round * factor - 1e-9)
