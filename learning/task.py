"""The task as one object: training on clients and evaluation on the server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NotRequired, Self, TypedDict, Unpack

import numpy as np
import torch

from aoi_fl.config.keys import TaskSettings
from aoi_fl.config.task import BFLOAT16, CROP_FLIP
from aoi_fl.learning import batched, data, models, own_model, sgd, stacked, working
from aoi_fl.learning.cautions import cautions, inputs
from aoi_fl.learning.examples import Examples, tensors
from aoi_fl.learning.form import Dataset, Form
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.own_code import naming
from aoi_fl.science.draws import generator
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_own
from aoi_fl.science.types import Ints, Singles

ModelArrays = Mapping[str, Singles]
_Draws = Callable[[str], np.random.Generator]  # a round's generator for a purpose
_STATISTICS = ("running_mean", "running_var")  # buffers of batch normalisation
_judged: set[str] = set()  # files that were checked for probable mistakes


class How(TypedDict):
    """The arguments of a client's training, beside model, examples and number.

    ``seed``, ``round_`` and the client's number determine the order of batches. The other arguments are as in
    :func:`aoi_fl.learning.sgd.fit`.
    """

    round_: int
    seed: int
    learning_rate: float
    batch_size: int
    epochs: NotRequired[int | None]
    steps: NotRequired[int | None]


@dataclass(frozen=True)
class Task:
    """A data set and a model, described by plain values, which a message can contain.

    A task is cheap to make: each process keeps the data set and one model, and equal tasks share them. So only one
    thread at a time may train or evaluate.

    Attributes
    ----------
    dataset, data_dir, model, device, seed, zeros, model_dir : as the run keys
    augment : ``crop-flip`` shifts and flips training images in each pass (:mod:`.augment`)
    precision : precision of products in training: ``float32``, ``tf32`` or ``bfloat16`` (:func:`.sgd.products`)
    target, client, drop, missing : columns of the user's own data set, as the run keys
    told : the form of the server's data, for a client with its own data only; None: the data set's form
    source, data_source : the required digests of the user's own model's module, and of the own data's file; empty: any
    """

    dataset: str
    data_dir: str
    model: str
    device: str = "auto"
    seed: int = 0
    zeros: bool = False
    model_dir: str = "."
    told: Form | None = None
    source: str = ""
    augment: str = "none"
    precision: str = "float32"
    target: str = ""
    client: str = ""
    data_source: str = ""
    drop: str = ""
    missing: str = "none"

    @classmethod
    def of(cls, keys: TaskSettings, **others: Any) -> Self:
        """Return the task of run keys, with ``others`` in place of some."""
        values = {field.name: getattr(keys, field.name) for field in fields(cls) if hasattr(keys, field.name)}
        own = {"model": keys.architecture, "client": keys.client_column}
        return cls(**values | own | others)

    @property
    def data(self) -> Dataset:
        """The data set, loaded or downloaded at first use."""
        columns = {key: getattr(self, key) for key in ("target", "client", "drop", "missing")}
        return data.load(self.dataset, self.data_dir, source=self.data_source, **columns)

    @property
    def form(self) -> Form:
        """The form of the data; if the server has sent it, the data set is not needed."""
        return self.told or self.data.form

    def check(self) -> None:
        """Check that the model fits the data set.

        Raises
        ------
        ConfigError : the model does not fit, or cannot be made or trained: see
            :func:`aoi_fl.learning.own_model.check`.
        """
        self._built()
        if is_own(self.model):
            own_model.check(self.model, self.model_dir, self.form, torch.from_numpy(self.data.train_x[:2]), self.seed)

    def log_data(self) -> None:
        """Log what the user's own data were read as, with warnings about probable mistakes."""
        if self.data.understood:
            logger.info("%s: %s", self.dataset, self.data.understood)
        for caution in cautions(self.data):
            logger.warning("%s: %s", self.dataset, caution)

    def initial_arrays(self) -> ModelArrays:
        """Return the model's initial arrays, which depend on the seed only."""
        return models.to_arrays(self._built())

    def _built(self) -> torch.nn.Module:
        return models.build(self.model, self.form, seed=self.seed, zeros=self.zeros, folder=self.model_dir)

    def buffers(self) -> list[str]:
        """Return the names of the model's buffers, which training measures or leaves as they are."""
        return [name for name, _ in self._model().named_buffers()]

    def untrained(self) -> list[str]:
        """Return the names of the model's arrays that clients do not train.

        These are frozen parameters, buffers, and all names but the last of a shared parameter.

        Raises
        ------
        ConfigError : the model has batch statistics, or training moves another buffer, such as that of spectral
            normalisation, which would stay as it is.
        """
        model = self._model().train()
        state = model.state_dict(keep_vars=True)
        buffers = {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()}
        if buffers:
            with torch.no_grad():
                model(torch.from_numpy(self.data.train_x[:2]).to(sgd.device(self.device)))
        for name, value in model.named_buffers():
            moved = not torch.equal(buffers.get(name, value), value)
            if name in state and (moved or name.endswith(_STATISTICS)):
                allowed = "without batch statistics and buffers that training moves, in a private run"
                remedy = "Use GroupNorm or LayerNorm, track_running_stats=False, or a buffer with persistent=False."
                raise ConfigError("model", name, allowed, remedy)
        last = {id(value): name for name, value in state.items()}
        trained = {name for name, value in state.items() if value.requires_grad and last[id(value)] == name}
        return [name for name in state if name not in trained]

    def examples(self, indices: Ints, *, labels: Ints | None = None) -> Examples:
        """Return a subset of the training images.

        Parameters
        ----------
        indices : positions of the images, (n,).
        labels : labels instead of the data set's own, (n,) in the order of ``indices``.

        Raises
        ------
        ConfigError : an index is outside the data set, or there is no image.
        """
        if self.data.form != self.form:
            allowed = f"the server's data set {self.form}, and here it is {self.data.form}"
            raise ConfigError("dataset", self.dataset, allowed, "Copy the server's data set.")
        where, images = np.asarray(indices, np.int64), len(self.data.train_y)
        if where.size == 0 or where.min() < 0 or where.max() >= images:
            span = f"{where.min()} to {where.max()}" if where.size else "none"
            allowed = f"image numbers from 0 to {images - 1}, those of {self.data.name}"
            raise ConfigError("partition", span, allowed, "Restore the run's own index file, or start a new run.")
        train, _ = self._tensors
        places = torch.from_numpy(where).to(train.x.device)
        y = train.y[places] if labels is None else torch.from_numpy(labels).to(train.x.device)
        return Examples(train.x.index_select(0, places), y)  # a third of the time of train.x[places]

    def examples_from(self, path: str) -> Examples:
        """Return a client's own examples from an npz file with the arrays x and y."""
        x, y = data.load_examples(self.dataset, self.form, path)
        _warn_once(path, x)
        return Examples.of(x, y, sgd.device(self.device))

    def train(
        self,
        arrays: ModelArrays,
        examples: Examples,
        *,
        client: int,
        **how: Unpack[How],
    ) -> tuple[ModelArrays, float]:
        """Train on a client's examples; repeated calls give equal bits on a CPU with equal threads.

        Parameters
        ----------
        arrays : the initial model.
        examples : the training examples.
        client, how : the client's number, and the arguments of :class:`How`.

        Returns
        -------
        tuple
            The new arrays, and the mean training loss, which may be NaN or Inf.

        Raises
        ------
        ConfigError : the arrays do not fit the model.
        """
        model, (draws, work) = self._loaded(arrays), self._work(how)
        with working.drawing(model, lambda: int(draws(f"layers/{client}").integers(2**63))):
            loss = sgd.fit(model, self._share(examples, client, draws), **work)
        return models.to_arrays(model), loss

    def train_many(
        self,
        arrays: ModelArrays,
        clients: Sequence[tuple[Examples, int]],
        **how: Unpack[How],
    ) -> Iterator[tuple[ModelArrays, float]]:
        """Train clients at once from the same arrays, by :func:`.batched.fit_many`.

        Parameters
        ----------
        arrays : the common initial model.
        clients : each client's examples and number.
        how : as in :meth:`train`.

        Returns
        -------
        Iterator
            For each client in order the result of :meth:`train`; all are trained before the first result.

        Raises
        ------
        ConfigError : the arrays do not fit the model.
        """
        model, (draws, work) = self._loaded(arrays), self._work(how)
        shares = [self._share(examples, client, draws) for examples, client in clients]
        values, losses = batched.fit_many(model, shares, **work)
        names = [name for name, _ in model.named_parameters()]
        return (
            ({name: value[i].cpu().numpy().copy() for name, value in zip(names, values, strict=True)}, loss)
            for i, loss in enumerate(losses)
        )

    def _work(self, how: How) -> tuple[_Draws, dict[str, Any]]:
        """Return the factory of a round's generators, and the arguments of its trainings."""
        work = {key: value for key, value in how.items() if key not in ("round_", "seed")}
        work |= {"loss": self._loss, "low": self.precision == BFLOAT16}
        return partial(generator, how["seed"], how["round_"]), work

    def _share(self, examples: Examples, client: int, draws: _Draws) -> sgd.Share:
        crops = draws(f"augment/{client}") if self.augment == CROP_FLIP else None
        return sgd.Share(examples.x, examples.y, draws(f"batches/{client}"), crops)

    def clients_at_once(self, batch_size: int, room: int = 0) -> int:
        """Return how many clients to train at once, by memory; 1 if the model cannot be stacked.

        Parameters, gradients, layers' outputs and updates take at most ``room`` bytes, by default a quarter of the
        GPU's memory, or 1 GiB on a CPU. The images are extra, twice.
        """
        model, device = self._model(), sgd.device(self.device)
        if not stacked.supports(model, self.form.shape):
            stacked.say_not_together(self.model)
            return 1
        cuda = device.type == "cuda"
        room = room or (torch.cuda.get_device_properties(device).total_memory // 4 if cuda else 2**30)
        return max(1, room // stacked.bytes_a_client(model, self.form.shape, batch_size))

    def evaluate_test(self, arrays: ModelArrays) -> tuple[float, float]:
        """Return mean loss and metric of the model on the test images."""
        with naming("model", self.model, "its evaluation raised"):
            return self.evaluate(arrays, self._tensors[1])

    def evaluate_clients(self, arrays: ModelArrays) -> dict[str, float]:
        """Return the model's metric on each client's test examples, by name; {} if the data name no clients there."""
        owners = self.data.test_owners
        if owners is None:
            return {}
        (_, test), found = self._tensors, {}
        for client in np.unique(owners).tolist():
            rows = torch.from_numpy(np.flatnonzero(owners == client)).to(test.x.device)
            found[self.data.clients[client]] = self.evaluate(arrays, Examples(test.x[rows], test.y[rows]))[1]
        return found

    def evaluate(self, arrays: ModelArrays, examples: Examples) -> tuple[float, float]:
        """Return the model's mean loss and its ``form.metric`` on some examples."""
        return sgd.evaluate(self._loaded(arrays), examples.x, examples.y, self._loss)

    @property
    def _tensors(self) -> tuple[Examples, Examples]:
        return tensors(self.data, sgd.device(self.device))

    @property
    def _loss(self) -> sgd.Loss:
        return models.loss_of(self.model, regression=self.form.regression)

    def _model(self) -> torch.nn.Module:
        return working.model(*self._which)

    @property
    def _which(self) -> tuple[str, Form, torch.device, str, str]:
        return self.model, self.form, sgd.device(self.device), self.model_dir, self.source

    def _loaded(self, arrays: ModelArrays) -> torch.nn.Module:
        sgd.products(self.precision)
        model = working.fresh(*self._which)
        models.load_arrays(model, arrays)
        return model


def _warn_once(path: str, x: Singles) -> None:
    """Warn once for each file with examples from which a model learns badly."""
    if path not in _judged:
        _judged.add(path)
        for caution in inputs(x, f"x in {path}"):
            logger.warning("%s", caution)
