"""A private mean: updates clipped one at a time, a fixed divisor, and noise that is correlated over rounds.

The new model is θ + (Σ_i clip(θ_i − θ) + w_t)/k. What then makes a step of this mean may be any Flower strategy that
averages: it is handed the mean as the one update of the round.

Every round has noise, also one without an update. :mod:`aoi_fl.strategies.aggregation.releases` keeps what a round has
published, so that no round publishes two sums.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvgM, Strategy

from aoi_fl import protocol
from aoi_fl.config.policies import SEPARATED
from aoi_fl.protocol import npy
from aoi_fl.protocol.arrays import to_record
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.science.errors import ConfigError, check_choice, check_whole
from aoi_fl.science.privacy.account import Account, check_delta, check_positive, multiplier_of
from aoi_fl.science.privacy.bounds import min_separation
from aoi_fl.science.selection import Selector
from aoi_fl.science.simulate import Decentralised
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.science.types import Arrays, Floats
from aoi_fl.strategies.aggregation.base import (
    AVERAGING,
    NO_METRICS,
    Aggregation,
    Draft,
    NewModel,
    averages,
    is_statistic,
)
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.aggregation.metrics import stripped
from aoi_fl.strategies.aggregation.releases import Releases
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.validation import Refused, Update

METRICS = ("hidden", "clear")


@dataclass(frozen=True)
class PrivateMean:
    """A mean with client-level differential privacy: ``aggregation=PrivateMean(…)`` of a policy.

    Parameters
    ----------
    clip : the largest norm of an update, above 0; larger ones are scaled down to it
    noise_multiplier : the noise's deviation over the sensitivity of all participations, above 0
    rounds : T, of the whole run
    per_round : k, the fixed divisor of the sum
    bands : bands of the noise; 1 is white noise; more need a policy with as many rounds between two participations
    delta : δ of the ε that is recorded; below 1 / number of clients
    max_epsilon : the run ends before ε is above it; infinite for no bound
    strategy : a Flower strategy that averages and makes a step of the private mean; None: the mean is the new model
    secret : file that keeps the noise's key for a run that is resumed; None: the key is gone with the process
    metrics : "clear" records and prints what clients report beside their updates; "hidden": their participation alone
    frozen : names of arrays that stay as they are, outside sum, clip and noise; ``*`` stands for any text

    Raises
    ------
    ConfigError
        A value is out of range, or the strategy does not average.

    Examples
    --------
    >>> from aoi_fl.science.markov import MarkovPolicy
    >>> mean = PrivateMean.for_epsilon(8, MarkovPolicy.optimal(100, 15), rounds=100, delta=1e-3)
    >>> mean.per_round, mean.bands, round(mean.noise_multiplier, 3)
    (15, 6, 0.48)
    """

    clip: float
    noise_multiplier: float
    rounds: int
    per_round: int
    bands: int = 1
    delta: float = 1e-5
    max_epsilon: float = math.inf
    strategy: Strategy | None = None
    secret: Path | None = None
    metrics: Literal["hidden", "clear"] = "hidden"
    frozen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_positive("clip", self.clip)
        check_positive("noise-multiplier", self.noise_multiplier)
        check_delta(self.delta)
        if not self.max_epsilon > 0:
            raise ConfigError("max-epsilon", self.max_epsilon, "above 0", "Raise it. Infinity means no bound.")
        for key, value in (("bands", self.bands), ("rounds", self.rounds), ("per-round", self.per_round)):
            check_whole(key, value)
        check_choice("metrics", self.metrics, METRICS)
        if self.strategy is not None and not averages(self.strategy):
            allowed = tuple(kind.__name__ for kind in AVERAGING)
            remedy = "Choose one of these, or none: a private mean takes the mean of the updates only."
            raise ConfigError("strategy", type(self.strategy).__name__, allowed, remedy)

    @classmethod
    def for_epsilon(
        cls, epsilon: float, law: Any, rounds: int, delta: float = 1e-5, *, clients: int | None = None, **more: Any
    ) -> Self:
        """Return the private mean with the least noise that keeps (ε, δ), with k and the bands of a policy.

        Parameters
        ----------
        epsilon, delta : of the whole run, without amplification
        law : a policy of the simulator, as :class:`aoi_fl.science.markov.MarkovPolicy`
        rounds : T, of the whole run
        clients : n, for a policy of the server; one by which clients decide knows it
        more : further fields; ``clip`` is 1 by default, and the bands are as many as the policy allows

        Raises
        ------
        ConfigError
            No noise keeps ε, or it is not known how many clients a round has.
        """
        k = getattr(law, "per_round", None)
        k = round(float(np.sum(law.rates))) if k is None and isinstance(law, SystematicPolicy) else k
        if k is None:
            raise ConfigError("policy", type(law).__name__, "one with a number of clients a round", "Choose another.")
        values: dict[str, Any] = {"clip": 1.0, "bands": min(min_separation(law, clients or 1), rounds), **more}
        made = cls(noise_multiplier=multiplier_of(epsilon, delta), rounds=rounds, per_round=k, delta=delta, **values)
        account_of(made, law, clients)
        return made

    @property
    def momentum(self) -> float:
        """The momentum of the strategy's step, for which the noise is made."""
        return float(getattr(self.strategy, "server_momentum", 0.0)) if type(self.strategy) is FedAvgM else 0.0


