"""A federation that trains along a history of selections, without server and messages.

The simulator makes the selections of a real run with the same seed, and a client's training is a function of model,
data, number and round. So this is the run itself, for every policy and weights of the simulator.
"""

import itertools
import re
from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from aoi_fl.lab.experiments.harness.base import Ints
from aoi_fl.lab.experiments.harness.federation import DIGITS
from aoi_fl.lab.experiments.harness.setting import CLIENTS, SIZES, TRAINING
from aoi_fl.science.client_stats import Report
from aoi_fl.science.selection import everyone
from aoi_fl.science.simulate import simulate


class Federation(ABC):
    """Clients with data: ``sizes`` (n,) examples each, and the run's ``seed``."""

    sizes: Ints
    seed: int

    @abstractmethod
    def initial_arrays(self):
        """Return the first model."""

    @abstractmethod
    def train(self, arrays, client, round_):
        """Return a client's arrays after its local training, and its mean training loss."""

    def models(self, history):
        """Yield the first model, then that after each round: θ + Σ ω_i(θ_i − θ) over the participants."""
        arrays = self.initial_arrays()
        yield arrays
        for t in range(1, history.rounds + 1):
            arrays, _ = self._aggregated(arrays, history.selection(t), t)
            yield arrays

    def rounds(self, history):
        """Yield each round with the model after it."""
        return itertools.islice(enumerate(self.models(history)), 1, None)

    def history(self, policy, rounds, weighting=None):
        """Return the selections of a policy on these clients, all always available."""
        return simulate(policy, everyone(self.sizes), rounds, self.seed, weighting=weighting)

    def play(self, policy, rounds, weighting, after, availability=None):
        """Train while the policy selects, so a policy that learns from losses gets the real ones.

        ``after`` is called with each round and the model after it; the others are as for
        :func:`aoi_fl.science.simulate.simulate`.
        """
        arrays = self.initial_arrays()
        losses = np.full(len(self.sizes), np.nan)

        def observe(round_, selection):
            nonlocal arrays
            arrays, losses[selection.clients] = self._aggregated(arrays, selection, round_)
            after(round_, arrays)

        def reports(round_, clients):
            return Report(clients, losses[clients], np.full(len(clients), np.nan))

        return simulate(
            policy,
            everyone(self.sizes),
            rounds,
            self.seed,
            weighting=weighting,
            availability=availability,
            reports=reports,
            observe=observe,
        )

    def late(self, policy, rounds, weighting, evaluate, count, availability=None):
        """Train as :meth:`play`; return the means of ``evaluate(model)`` over some late rounds, and the history."""
        marks, found = late_rounds(rounds, count), []

        def after(round_, arrays):
            if round_ in marks:
                found.append(evaluate(arrays))

        history = self.play(policy, rounds, weighting, after, availability)
        return np.mean(found, axis=0).tolist(), history

    def _aggregated(self, arrays, selection, round_):
        """Return the model after a round, and each participant's mean training loss."""
        if not len(selection.clients):
            return arrays, np.empty(0)
        rest = 1.0 - selection.weights.sum()
        sums = {name: rest * array.astype(np.float64) for name, array in arrays.items()}
        losses = []
        for client, weight in zip(selection.clients.tolist(), selection.weights.tolist(), strict=True):
            trained, loss = self.train(arrays, client, round_)
            losses.append(loss)
            for name, array in trained.items():
                sums[name] += weight * array
        return {name: total.astype(np.float32) for name, total in sums.items()}, np.array(losses)


def late_rounds(rounds, count):
    """Return about ``count`` evenly spaced rounds of the last quarter, the last one among them.

    >>> [*late_rounds(40, 5)], [*late_rounds(2, 5)]
    ([32, 34, 36, 38, 40], [2])
    """
    length = max(1, rounds // 4)
    step = max(1, length // count)
    return range(rounds - (length - 1) // step * step, rounds + 1, step)


class Dealt(Federation):
    """A data set dealt out to clients, and a model to train on it.

    Parameters
    ----------
    dataset, data_dir, model, seed : as run keys
    clients : number of shares
    training : run keys of local training with their values, if not the data set's own
    split : arguments of :func:`aoi_fl.learning.partition.make`: kind, alpha, sizes
    """

    def __init__(self, dataset, data_dir, model, seed, clients, training=(), **split):
        from aoi_fl.config.keys import TaskSettings
        from aoi_fl.learning import partition, sgd
        from aoi_fl.learning.task import Task

        sgd.threads(1)
        self.seed = seed
        kept_to = DIGITS if dataset == "digits" else {}
        keys = {**kept_to, **dict(training), "dataset": dataset, "model": model, "seed": seed}
        self.settings = TaskSettings.model_validate(keys).resolved()
        self.task = Task(dataset, data_dir, self.settings.architecture, "auto", seed)
        indices = partition.make(self.task.data.train_y, clients, seed=seed, **split)
        self.parts = [self.task.examples(part) for part in indices]
        self._indices = indices
        self.sizes = np.array([len(part) for part in indices], dtype=np.int64)

    def everything(self):
        """Return the examples of all clients, in their order."""
        return self.task.examples(np.concatenate(self._indices))

    def tested(self, history, rounds):
        """Return the test accuracy after these rounds."""
        return [self.task.evaluate_test(model)[1] for t, model in self.rounds(history) if t in rounds]

    def curve(self, history):
        """Yield a row for each round: the test accuracy and loss after it, and how many clients trained."""
        for t, model in self.rounds(history):
            loss, accuracy = self.task.evaluate_test(model)
            trained = len(history.selection(t).clients)
            yield {"round": t, "accuracy": accuracy, "loss": round(loss, 7), "trained": trained}

    def initial_arrays(self):
        """Return the task's first model."""
        return self.task.initial_arrays()

    def train(self, arrays, client, round_):
        """Train on a client's own examples for the local epochs."""
        return self.fit(arrays, self.parts[client], client, round_, epochs=self.settings.local_epochs)

    def fit(self, arrays, examples, client, round_, **length):
        """Return arrays and loss after training on examples; client and round give the order of the batches."""
        return self.task.train(
            arrays,
            examples,
            round_=round_,
            client=client,
            learning_rate=self.settings.rate(max(round_, 1)),
            batch_size=self.settings.batch_size,
            seed=self.seed,
            **length,
        )


dealt = lru_cache(maxsize=1)(Dealt)  # the last one is kept for other policies


def dealt_as(settings, options, seed, split, clients=CLIENTS):
    """Return a :class:`Dealt` with the data set, the model and the local training of an experiment's settings.

    ``split`` is ``iid``, ``dirichlet ALPHA`` or ``zipf``.
    """
    training = tuple((key, settings[key]) for key in TRAINING if key in settings)
    kind, *alpha = re.split("[ :-]", split.lower())
    how = (
        {"kind": "iid", "sizes": SIZES}
        if kind == "zipf"
        else {"kind": kind} | ({"alpha": float(*alpha)} if alpha else {})
    )
    return dealt(settings["dataset"], str(options.data_dir), settings["model"], seed, clients, training, **how)
