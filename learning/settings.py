"""The run keys that describe the task, shared by server and clients.

Flower's configuration is flat, its keys are in kebab case, and every key needs a value: ``auto`` or 0 stands for the
data set's own default, which :meth:`TaskSettings.resolved` fills in.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from aoi_fl.learning import own_model
from aoi_fl.science.errors import ConfigError

DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")
MODELS = ("lr", "svm", "2nn", "cnn")
CROP_FLIP, BFLOAT16 = "crop-flip", "bfloat16"

# Model, learning rate, its decay a round, batch size, local epochs. The setting of Javani & Wang 2024, Section IV,
# holds for all but the digits, whose clients have fifteen images each: of the rates, decays and epochs tried, these
# were the steadiest, with 100 clients, 15 a round, as with four, two a round: tests/learning/test_steady.py.
_PAPER = {"model": "cnn", "learning_rate": 0.1, "learning_rate_decay": 0.998, "batch_size": 50, "local_epochs": 5}
_OWN = {**_PAPER, "model": "2nn"}  # which takes images of every size, and tables
_DIGITS = {"model": "2nn", "learning_rate": 0.2, "learning_rate_decay": 0.98, "batch_size": 10, "local_epochs": 10}


def kebab(name: str) -> str:
    """Return a field's name as a run key."""
    return name.replace("_", "-")


class TaskSettings(BaseModel):
    """What is learnt, from which data, and how a client trains.

    Attributes
    ----------
    dataset, data_dir, model, model_dir, zeros : the task; ``zeros`` starts the model at 0, and a model of one's own is
        looked for in ``model_dir`` first (:mod:`aoi_fl.learning.own_model`)
    partition, alpha, sizes : how the data set is dealt out
    staleness : what age does to a client's data (:mod:`aoi_fl.client.freshness`); ``mislabel_rate`` and
        ``mislabel_cap``, ``drift_degrees`` and ``stream_window`` belong to it
    discount : γ; above 0 the data before the last refresh stay in use, weighted by γ to the power of their age
    learning_rate, learning_rate_decay, batch_size, local_epochs, local_steps : local SGD; with local steps (τ) a client
        takes that many mini-batches in place of passes over its data
    augment : ``crop-flip`` moves and flips the images of each batch (:mod:`aoi_fl.learning.augment`)
    precision : of the products of training; ``tf32`` (on a GPU) and ``bfloat16`` are less exact and faster
    device, threads : where and how wide to compute
    train_together : whether clients of one process train in one program, see :mod:`aoi_fl.learning.batched`
    seed : the key of every draw
    """

    # Built when something is first checked by it, and for a run that is the subclass: the command answers sooner.
    model_config = ConfigDict(
        alias_generator=kebab, populate_by_name=True, frozen=True, extra="ignore", defer_build=True
    )

    dataset: str = "digits"
    data_dir: str = "data"
    model: str = "auto"
    model_dir: str = "."
    zeros: bool = False
    partition: Literal["iid", "dirichlet"] = "iid"
    alpha: float = Field(0.6, ge=0.001, le=1_000_000)
    sizes: str = "equal"
    staleness: Literal["none", "mislabelled", "stream"] = "none"
    mislabel_rate: float = Field(0.05, ge=0, le=1)
    mislabel_cap: float = Field(0.9, ge=0, le=1)
    drift_degrees: float = Field(1.0, ge=0, le=360)
    stream_window: int = Field(0, ge=0, le=1_000_000_000)
    discount: float = Field(0.0, ge=0, le=1)
    learning_rate: float = Field(0.0, ge=0, le=1000)
    learning_rate_decay: float = Field(0.0, ge=0, le=1)
    batch_size: int = Field(0, ge=0, le=1_000_000)
    local_epochs: int = Field(0, ge=0, le=100_000)
    local_steps: int = Field(0, ge=0, le=10_000_000)
    augment: Literal["none", "crop-flip"] = "none"
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = Field(1, ge=1, le=1024)
    train_together: Literal["auto", "always", "never"] = "auto"
    seed: int = Field(1, ge=0, lt=2**63)

    @field_validator("dataset")
    @classmethod
    def _known_dataset(cls, value: str) -> str:
        if value not in DATASETS and not value.startswith("npz:"):
            raise ConfigError(
                "dataset", value, (*DATASETS, "npz:PATH"), "Choose one of these; docs/own.md: your own data."
            )
        return value

    @field_validator("model")
    @classmethod
    def _known_model(cls, value: str) -> str:
        if value not in ("auto", *MODELS) and not own_model.is_well_formed(value):
            raise ConfigError("model", value, ("auto", *MODELS, own_model.HOW), "Choose one of these.")
        return value

    def check_form(self, *, regression: bool, images: bool) -> None:
        """See that the keys go with the data set.

        Raises
        ------
        ConfigError
            One of them needs classes, and it has targets; or images, and it has a table.
        """
        if self.staleness == "mislabelled" and regression:
            raise ConfigError(
                "staleness",
                "mislabelled",
                f"none for {self.dataset}, which has numbers as targets and no classes to swap",
                "Leave it out.",
            )
        if self.staleness == "stream" and not images:
            raise ConfigError(
                "staleness", "stream", f"another for {self.dataset}, a table without images to turn", "Leave it out."
            )
        if self.augment == CROP_FLIP and not images:
            raise ConfigError(
                "augment", self.augment, f"none for {self.dataset}, a table without images to move", "Leave it out."
            )

    def resolved(self) -> Self:
        """Return a copy in which every ``auto`` and every 0 that means "the data set's own" has its value."""
        own: dict[str, Any] = _DIGITS if self.dataset == "digits" else _OWN if ":" in self.dataset else _PAPER
        return self.model_copy(update={k: v for k, v in own.items() if getattr(self, k) in ("auto", 0)})

    def rate(self, round_: int) -> float:
        """Return the learning rate of a round, decayed once a round from round 2 on."""
        return self.learning_rate * self.learning_rate_decay ** (round_ - 1)