def account_of(spec: PrivateMean, law: Decentralised | Selector | None, clients: int | None) -> Account:
    """Return the account of all rounds of a private mean, with the separation that both ends of a run keep.

    Parameters
    ----------
    spec : the private mean
    law : the policy of which the bounds follow; None for one without any
    clients : n, for a law that is a selector

    Raises
    ------
    ConfigError
        The noise needs more rounds between two participations of a client than the law has.
    """
    separation = min_separation(law, clients or 1)
    if spec.bands > separation:
        allowed = f"at most {separation}, the fewest rounds between two participations"
        remedy = f"Set bands to at most {separation}, or choose {', '.join(SEPARATED)} with equal rates."
        raise ConfigError("bands", spec.bands, allowed, remedy)
    return Account(separation, spec.rounds, spec.noise_multiplier, spec.bands, spec.momentum)


class ByPrivateMean(Mean):
    """The aggregation of a :class:`PrivateMean`, and what it guarantees round by round.

    Parameters
    ----------
    spec, account : the private mean, and the account of all rounds
    inner : what makes the new model of it
    options : names of records, and how metrics are aggregated
    resumed : whether the run goes on
    """

    _lost = NO_METRICS

    def __init__(
        self, spec: PrivateMean, account: Account, inner: Aggregation, options: RoundOptions, resumed: bool
    ) -> None:
        self.spec, self.account, self._inner = spec, account, inner
        self._releases = Releases(spec.secret, options.run, options.token, resumed)
        super().__init__(options)

    def epsilon(self, round_: int) -> float:
        """Return ε after so many rounds, without amplification."""
        return self.account.epsilon(self.spec.delta, round_)

    def over(self, round_: int) -> str | None:
        """Return why a round must not run: it would spend more than ``max_epsilon``; None if it may."""
        if round_ > self.spec.rounds:
            return f"the noise is made for {self.spec.rounds} rounds"
        if (spent := self.epsilon(round_)) <= self.spec.max_epsilon:
            return None
        return f"round {round_} would spend ε = {spent:.4g}, more than max-epsilon {self.spec.max_epsilon:g}"

    def promise(self, model: ArrayRecord, clients: int, done: int) -> None:
        """Fix the noise by the account, and check the model, before the next round.

        Parameters
        ----------
        model : the arrays that clients train
        clients : n
        done : the complete rounds of a resumed run

        Raises
        ------
        ConfigError
            An array of the model cannot have noise.
        ResumeError
            The noise of the run is not there, or has other terms.
        """
        spec, account = self.spec, self.account
        size = sum(model[name].numpy().size for name in self._trained(model))
        names = ("clip", "noise_multiplier", "rounds", "per_round", "bands", "delta")
        terms: dict[str, float] = {name: getattr(spec, name) for name in names}
        terms |= {"momentum": spec.momentum, "clients": clients, "size": size}
        terms |= {"min_separation": account.separation, "max_participations": account.participations(spec.rounds)}
        self._releases.agree(terms, done, account.column, account.deviation * spec.clip, size)

    def released(self, round_: int) -> Mapping[str, Any] | None:
        """Return the training that made a round's release, before a break; None: the round has no release yet."""
        return self._releases.training if round_ == self._releases.spent else None

    def drafts(
        self, kind: str, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Return what the inner aggregation sends."""
        return self._inner.drafts(kind, round_, arrays, config, nodes, grid)

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Start from nothing."""
        super().begin(round_, model)
        self._model, self._names = model, _floating(model, self.spec.frozen)
        self._sum: Floats = np.zeros(sum(model[name].numpy().size for name in self._names))
        self._change = np.empty_like(self._sum)  # of the client at hand

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Add the update's change of the model, scaled down to the clip; every client weighs the same.

        Raises
        ------
        Refused
            The change has no norm, because it is not finite.
        """
        largest = self._measure(update.arrays)
        if not largest < math.inf:
            raise Refused("its change of the model is not finite, so it cannot be clipped")
        if self.spec.metrics == "clear":
            self._contents[client] = stripped(reply)
            if self._options.train_metrics_aggr_fn is not None:
                self._held[client] = update.arrays, weight
                return
        self._add_change(largest)

    def _measure(self, arrays: Arrays) -> float:
        """Take a client's change of the model in hand, and return its largest value."""
        at = 0
        for name in self._names:
            change = npy.change(arrays[name], self._model[name].numpy(), np.dtype(np.float64))
            self._change[at : at + change.size] = np.ravel(change)
            at += change.size
        return float(np.abs(self._change).max(initial=0.0))

    def _take(self, arrays: Arrays, weight: float) -> None:
        self._add_change(self._measure(arrays))

    def _add_change(self, largest: float) -> None:
        """Add the change in hand, scaled down to the clip."""
        if largest > 0:
            self._change /= largest  # the squares of huge and of tiny numbers stay finite
            self._change *= min(largest, self.spec.clip / math.sqrt(float(self._change @ self._change)))
            self._sum += self._change

    def finish(self, training: Callable[[], Mapping[str, Any]] | None = None) -> NewModel:
        """Return the model that the inner aggregation makes of the noisy mean; a round without updates has noise too.

        ``training`` completes the record of the round, and returns what is kept with the release.

        Raises
        ------
        StorageError
            What is to be published cannot be written down before.
        """
        self._settle()
        about = None if training is None else training()
        mean = self._releases.of(self._round, self._sum, about) / self.spec.per_round
        arrays = {name: array.numpy() for name, array in self._model.items()}
        at = 0
        for name in self._names:
            old = arrays[name]
            with npy.silent_overflow():
                arrays[name] = np.asarray(old + mean[at : at + old.size].reshape(old.shape), old.dtype)
            at += old.size
        self._inner.begin(self._round, self._model)
        self._inner.add(0, self._reply(arrays), Update(arrays, 1, None, None), 1.0)
        return self._inner.finish()[0], self._metrics

    def _reply(self, arrays: Arrays) -> Message:
        """Return the one reply of the round, which the server makes: no record of a client's is in it."""
        options = self._options
        metrics = MetricRecord({options.weighted_by_key: 1})
        content = RecordDict({options.arrayrecord_key: to_record(arrays), protocol.METRICS: metrics})
        return Message(content, reply_to=Message(RecordDict(), 1, protocol.TRAIN))

    def _trained(self, model: ArrayRecord) -> list[str]:
        """Return the names of the arrays that get noise; raise ConfigError for one that must not."""
        names = _floating(model, self.spec.frozen)
        if not names:
            allowed = "one with a floating-point array that is not frozen, for a private mean"
            raise ConfigError("model", None, allowed, "Choose another model.")
        keep = "name it in PrivateMean(frozen=…), and it stays as it is."
        for name in names:
            if is_statistic(name):
                remedy = f"Use GroupNorm or LayerNorm in place of batch normalisation, or {keep}"
                raise ConfigError("model", name, "free of batch statistics: noise makes variances negative", remedy)
            if not npy.is_finite(model[name].numpy()):
                remedy = f"Leave it out of the model, as a buffer with persistent=False, or {keep}"
                raise ConfigError("model", name, "an array of finite numbers in a private run", remedy)
        return names

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Return what the inner aggregation makes of the evaluations."""
        return None if self.spec.metrics == "hidden" else self._inner.evaluated(round_, replies)

    def state_dict(self) -> State:
        """Return the inner aggregation's, and which release was the last; the secret lies in a file of its own."""
        return {**self._inner.state_dict(), **self._releases.state_dict()}

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`state_dict` returned; raise ResumeError if its release is not that of the noise key."""
        self._releases.load_state_dict(memory)
        self._inner.load_state_dict(memory)

    def complete(self) -> None:
        """Delete the secret of a complete run."""
        self._releases.forget()

    def summary(self) -> None:
        """Log what is promised."""
        logger.info(
            "private mean: clip %g, %d bands, ε = %.4g at δ = %g after %d rounds, without amplification",
            self.spec.clip,
            self.spec.bands,
            self.epsilon(self.spec.rounds),
            self.spec.delta,
            self.spec.rounds,
        )
        self._inner.summary()


def _floating(model: ArrayRecord, frozen: Sequence[str]) -> list[str]:
    """Return the names of the arrays that the noise covers."""
    floating = [name for name, array in model.items() if np.dtype(array.dtype).kind == "f"]
    return [name for name in floating if not any(fnmatchcase(name, pattern) for pattern in frozen)]
