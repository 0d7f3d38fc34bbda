"""A federation played along a history of selections, without server and wire.

The simulator makes the selections of a real run with the same seed, and what a client learns is a function of the
model, its data, its number and the round; so this is the run itself, of any policy and weights that the simulator
knows.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.experiments.harness.federation import DIGITS
from aoi_fl.science.history import History
from aoi_fl.science.selection import Population, Selector
from aoi_fl.science.simulate import Decentralised, simulate
from aoi_fl.science.weighting import Weighting

Arrays = Mapping[str, NDArray[np.float32]]


class Dealt:
    """A data set dealt out to clients, and a model to train on it.

    Parameters
    ----------
    dataset, data_dir, model, seed : as run keys
    clients : how many share it
    split : how, as :func:`aoi_fl.learning.partition.make` takes it: kind, alpha, sizes

    Attributes
    ----------
    parts : each client's examples
    sizes : (n,) how many these are
    """

    def __init__(
        self, dataset: str, data_dir: str, model: str, seed: int, clients: int, split: Mapping[str, Any]
    ) -> None:
        from aoi_fl.learning import partition, sgd
        from aoi_fl.learning.settings import TaskSettings
        from aoi_fl.learning.task import Task

        sgd.threads(1)
        self.seed = seed
        kept_to = DIGITS if dataset == "digits" else {}
        keys = {**kept_to, "dataset": dataset, "model": model, "seed": seed}
        self.settings = TaskSettings.model_validate(keys).resolved()
        self.task = Task(dataset, data_dir, self.settings.model, "auto", seed)
        indices = partition.make(self.task.data.train_y, clients, seed=seed, **split)
        self.parts = [self.task.examples(part) for part in indices]
        self.sizes = np.array([len(part) for part in indices], dtype=np.int64)

    def fit(self, arrays: Any, examples: Any, client: int, round_: int, **length: int) -> Any:
        """Return the arrays after training on examples; client and round make the order of the batches."""
        return self.task.train(
            arrays,
            examples,
            round_=round_,
            client=client,
            learning_rate=self.settings.rate(max(round_, 1)),
            batch_size=self.settings.batch_size,
            seed=self.seed,
            **length,
        )[0]

    def models(self, history: History) -> Iterator[Arrays]:
        """Yield the first model, then that after each round: θ + Σ ω_i(θ_i − θ) over those who took part."""
        arrays: Arrays = self.task.initial_arrays()
        yield arrays
        for t in range(1, history.rounds + 1):
            selection = history.selection(t)
            rest = 1.0 - selection.weights.sum()
            sums = {name: rest * array.astype(np.float64) for name, array in arrays.items()}
            for client, weight in zip(selection.clients.tolist(), selection.weights.tolist(), strict=True):
                trained = self.fit(arrays, self.parts[client], client, t, epochs=self.settings.local_epochs)
                for name, array in trained.items():
                    sums[name] += weight * array
            if len(selection.clients):
                arrays = {name: total.astype(np.float32) for name, total in sums.items()}
            yield arrays

    def history(
        self,
        policy: Decentralised | Selector,
        rounds: int,
        weighting: Weighting | None = None,
        **more: Any,
    ) -> History:
        """Return the selections of a policy on these clients; ``more`` as :func:`simulate` takes it."""
        n = len(self.sizes)
        everyone = Population(np.zeros(n, np.int64), self.sizes, np.ones(n, np.bool_))
        return simulate(policy, everyone, rounds, self.seed, weighting=weighting, **more)


@lru_cache(maxsize=1)
def dealt(dataset: str, data_dir: str, model: str, seed: int, clients: int, **split: Any) -> Dealt:
    """Return a :class:`Dealt`, the last one again for the other policies that share it."""
    return Dealt(dataset, data_dir, model, seed, clients, split)
