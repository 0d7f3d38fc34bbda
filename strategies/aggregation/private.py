"""A private mean: updates clipped one at a time, a fixed divisor, and noise that is correlated over rounds.

The new model is θ + (Σ_i clip(θ_i − θ) + w_t)/k. What then makes a step of this mean may be any Flower strategy that
averages: it is handed the mean as the one update of the round.

Each round's noise belongs to one sum. A round that runs again after a break with another sum leaves the
model as it is: two models with the same noise would show the difference of their sums.
"""

import hashlib
import json
import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi, Strategy
from numpy.typing import NDArray

from aoi_fl.config.policies import SEPARATED
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.errors import ConfigError, ResumeError
from aoi_fl.science.privacy.account import Account, check_delta, check_positive
from aoi_fl.science.privacy.bounds import ParticipationBounds, kept_bounds
from aoi_fl.science.privacy.factorisation import KEY_BYTES, CorrelatedNoise
from aoi_fl.science.selection import Selector
from aoi_fl.science.simulate import Decentralised
from aoi_fl.strategies.aggregation.base import Aggregation, Draft
from aoi_fl.strategies.aggregation.metrics import aggregate, stripped
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.records import State
from aoi_fl.strategies.validation import Update

logger = logging.getLogger("flwr")
_AVERAGING = (FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi, FedProx)


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

    Raises
    ------
    ConfigError
        A value is out of range, or the strategy does not average.
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

    def __post_init__(self) -> None:
        check_positive("clip", self.clip)
        check_positive("noise-multiplier", self.noise_multiplier)
        check_delta(self.delta)
        if not self.max_epsilon > 0:
            raise ConfigError("max-epsilon", self.max_epsilon, "above 0", "Raise it. Infinity means no bound.")
        for key, value in (("bands", self.bands), ("rounds", self.rounds), ("per-round", self.per_round)):
            if value < 1:
                raise ConfigError(key, value, "a whole number from 1 on", "Raise it.")
        if self.strategy is not None and not averages(self.strategy):
            allowed = tuple(kind.__name__ for kind in _AVERAGING)
            remedy = "Choose one of these, or none: a private mean takes the mean of the updates only."
            raise ConfigError("strategy", type(self.strategy).__name__, allowed, remedy)

    @property
    def momentum(self) -> float:
        """The momentum of the strategy's step, for which the noise is made."""
        return float(getattr(self.strategy, "server_momentum", 0.0)) if type(self.strategy) is FedAvgM else 0.0


def averages(strategy: Strategy) -> bool:
    """Return whether a Flower strategy makes its step of nothing but the updates' mean."""
    return type(strategy).aggregate_train in {kind.aggregate_train for kind in _AVERAGING}


class Privacy:
    """What a private run guarantees, round by round.

    Parameters
    ----------
    spec : the private mean
    law : the policy of which the bounds follow; None for one without any
    clients : n, for a law that is a selector

    Attributes
    ----------
    separation : b, which clients are asked to keep and the server enforces
    """

    def __init__(self, spec: PrivateMean, law: Decentralised | Selector | None, clients: int | None) -> None:
        self.spec, self._law, self._clients = spec, law, clients
        self.separation = kept_bounds(law, spec.rounds, clients).min_separation
        if spec.bands > 1 and self.separation == 1:
            raise ConfigError(
                "bands",
                spec.bands,
                "1, because the policy lets a client take part in two consecutive rounds",
                f"Set bands to 1, or choose one of the policies {', '.join(SEPARATED)} with equal rates and without "
                "compensation.",
            )
        self.account  # noqa: B018  refuses more bands than b

    @cached_property
    def account(self) -> Account:
        """The account of all rounds."""
        spec = self.spec
        return Account(self._bounds(spec.rounds), spec.rounds, spec.noise_multiplier, spec.bands, spec.momentum)

    def epsilon(self, round_: int) -> float:
        """Return ε after so many rounds, without amplification."""
        return self.account.epsilon(self.spec.delta, self._bounds(round_).max_participations)

    def over(self, round_: int) -> str | None:
        """Return why a round must not run: it would spend more than ``max_epsilon``; None if it may."""
        if round_ <= self.spec.rounds and (spent := self.epsilon(round_)) <= self.spec.max_epsilon:
            return None
        if round_ > self.spec.rounds:
            return f"the noise is made for {self.spec.rounds} rounds"
        return f"round {round_} would spend ε = {spent:.4g}, more than max-epsilon {self.spec.max_epsilon:g}"

    def _bounds(self, rounds: int) -> ParticipationBounds:
        return kept_bounds(self._law, rounds, self._clients)


