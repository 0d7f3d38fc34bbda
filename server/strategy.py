"""Build a strategy from a configuration."""

import glob
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import FedAvgM

from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.rules import bands
from aoi_fl.config.run import RunConfig
from aoi_fl.server.folder import NOISE_KEY
from aoi_fl.server.terms import Rates
from aoi_fl.strategies import RoundOptions
from aoi_fl.strategies.aggregation.private import PrivateMean
from aoi_fl.strategies.strategy import AgeAwareStrategy


def make_strategy(
    config: RunConfig,
    run: str,
    token: str | None = None,
    rates: Rates | None = None,
    untrained: Sequence[str] = (),
    names: Sequence[str] = (),
    measured: Sequence[str] = (),
    **settings: Any,
) -> AgeAwareStrategy:
    """Build the strategy of a configuration.

    Parameters
    ----------
    config : the run's configuration
    run, token : the run's name, and a token that distinguishes it from earlier runs of that name
    rates : given rates; None: as the key ``rates`` sets them
    untrained : names of the model's arrays that clients do not train, which a private run leaves as they are
    names : names of the clients by the data
    measured : names of the model's buffers
    settings : observer, configure and resume of :class:`aoi_fl.strategies.strategy.AgeAwareStrategy`
    """
    shared: dict[str, Any] = {f.name: getattr(config, f.name) for f in fields(RoundOptions) if hasattr(config, f.name)}
    options = RoundOptions(
        **{**shared, "deterministic": True},
        run=run,
        names=tuple(names),
        measured=tuple(measured),
        token=token,
        min_clients=config.num_clients,
        evaluate_timeout=max(config.train_timeout, 600.0),
        enough=config.clients_per_round if config.over_selection > 1 else None,
        at_work=config.clients_per_round if config.buffer else None,
    )
    decides = "coordination" in REGISTRY[config.policy].keys
    keys: dict[str, Any] = config.flat() | {"clients-per-round": (decides and config.buffer) or config.sent}
    if rates is not None:
        keys["rates"] = rates
    if config.server_momentum:
        settings["aggregation"] = FedAvgM(server_learning_rate=1.0, server_momentum=config.server_momentum)
    if config.privacy != "none":
        settings["aggregation"] = PrivateMean(
            clip=config.clip,
            noise_multiplier=config.noise_multiplier,
            rounds=config.num_server_rounds,
            per_round=config.clients_per_round,
            bands=bands(config),
            delta=config.delta,
            max_epsilon=config.max_epsilon or math.inf,
            strategy=settings.get("aggregation"),
            metrics=config.metrics,
            frozen=tuple(map(glob.escape, untrained)),
            secret=Path(config.runs_dir) / run / NOISE_KEY,
        )
    made: AgeAwareStrategy = REGISTRY[config.policy].make(keys, options=options, weights=config.weights, **settings)
    return made