class NoiseKey:
    """The secret of a run's noise, the terms that it was made for, and which sum each round's noise was used for.

    Parameters
    ----------
    path : a file that only its owner can read; None: the secret is gone with the process
    terms : what the noise depends on beside the key
    resumed : whether it must be there already

    Raises
    ------
    ResumeError
        A run that goes on has no such file, or other terms: its noise would no longer cancel, or the account be wrong.
    """

    def __init__(self, path: Path | None, terms: Mapping[str, float], resumed: bool) -> None:
        self._path, self._terms = path, terms
        self._used: dict[str, str] = {}
        if not resumed:
            self.key = secrets.token_bytes(KEY_BYTES)
            self._keep()
            return
        try:
            kept = json.loads(path.read_text()) if path is not None else {}
            self.key, self._used = bytes.fromhex(kept["key"]), dict(kept["used"])
        except (OSError, ValueError, KeyError) as error:
            raise ResumeError(
                f"the noise key {path} of a private run cannot be read ({type(error).__name__}): bring it back from a "
                "copy, or start the run anew"
            ) from error
        for name, value in kept.get("terms", {}).items():
            if value != terms.get(name):
                raise ResumeError(
                    f"the private run began with {name} {value}, not {terms.get(name)}: give {value} again"
                )

    def may_use(self, round_: int, digest: str) -> bool:
        """Return whether a round's noise may go with this sum, and write down that it does."""
        if self._used.setdefault(str(round_), digest) != digest:
            return False
        self._keep()
        return True

    def _keep(self) -> None:
        if self._path is not None:
            kept = {"key": self.key.hex(), "terms": self._terms, "used": self._used}
            write_whole(self._path, json.dumps(kept).encode(), mode=0o600)


class ByPrivateMean:
    """The aggregation of a :class:`PrivateMean`.

    Parameters
    ----------
    spec : the private mean
    inner : what makes the new model of it
    options : names of records, and how metrics are aggregated
    resumed : whether the run goes on
    """

    opaque = False

    def __init__(self, spec: PrivateMean, inner: Aggregation, options: RoundOptions, resumed: bool) -> None:
        self._spec, self._inner, self._options = spec, inner, options
        terms = {key: getattr(spec, key) for key in ("rounds", "bands", "clip", "noise_multiplier", "momentum")}
        self._key = NoiseKey(spec.secret, terms, resumed)
        self._noise: CorrelatedNoise | None = None
        self._account: Account | None = None
        self._round, self._model = 0, ArrayRecord()
        self._sum: NDArray[np.float64] = np.empty(0)
        self._change: NDArray[np.float64] = np.empty(0)  # of the client at hand
        self._first: tuple[int, Message, Update] | None = None
        self._contents: dict[int, RecordDict] = {}

    def promise(self, privacy: Privacy) -> None:
        """Take the account by which noise is drawn, before round 1."""
        self._account = privacy.account

    def to_train(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Return what the inner aggregation sends."""
        if not _floating(arrays):
            raise ConfigError(
                "model", None, "one with a floating-point array for a private mean", "Choose another model."
            )
        return self._inner.to_train(round_, arrays, config, nodes, grid)

    def begin(self, round_: int, model: ArrayRecord) -> None:
        """Start from nothing."""
        self._round, self._model, self._first, self._contents = round_, model, None, {}
        self._sum = np.zeros(sum(model[name].numpy().size for name in _floating(model)))
        self._change = np.empty_like(self._sum)

    def add(self, client: int, reply: Message, update: Update, weight: float) -> None:
        """Add the update's change of the model, scaled down to the clip; every client weighs the same."""
        at = 0
        for name in self._names:
            new, old = np.ravel(update.arrays[name]), np.ravel(self._model[name].numpy())
            np.subtract(new, old, out=self._change[at : at + old.size], dtype=np.float64)
            at += old.size
        norm = math.sqrt(float(self._change @ self._change))
        if norm > self._spec.clip:
            self._change *= self._spec.clip / norm
        self._sum += self._change
        self._contents[client] = stripped(reply)
        if self._first is None or client < self._first[0]:
            self._first = client, reply, update

    @property
    def _names(self) -> list[str]:
        return _floating(self._model)

    def finish(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the model that the inner aggregation makes of the noisy mean; None if no update came."""
        contents = [content for _, content in sorted(self._contents.items())]
        options = self._options
        metrics = aggregate(contents, options.weighted_by_key, options.train_metrics_aggr_fn)
        if self._first is None:
            return None, metrics
        digest = hashlib.sha256(self._key.key + self._sum.tobytes()).hexdigest()
        if not self._key.may_use(self._round, digest):
            logger.warning(
                "Round %d ran before with other updates. Its noise is used up, so its model stays.",
                self._round,
            )
            return None, metrics
        client, reply, update = self._first
        self._inner.begin(self._round, self._model)
        self._inner.add(client, reply, replace(update, arrays=self._noisy(update)), 1.0)
        return self._inner.finish()[0], metrics

    def _noisy(self, update: Update) -> dict[str, NDArray[Any]]:
        """Return the model with the noisy mean change; arrays of whole numbers stay as they are."""
        if self._account is None:
            raise ConfigError("aggregation", "PrivateMean", "run by the policy's own start", "Call start.")
        if self._noise is None:
            deviation = self._account.deviation * self._spec.clip
            self._noise = CorrelatedNoise(self._key.key, self._account.column, deviation, self._sum.size)
        mean = (self._sum + self._noise.of(self._round)) / self._spec.per_round
        arrays: dict[str, NDArray[Any]] = {}
        at = 0
        for name in update.arrays:
            arrays[name] = self._model[name].numpy()
        for name in self._names:
            old = arrays[name]
            arrays[name] = (old + mean[at : at + old.size].reshape(old.shape)).astype(old.dtype)
            at += old.size
        return arrays

    def to_evaluate(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, nodes: Sequence[int], grid: Grid
    ) -> Mapping[int, Draft]:
        """Return what the inner aggregation sends."""
        return self._inner.to_evaluate(round_, arrays, config, nodes, grid)

    def evaluated(self, round_: int, replies: Sequence[Message]) -> MetricRecord | None:
        """Return what the inner aggregation makes of the evaluations."""
        return self._inner.evaluated(round_, replies)

    def state_dict(self) -> State:
        """Return the inner aggregation's; the noise's secret lies in a file of its own."""
        return self._inner.state_dict()

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`state_dict` returned."""
        self._inner.load_state_dict(memory)

    def summary(self) -> None:
        """Log what is promised."""
        if self._account is not None:
            logger.info(
                "private mean: clip %g, %d bands, ε = %.4g at δ = %g after %d rounds, without amplification",
                self._spec.clip,
                self._spec.bands,
                self._account.epsilon(self._spec.delta),
                self._spec.delta,
                self._spec.rounds,
            )
        self._inner.summary()


def _floating(model: ArrayRecord) -> list[str]:
    return [name for name, array in model.items() if np.dtype(array.dtype).kind == "f"]
